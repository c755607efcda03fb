"""The command `berth` as a program: in pipes, and in a terminal that a test types into."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import traceback
from pathlib import Path
from typing import Self

from tests.e2e.person import Person
from tests.e2e.portal import own_environment

BERTH = Path(sys.executable).with_name("berth")
PATIENCE_S = 90.0
# Tests that a shell runs in the background ignore Ctrl-C, and so would all that they start.
HEARS_INTERRUPTS = ("env", "--default-signal=INT")


class CommandLine:
    """Somebody's computer with the command on it, signed in by the environment."""

    def __init__(self, url: str, person: Person, home: Path) -> None:
        self.home = home
        self._environment = {
            **own_environment(),
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "BERTH_URL": url,
            "BERTH_TOKEN": person.token,
            "TERM": "xterm",
            "PYTHONUTF8": "1",
            # Shells export them now and then; the window's own size is the truth.
            "COLUMNS": "80",
            "LINES": "24",
        }

    def run(self, *arguments: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:  # noqa: A002
        return subprocess.run(
            [BERTH, *arguments],
            env=self._environment,
            cwd=self.home,
            input=input,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def say(self, *arguments: str) -> str:
        """What the command prints when all goes well."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*HEARS_INTERRUPTS, BERTH, *arguments],
            env=self._environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @staticmethod
    def end_of(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        """The rest of what it says on both channels; AssertionError with that when it does not end in time."""
        try:
            return process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"The command did not end: {process.communicate()!r}") from None

    def in_terminal(self, *arguments: str) -> "TypedInto":
        return TypedInto([str(BERTH), *arguments], self._environment, self.home)


class TypedInto:
    """A program in a terminal of 100 columns and 30 rows."""

    def __init__(self, argv: list[str], environment: dict[str, str], home: Path) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            try:
                _set_size(0, 100, 30)  # here, for the program may ask before the parent goes on
                os.chdir(home)
                os.execve(argv[0], argv, environment)
            finally:  # It raised; from here it would go on as a second pytest.
                traceback.print_exc(file=sys.__stderr__)  # into the terminal: sys.stderr is pytest's
                os._exit(1)
        self._raw = ""

    @property
    def shown(self) -> str:
        """All that came so far, without what only moves and colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._raw).replace("\r", "")

    def resize(self, columns: int, rows: int) -> None:
        _set_size(self._terminal, columns, rows)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def expect(self, pattern: str) -> re.Match[str]:
        """What of all that was shown fits; AssertionError with it when nothing does in time."""
        end = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.shown, re.MULTILINE)):
            assert time.monotonic() < end, f"{pattern} was not shown:\n{self.shown}"
            assert self._read(end), f"The program ended without {pattern}:\n{self.shown}"
        return found

    def exit_code(self) -> int:
        """Wait for its end."""
        end = time.monotonic() + PATIENCE_S
        while self._read(end):
            assert time.monotonic() < end, f"The program did not end:\n{self.shown}"
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close()

    def _read(self, end: float) -> bool:
        """Take in what comes next; False at the end of the program."""
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return True
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the other side of the terminal is closed
            return False
        self._raw += data.decode(errors="replace")
        return bool(data)


def _set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
