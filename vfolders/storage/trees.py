"""Moves, copies and walks directory trees by file descriptors, under the promises of `descriptors`:
no link is followed, and a rename by a session at any instant leads to another place of the same
folder at worst.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from vfolders.core.paths import MAX_DEPTH, ROOT, UNLISTED, EntryPath, numbered_name
from vfolders.storage import descriptors
from vfolders.storage.descriptors import Owner, closing

COPIED_PIECE_BYTES = 8 * 2**20
_MOST_NUMBERS = 1000

_NOREPLACE, _EXCHANGE = 1, 2  # of renameat2(2)
_renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


class NameTaken(StrEnum):
    """Effect of a move or copy whose name is taken."""

    REFUSE = "refuse"
    KEEP_BOTH = "keep_both"  # the new entry gets a number: "name (2).txt"
    REPLACE = "replace"  # the old entry goes to the trash of the folder
    SKIP = "skip"  # the new entry stays where it is


class IntoItself(OSError):
    """A directory would be moved or copied into itself."""


class TooDeep(OSError):
    """A tree has more levels than are supported."""


class NoFreeName(OSError):
    """All numbered forms of a name are taken."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a walk. `path` begins below the top; `parent` is open until the next step."""

    path: EntryPath
    parent: int
    status: os.stat_result

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)


def walk(top: int, *, leave_out: frozenset[str] = frozenset()) -> Iterator[Found]:
    """Yield all entries below the open directory `top`, a directory before its content, with the
    files of a directory before its sub-directories. Names in `leave_out` are skipped at the top.

    Entries that vanish meanwhile are skipped. Directories below MAX_DEPTH are yielded but not
    entered. Holds two descriptors for each level, and no list, however many entries a directory has.
    """
    levels = [(ROOT, top, _entries_in(top, ROOT, leave_out))]
    try:
        while levels:
            _path, directory, entries = levels[-1]
            if found := next(entries, None):
                yield found
                if found.is_directory and len(found.path) < MAX_DEPTH:
                    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                        below = descriptors.open_directory(directory, found.name)
                        levels.append((found.path, below, _entries_in(below, found.path)))
            else:
                levels.pop()
                if levels:
                    os.close(directory)
    finally:
        for _path, directory, _entries in levels[1:]:
            os.close(directory)


def _entries_in(directory: int, path: EntryPath, leave_out: frozenset[str] = frozenset()) -> Iterator[Found]:
    for wants_directories in (False, True):
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name in leave_out or entry.is_dir(follow_symlinks=False) != wants_directories:
                    continue
                with suppress(FileNotFoundError):
                    yield Found((*path, entry.name), directory, entry.stat(follow_symlinks=False))


def move(source: int, name: str, target: int, new_name: str) -> None:
    """Rename `name` in the open directory `source` to `new_name` in `target`, in one step.
    Raises FileExistsError (nothing is ever replaced), IntoItself.
    """
    try:
        _rename(source, name, target, new_name, _NOREPLACE)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # Some network file systems have no such rename: a writer of this name may win in between.
        if _is_there(target, new_name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name) from error
        try:
            os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        except OSError as refusal:
            raise (IntoItself(name) if refusal.errno == errno.EINVAL else refusal) from refusal


def exchange(source: int, name: str, target: int, new_name: str) -> bool:
    """Let two entries change places in one step. Return False if the file system cannot."""
    try:
        _rename(source, name, target, new_name, _EXCHANGE)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return False
    return True


def _rename(source: int, name: str, target: int, new_name: str, flags: int) -> None:
    if _renameat2(source, os.fsencode(name), target, os.fsencode(new_name), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def _is_there(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Placing:
    """Way in which an entry gets its name: what to do if it is taken, and how the entry that is replaced
    (open directory, its name there, its path in the folder) is discarded.
    """

    taken: NameTaken
    discard: Callable[[int, str, EntryPath], None]

    def place(self, source: int, name: str, target: int, path: EntryPath) -> EntryPath | None:
        """Move an entry into the open directory `target` as `path[-1]`. Return its path then, or
        None if it was skipped. Raises FileExistsError (REFUSE), IntoItself, NoFreeName.
        """
        try:
            move(source, name, target, path[-1])
        except FileExistsError:
            if self.taken is NameTaken.SKIP:
                return None
            if self.taken is NameTaken.KEEP_BOTH:
                return (*path[:-1], _move_numbered(source, name, target, path[-1]))
            if self.taken is NameTaken.REFUSE:
                raise
            self._replace(source, name, target, path)
        return path

    def _replace(self, source: int, name: str, target: int, path: EntryPath) -> None:
        if exchange(source, name, target, path[-1]):
            self.discard(source, name, path)
            return
        self.discard(target, path[-1], path)
        move(source, name, target, path[-1])


def _move_numbered(source: int, name: str, target: int, new_name: str) -> str:
    for number in range(2, _MOST_NUMBERS):
        with suppress(FileExistsError):
            numbered = numbered_name(new_name, number)
            move(source, name, target, numbered)
            return numbered
    raise NoFreeName(new_name)


def merge(source: int, target: int, path: EntryPath, placing: Placing) -> None:
    """Move everything in the open directory `source` to `target`, which has this path, and into
    directories of the same name there; other taken names are handled as `placing` says.
    """
    for name in os.listdir(source):
        with suppress(FileNotFoundError):
            if len(path) < MAX_DEPTH and _is_directory(source, name) and _is_directory(target, name):
                with (
                    closing(descriptors.open_directory(source, name)) as below,
                    closing(descriptors.open_directory(target, name)) as place,
                ):
                    merge(below, place, (*path, name), placing)
            else:
                placing.place(source, name, target, (*path, name))


def taken_path(source: int, target: int, path: EntryPath) -> EntryPath | None:
    """Return the path of an entry that `merge` would find taken, or None."""
    for name in filter(partial(_exists, target), os.listdir(source)):
        if _is_directory(source, name) and _is_directory(target, name):
            with (
                closing(descriptors.open_directory(source, name)) as below,
                closing(descriptors.open_directory(target, name)) as place,
            ):
                if found := taken_path(below, place, (*path, name)):
                    return found
        else:
            return (*path, name)
    return None


def _exists(directory: int, name: str) -> bool:
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=directory, follow_symlinks=False)
        return True
    return False


def _is_directory(directory: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


@dataclass(slots=True)
class Copier:
    """Copies files, links as they are, and directories for `owner`.

    `count` is called with the bytes of each piece before it is written, and 0 for each entry; what
    it raises ends the copy. `left_out` has the paths of FIFOs, devices, sockets and files that
    could not be read.
    """

    owner: Owner
    count: Callable[[int], None]
    left_out: list[EntryPath]

    def copy(self, source: int, name: str, target: int, new_name: str) -> None:
        """Copy the entry `name` of the open directory `source` as `new_name` into `target`.

        The copy is not finished if this raises; the caller gives it a hidden name until it is.
        Raises FileExistsError, TooDeep, NotARegularFile (nothing could be copied).
        """
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            if not self._copy_one(source, name, status, target, new_name):
                raise descriptors.NotARegularFile(name)
            return
        with closing(descriptors.open_directory(source, name)) as top:
            descriptors.make_directory(target, new_name, self.owner)
            with closing(descriptors.open_directory(target, new_name)) as made:
                self.copy_content(top, made)

    def copy_content(self, top: int, target: int) -> None:
        """Copy everything below the open directory `top`, without what the portal keeps there, into the
        empty directory `target`, as `copy` does.
        """
        with ExitStack() as opened:
            directory, path = target, ROOT
            for found in walk(top, leave_out=UNLISTED):
                self.count(0)
                if len(found.path) >= MAX_DEPTH:
                    raise TooDeep(found.name)
                if found.path[:-1] != path:
                    opened.close()
                    path = found.path[:-1]
                    directory = opened.enter_context(descriptors.descend(target, path))
                if found.is_directory:
                    # Not synced: that would make copies of many directories slow.
                    descriptors.make_directory(directory, found.name, self.owner, is_synced=False)
                elif not self._copy_one(found.parent, found.name, found.status, directory, found.name):
                    self.left_out.append(found.path)

    def _copy_one(self, source: int, name: str, status: os.stat_result, target: int, new_name: str) -> bool:
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)
            return True
        if not stat.S_ISREG(status.st_mode):
            return False
        try:
            content = descriptors.open_regular(source, name)
        except (FileNotFoundError, PermissionError, descriptors.NotARegularFile, IsADirectoryError):
            return False
        with closing(content):
            self._copy_content(content, target, new_name)
        return True

    def _copy_content(self, content: int, target: int, new_name: str) -> None:
        """Copy the open file, holes as holes, with its permission bits and time."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with closing(os.open(new_name, flags, 0o600, dir_fd=target)) as file:
            status = os.fstat(content)
            for start, end in _data_ranges(content, status.st_size):
                os.lseek(content, start, os.SEEK_SET)
                os.lseek(file, start, os.SEEK_SET)
                while (left := end - os.lseek(content, 0, os.SEEK_CUR)) > 0:
                    piece = min(left, COPIED_PIECE_BYTES)
                    self.count(piece)
                    if not _copy_piece(content, file, piece):
                        break  # truncated by a session meanwhile
            os.ftruncate(file, os.fstat(content).st_size)
            self.owner.adopt(file, stat.S_IMODE(status.st_mode) & 0o777 | 0o600)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _data_ranges(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts of the file that are not holes."""
    position = 0
    while position < size:
        try:
            start = os.lseek(file, position, os.SEEK_DATA)
            position = os.lseek(file, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            if error.errno != errno.EINVAL:
                raise
            start, position = position, size  # a file system without holes
        yield start, position


def _copy_piece(content: int, file: int, size: int) -> int:
    """Copy at most `size` bytes from the position of one open file to that of another; return their
    number.
    """
    try:
        return os.copy_file_range(content, file, size)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
            raise
    return os.sendfile(file, content, None, size)  # type: ignore[arg-type]  # None: at its position
