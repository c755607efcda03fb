"""Who runs from what: locks that the kernel drops with their holder, so that none is ever stale."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from portal.ops.console import Say
from portal.ops.paths import Layout


@contextlib.contextmanager
def running(layout: Layout) -> Iterator[bool]:
    """Hold the data directory for this process; yields False at once if another bin/up holds it."""
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
    """Process id of the bin/up that holds the data directory, None if nobody does."""
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
    """Lock a directory itself, so that nothing is left behind; yields whether we have it."""
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
def setting_up(checkout: Path, log: Say) -> Iterator[None]:
    """One set-up of a checkout at a time, whatever data directory it is for. Nobody waits without a word."""
    room = checkout / "portal" / "ops"
    with directory_lock(room, waits=False) as is_free:
        if not is_free:
            log(f"this checkout is being set up by {holders(room)}; waiting for it")
    with directory_lock(room):
        yield


def holders(directory: Path) -> str:
    """Who holds its lock, in words. The kernel tells processes of other containers to nobody in here."""
    status = directory.stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    table = Path("/proc/locks")
    locks = [line.split() for line in table.read_text().splitlines()] if table.exists() else []
    found = sorted({int(lock[4]) for lock in locks if lock[5] == place})
    return f"process {', '.join(map(str, found))}" if found else "a process that is not to be seen from here"
