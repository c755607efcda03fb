"""Walks and changes directory trees by file descriptors, safe against concurrent renames and
planted links.

Each step opens one component below a directory that is already open, with O_NOFOLLOW, and never
"..". So a link is never followed, and a rename between two steps can only lead to another place of
the same mount, which is the same folder. Other nodes than regular files and directories are
inspected (O_PATH) but never opened.
"""

import ctypes
import errno
import os
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from vfolders.core.paths import EntryPath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NODE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
_DIRECTORIES_PER_SWEEP = 1000
_REMOVAL_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of the entries that the portal creates.
    Only root can change ownership; other users own what they create.
    """

    uid: int
    gid: int

    def adopt(self, descriptor: int, mode: int) -> None:
        """Give the open file or directory to this owner, with exactly `mode`.

        Changes only what differs: shares with a fixed owner and mode (SMB, S3) refuse any change.
        """
        status = os.fstat(descriptor)
        if os.geteuid() == 0 and (status.st_uid, status.st_gid) != (self.uid, self.gid):
            os.fchown(descriptor, self.uid, self.gid)
        if stat.S_IMODE(status.st_mode) != mode:
            os.fchmod(descriptor, mode)


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Yield `descriptor` and close it at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_root(path: str) -> int:
    """Open a directory that only administrators can rename; links in `path` are followed."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_directory(parent: int, name: str) -> int:
    """Open the directory `name` in `parent`.
    Raises OSError with ENOTDIR if it is a link or anything else.
    """
    return os.open(name, _DIRECTORY, dir_fd=parent)


@contextmanager
def descend(
    top: int, path: EntryPath, *, create_for: Owner | None = None, is_synced: bool = True
) -> Iterator[int]:
    """Yield a descriptor of the directory `path` below the open directory `top`. Missing directories
    are created if `create_for` is given; without `is_synced` a power failure may undo that.
    """
    current = os.dup(top)
    try:
        for name in path:
            if create_for is not None:
                with suppress(FileExistsError):
                    make_directory(current, name, create_for, is_synced=is_synced)
            following = open_directory(current, name)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


def make_directory(parent: int, name: str, owner: Owner, *, is_synced: bool = True) -> None:
    """Create the directory `name` in `parent` for `owner`, and sync it to survive a power failure."""
    os.mkdir(name, 0o755, dir_fd=parent)
    with closing(open_directory(parent, name)) as made:
        owner.adopt(made, 0o755)
    if is_synced:
        os.fsync(parent)


def open_regular(parent: int, name: str) -> int:
    """Open the regular file `name` for reading. Raises NotARegularFile for a link, a FIFO or a
    device.

    The node is inspected through O_PATH and reopened through /proc, so that the inspected node is
    the opened one, and a FIFO or device, whose opening may block or have effects, is never opened.
    """
    with closing(os.open(name, _NODE, dir_fd=parent)) as node:
        mode = os.fstat(node).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise NotARegularFile(name)
        return os.open(f"/proc/self/fd/{node}", os.O_RDONLY | os.O_CLOEXEC)


def sync_filesystem(directory: int) -> None:
    """Have everything written to the disk that its file system holds in memory."""
    if _libc.syncfs(directory):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class NotARegularFile(OSError):
    """The entry is a link, FIFO, socket or device."""


class StillChanging(OSError):
    """A directory could not be emptied in time: it is being written to, or it is very large."""


def remove(parent: int, name: str, *, within_s: float = _REMOVAL_DEADLINE_S) -> None:
    """Remove `name` from `parent`: a file or link, or a directory with all its content, to any
    depth.

    Raises StillChanging if that takes longer; the next call continues.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return

    deadline = time.monotonic() + within_s
    while True:
        _unlock(parent, name)
        with closing(open_directory(parent, name)) as top:
            _empty(top, deadline)
        if _remove_if_empty(parent, name):
            return
        if time.monotonic() > deadline:
            raise StillChanging(name)


def _empty(top: int, deadline: float) -> None:
    """Remove everything in the open directory `top` with two descriptors, at any depth.

    Directories of the second level are moved up into the first and emptied in the next round, so
    that neither paths nor recursion grow.
    """
    while directories := _sweep(top):
        if time.monotonic() > deadline:
            raise StillChanging(directories[0])
        for name in directories:
            with suppress(FileNotFoundError, NotADirectoryError):
                _unlock(top, name)
                with closing(open_directory(top, name)) as below:
                    try:
                        _lift(_sweep(below), below, top)
                    except OSError as error:
                        if error.errno != errno.EXDEV:
                            raise
                        _empty_in_place(below, deadline)
                _remove_if_empty(top, name)  # if not, the next round continues


def _empty_in_place(top: int, deadline: float) -> None:
    """Remove everything in the open directory `top` without a rename, which the file system refuses where
    the owner has made a subvolume or changed a project id. Slow in deep trees: it goes down from `top`
    for each directory, with two descriptors.
    """
    while names := _sweep(top, most=1):
        parent, directory = os.dup(top), os.dup(top)
        try:
            while below := _sweep(directory, most=1):
                if time.monotonic() > deadline:
                    raise StillChanging(below[0])
                names = below
                _unlock(directory, names[0])
                os.close(parent)
                parent, directory = directory, -1
                directory = open_directory(parent, names[0])
            _remove_if_empty(parent, names[0])
        except (FileNotFoundError, NotADirectoryError):
            continue  # changed meanwhile
        finally:
            os.close(parent)
            if directory >= 0:
                os.close(directory)


def _remove_if_empty(parent: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _sweep(directory: int, most: int = _DIRECTORIES_PER_SWEEP) -> list[str]:
    """Unlink everything but directories; return names of the first directories found, [] when none
    is left.
    """
    directories: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
                if len(directories) == most:
                    break
            else:
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(entry.name, dir_fd=directory)
    return directories


def _lift(names: list[str], source: int, destination: int) -> None:
    for name in names:
        with suppress(FileNotFoundError, NotADirectoryError):
            _unlock(source, name)
            os.rename(name, uuid.uuid4().hex, src_dir_fd=source, dst_dir_fd=destination)


def _unlock(parent: int, name: str) -> None:
    """Allow the removal of entries from the directory `name`, which this process owns but whose
    mode may forbid it.
    """
    if os.geteuid() == 0:
        return
    with closing(os.open(name, _NODE | os.O_DIRECTORY, dir_fd=parent)) as node:
        os.chmod(f"/proc/self/fd/{node}", 0o700)
