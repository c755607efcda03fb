"""Walking a directory tree by descriptors, in which somebody hostile renames things and plants links.

Every step opens one component below a directory that is already open, with O_NOFOLLOW, and never "..": so a
link is never followed, and a rename between two steps can only lead to another place of the same mount, which
is the same folder. What is not a regular file or directory is looked at (O_PATH) but never opened.
"""

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

_DIRECTORIES_PER_SWEEP = 1000
_REMOVAL_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns what we make. Only root can give files away; everybody else owns what they make."""

    uid: int
    gid: int

    def adopt(self, descriptor: int, mode: int) -> None:
        """Give the open file or directory to this owner, with exactly `mode`."""
        if os.geteuid() == 0:
            os.fchown(descriptor, self.uid, self.gid)
        os.fchmod(descriptor, mode)


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """`descriptor`, closed at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_root(path: str) -> int:
    """Descriptor of a directory that only administrators can rename; here links are followed."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_directory(parent: int, name: str) -> int:
    """Descriptor of the directory `name` in `parent`. OSError ENOTDIR where it is a link or anything else."""
    return os.open(name, _DIRECTORY, dir_fd=parent)


@contextmanager
def descend(top: int, path: EntryPath) -> Iterator[int]:
    """Descriptor of the directory `path` below the open directory `top`."""
    current = os.dup(top)
    try:
        for name in path:
            following = open_directory(current, name)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


@contextmanager
def descend_making(top: int, path: EntryPath, owner: Owner) -> Iterator[int]:
    """The same; directories that are missing on the way are made."""
    current = os.dup(top)
    try:
        for name in path:
            with suppress(FileExistsError):
                make_directory(current, name, owner)
            following = open_directory(current, name)
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


def make_directory(parent: int, name: str, owner: Owner) -> None:
    """Make the directory `name` in `parent`, for `owner`, and keep it over a power cut."""
    os.mkdir(name, 0o755, dir_fd=parent)
    with closing(open_directory(parent, name)) as made:
        owner.adopt(made, 0o755)
    os.fsync(parent)


def open_regular(parent: int, name: str) -> int:
    """Descriptor for reading of the regular file `name`. NotARegularFile where it is a link, a FIFO or a device.

    The node is looked at through O_PATH and reopened through /proc: what was looked at is what is opened, and
    the open of a FIFO or a device, which may wait or act, never happens.
    """
    with closing(os.open(name, _NODE, dir_fd=parent)) as node:
        mode = os.fstat(node).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(mode):
            raise NotARegularFile(name)
        return os.open(f"/proc/self/fd/{node}", os.O_RDONLY | os.O_CLOEXEC)


class NotARegularFile(OSError):
    """A link, FIFO, socket or device."""


class StillChanging(OSError):
    """A directory could not be emptied in time: somebody keeps writing into it, or it is very large."""


def remove(parent: int, name: str) -> None:
    """Remove `name` from `parent`: a file or link, or a directory with all it holds, to any depth.

    Raises StillChanging; what is left then is removed by the next call.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return

    deadline = time.monotonic() + _REMOVAL_DEADLINE_S
    while True:
        _unlock(parent, name)
        with closing(open_directory(parent, name)) as top:
            _empty(top, deadline)
        if _remove_if_empty(parent, name):
            return
        if time.monotonic() > deadline:
            raise StillChanging(name)


def _empty(top: int, deadline: float) -> None:
    """Remove all in the open directory `top` with two descriptors, however deep it is.

    Directories of the second level are lifted into the first and emptied in the next round, so that no path
    grows long and no recursion deep.
    """
    while directories := _sweep(top):
        if time.monotonic() > deadline:
            raise StillChanging(directories[0])
        for name in directories:
            with suppress(FileNotFoundError, NotADirectoryError):
                _unlock(top, name)
                with closing(open_directory(top, name)) as below:
                    _lift(_sweep(below), below, top)
                _remove_if_empty(top, name)  # if not, the next round goes on


def _remove_if_empty(parent: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _sweep(directory: int) -> list[str]:
    """Unlink what is not a directory; names of the first directories met, [] when none is left."""
    directories: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
                if len(directories) == _DIRECTORIES_PER_SWEEP:
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
    """Let us remove what is in the directory `name`, whose owner we are but whose mode may forbid it."""
    if os.geteuid() == 0:
        return
    with closing(os.open(name, _NODE | os.O_DIRECTORY, dir_fd=parent)) as node:
        os.chmod(f"/proc/self/fd/{node}", 0o700)
