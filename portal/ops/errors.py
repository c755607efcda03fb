"""The one error that stops bin/up before it starts anything."""


class PreflightFailed(Exception):
    """Something this machine lacks. `message` says what in one line, `fix` is what to type or do about it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
