"""The one error that stops bin/up before it starts anything."""

import sys
from collections.abc import Callable


class PreflightFailed(Exception):
    """Something this machine lacks. `message` says what in one line, `fix` is what to type or do about it."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


def exit_code_of(step: Callable[[], object]) -> int:
    """Run a step as a program that venv.run_in_venv started, and return its exit code.

    A failure is written to stderr: the message, then the fix as the last line.
    """
    try:
        step()
    except PreflightFailed as fault:
        sys.stderr.write(f"{fault.message}\n{fault.fix}\n")
        return 1
    return 0
