"""Connect the local terminal to a command in a session: raw keys, output and size changes."""

import itertools
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from berth.cli.exits import INTERRUPTED as LEFT
from berth.cli.signals import handle_signal
from berth.errors import InvalidInput
from berth.process import STDERR, Process

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = tty = None  # type: ignore[assignment]

PIECE_BYTES = 64 * 1024
RESIZED, INTERRUPTED, OVER = b"r", b"i", b"o"


def window_size() -> tuple[int, int]:
    """Return (columns, rows) of the local terminal.

    Uses COLUMNS and LINES only if the terminal has no size: exported values do not follow the
    window.
    """
    with suppress(OSError):
        size = os.get_terminal_size(0)
        if size.columns and size.lines:
            return size.columns, size.lines
    size = shutil.get_terminal_size()
    return size.columns, size.lines


def check_terminal() -> None:
    """Raise InvalidInput if standard input is no terminal."""
    if termios is None or not sys.stdin.isatty():
        raise InvalidInput("-t needs a terminal, and standard input is none.", hint="Leave -t away.")


def converse(process: Process, *, has_input: bool, has_terminal: bool) -> int | None:
    """Transfer input and output of a command until it ends. Returns its exit code."""
    reading, waking = os.pipe()
    sender = threading.Thread(target=_send, args=(process, reading, has_input), daemon=True)
    with _raw_keys(has_terminal), _signals(waking, has_terminal):
        sender.start()
        try:
            for stream, data in process.output():
                _write(2 if stream == STDERR else 1, data)
        finally:
            os.write(waking, OVER)
    sender.join(timeout=1)
    return process.exit_code


def _send(process: Process, waking: int, has_input: bool) -> None:
    """Send input to the command until it ends.

    Also handles the one-byte messages of the pipe `waking`: new size, Ctrl-C, end.
    """
    sources = [waking, *([0] if has_input else [])]
    if not has_input:
        process.close_input()
    while True:
        ready, _, _ = select.select(sources, [], [])
        if waking in ready:
            news = os.read(waking, 1)
            if news == OVER:
                return
            if news == RESIZED:
                process.resize(*window_size())
            elif news == INTERRUPTED:
                process.signal("INT")
        elif data := _input():
            process.write(data)
        else:
            process.close_input()
            sources.remove(0)


def _input() -> bytes:
    """Return typed or piped input; b"" at its end, or if it cannot be read (a directory)."""
    try:
        return os.read(0, PIECE_BYTES)
    except OSError:
        return b""


@contextmanager
def _raw_keys(is_wanted: bool) -> Iterator[None]:
    """Put the terminal into raw mode, so that Ctrl-C is a key; restores it in any case."""
    if not is_wanted:
        yield
        return
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # keeps keys typed ahead
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def _signals(waking: int, has_terminal: bool) -> Iterator[None]:
    """Write size changes, or Ctrl-C if it is no key, to the pipe. A second Ctrl-C exits."""
    interrupts = itertools.count(1)

    def resized() -> None:
        os.write(waking, RESIZED)

    def interrupted() -> None:
        if next(interrupts) > 1:
            os._exit(LEFT)  # the main thread may be blocked on the network
        os.write(waking, INTERRUPTED)

    number, act = (signal.SIGWINCH, resized) if has_terminal else (signal.SIGINT, interrupted)
    with handle_signal(number, act):
        yield


def _write(number: int, data: bytes) -> None:
    """Write all of `data`, in several calls if the pipe takes less at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(number, rest) :]
