"""File locks of bin/up and bin/down, which the kernel releases with their process."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from portal.ops.console import Say
from portal.ops.paths import Layout


@contextlib.contextmanager
def running(layout: Layout) -> Iterator[bool]:
    """Lock the data directory for this process; yields False if another bin/up has it."""
    with os.fdopen(os.open(layout.lock_file, os.O_RDWR | os.O_CREAT, 0o644), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield True


def holder(layout: Layout) -> int | None:
    """Return the process id of the bin/up that locks the data directory, or None."""
    try:
        file = layout.lock_file.open("r+")
    except FileNotFoundError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = file.read()
            return int(text) if text.isdigit() else None
    return None


@contextlib.contextmanager
def directory_lock(directory: Path, *, is_shared: bool = False, waits: bool = True) -> Iterator[bool]:
    """Lock the directory itself, so that no file is left behind; yields True if locked."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    operation = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, operation if waits else operation | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def setup_lock(checkout: Path, log: Say) -> Iterator[None]:
    """Allow one set-up per checkout at a time, for any data directory. Waiting is logged."""
    folder = checkout / "portal" / "ops"
    with directory_lock(folder, waits=False) as is_free:
        if not is_free:
            log(f"this checkout is being set up by {holders(folder)}; waiting for it")
    with directory_lock(folder):
        yield


def holders(directory: Path) -> str:
    """Describe the processes that lock the directory, if visible from here."""
    status = directory.stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    table = Path("/proc/locks")
    locks = [line.split() for line in table.read_text().splitlines()] if table.exists() else []
    found = sorted({int(lock[4]) for lock in locks if lock[5] == place})
    return f"process {', '.join(map(str, found))}" if found else "a process that is not to be seen from here"
