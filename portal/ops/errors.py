"""Error that stops bin/up and bin/down, and its exit code."""

import sys
from collections.abc import Callable


class PreflightFailed(Exception):
    """A prerequisite is missing. `message` is one line, `fix` the command or advice."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


def exit_code_for(step: Callable[[], object]) -> int:
    """Run a step as a program started by venv.run_in_venv, and return its exit code.

    A failure is written to stderr: the message, then the fix as the last line.
    """
    try:
        step()
    except PreflightFailed as fault:
        sys.stderr.write(f"{fault.message}\n{fault.fix}\n")
        return 1
    return 0
