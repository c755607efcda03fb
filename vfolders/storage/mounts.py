"""Mounts of storage hosts on this machine. Reads of the kernel's table never wait for a file system."""

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from vfolders.storage.commands import CommandFailed, Commands

TABLE = "/proc/self/mountinfo"
SAFE_OPTIONS = "nosuid,nodev"
_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def is_mounted(path: str) -> bool:
    """True if a file system is mounted exactly at `path`."""
    return os.path.realpath(path) in mount_points()


def mount_points() -> list[str]:
    """Return all mount points, in the order of their mounts."""
    with open(TABLE, encoding="utf-8", errors="surrogateescape") as table:
        return [_unescaped(line.split(" ")[4]) for line in table]


def mount_point_of(path: str) -> str:
    """Return the mount point of the file system that holds `path`."""
    place = os.path.realpath(path)
    points = [
        point for point in mount_points() if place == point or place.startswith(point.rstrip("/") + "/")
    ]
    return max(points, key=len)


def file_system_of(path: str) -> str:
    """Return the type of the file system that holds `path`, like "btrfs", and its options, joined by a comma."""
    point, found = mount_point_of(path), ""
    with open(TABLE, encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            before, _, after = line.rstrip("\n").partition(" - ")
            if _unescaped(before.split(" ")[4]) == point:
                kind, _source, options = (*after.split(" "), "")[:3]
                found = f"{kind},{options}"
    return found


def mount_once(
    target: str,
    command: Sequence[str],
    commands: Commands,
    *,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Mount at `target` by the command, unless something is mounted there that answers. Safe in several
    processes at once. Raises CommandFailed.
    """
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    with locked(target):
        mount_locked(target, command, commands, environment=environment)


def mount_locked(
    target: str,
    command: Sequence[str],
    commands: Commands,
    *,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Do as `mount_once`, for a caller that holds the lock of the target."""
    if is_mounted(target):
        if not _is_broken(target):
            return
        unmount(target, commands)
    os.makedirs(target, mode=0o700, exist_ok=True)
    commands.run(command, environment=environment)


def unmount(target: str, commands: Commands, *, is_lazy: bool = True) -> None:
    """Unmount everything at `target`; lazily means that open files stay usable. Does nothing if nothing is
    there. Raises CommandFailed.
    """
    while is_mounted(target):
        try:
            commands.run(["umount", target])
        except CommandFailed:
            if not is_lazy:
                raise
            commands.run(["umount", "--lazy", target])


def _is_broken(target: str) -> bool:
    """True for a FUSE mount whose process has died."""
    try:
        os.stat(target)
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ESTALE, errno.EIO, errno.ECONNABORTED)
    return False


@contextmanager
def locked(target: str) -> Iterator[None]:
    """Keep all processes of this machine from mounting at the target until the block ends."""
    lock = os.open(f"{target}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _unescaped(text: str) -> str:
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    return text
