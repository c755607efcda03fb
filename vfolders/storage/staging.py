"""Files that are being uploaded: written aside, published under their name once they are whole.

They are in the directory UPLOADS_DIRECTORY of their own folder, and so on the same file system, where
its quota counts them. Lists do not show it, paths of requests cannot name it, and sessions cannot
enter it. A writer locks its file; the lock ends with the process.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

from django.utils.translation import gettext as _

from common.errors import BerthError, Conflict
from vfolders.core.paths import UPLOADS_DIRECTORY, EntryPath
from vfolders.core.uploads import IfExists, free_names
from vfolders.storage import descriptors
from vfolders.storage.base import Entry, EntryExists, EntryKind, StorageBackend
from vfolders.storage.descriptors import Owner, closing
from vfolders.storage.directory_entries import etag_of
from vfolders.storage.files import translated

LEFT_AFTER_S = 3600.0
_FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NODE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_PARTS = 1024  # IOV_MAX
_NO_COPY = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class UploadLocked(Conflict):
    """The upload is being written by another request."""

    default_code = "upload_locked"
    http_status = 423


@dataclass(frozen=True, slots=True)
class Published:
    """A whole file under its name; `replaced_bytes` is the size of the file that it replaced."""

    path: EntryPath
    entry: Entry
    replaced_bytes: int


class StagedFile:
    """An open staged file, locked against other writers.

    Calls that write own a descriptor, because one that stalls goes on after `close`, when the number
    may mean another file. The lock ends with the last of them.
    """

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self._descriptor = descriptor

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def writer_of(self, parts: Sequence[bytes], offset: int) -> Callable[[], None]:
        """Return a call that writes the parts one after another from `offset` on. Raises StorageFull."""
        descriptor = os.dup(self._descriptor)

        def write() -> None:
            with closing(descriptor), translated(()):
                _write_at(descriptor, parts, offset)

        return write

    def copier_of(self, source: "StagedFile", offset: int, count: int) -> Callable[[], int]:
        """Return a call that writes at `offset` at most the first `count` bytes of `source`, from the
        current place of its descriptor on; it returns their number, 0 at the end.
        """
        ours, theirs = os.dup(self._descriptor), os.dup(source._descriptor)

        def copy() -> int:
            with closing(ours), closing(theirs), translated(()):
                return _copy(theirs, ours, offset, count)

        return copy

    def syncer(self) -> Callable[[], None]:
        """Return a call that ends when what was written survives a power failure."""
        descriptor = os.dup(self._descriptor)

        def sync() -> None:
            with closing(descriptor), translated(()):
                os.fdatasync(descriptor)

        return sync

    def cut(self, size_bytes: int) -> None:
        """Remove everything after `size_bytes`."""
        with translated(()):
            os.ftruncate(self._descriptor, size_bytes)

    def set_modified(self, modified_s: float) -> None:
        """Set the time of the last change, in seconds since 1970."""
        with translated(()):
            os.utime(self._descriptor, (modified_s, modified_s))

    def close(self) -> None:
        """Close the file. Calls that are late find it closed, and never another file of its number."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()  # opened by a call whose caller had given up


class Staging:
    """Staged files of one folder. Raises StorageUnavailable and StorageFull everywhere."""

    def __init__(self, storage: StorageBackend, folder_id: UUID) -> None:
        self._storage = storage
        self._folder_id = folder_id

    def create(self, name: str) -> StagedFile:
        """Create an empty staged file and lock it."""
        with self._storage.opened(self._folder_id) as folder, translated(()):
            while True:
                with suppress(FileExistsError):
                    os.mkdir(UPLOADS_DIRECTORY, 0o700, dir_fd=folder)
                with (
                    suppress(FileNotFoundError),  # another upload ended now and removed the directory
                    _opened_aside(folder) as aside,
                ):
                    staged = os.open(name, _FRESH, 0o600, dir_fd=aside)
                    fcntl.flock(staged, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return StagedFile(name, staged)

    def open(self, name: str) -> StagedFile:
        """Open a staged file and lock it. Raises UploadLocked, EntryMissing."""
        with (
            self._storage.opened(self._folder_id) as folder,
            translated((name,)),
            _opened_aside(folder) as aside,
            closing(os.open(name, _NODE, dir_fd=aside)) as node,
        ):
            if not stat.S_ISREG(os.fstat(node).st_mode):
                raise descriptors.NotARegularFile(name)
            staged = os.open(f"/proc/self/fd/{node}", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(staged, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(staged)
            raise UploadLocked(
                _("Another request is writing this upload."), hint=_("Try again when it has ended.")
            ) from error
        return StagedFile(name, staged)

    def publish(self, staged: StagedFile, path: EntryPath, if_exists: IfExists) -> Published:
        """Give the whole file its name; missing parent directories are created. Readers see the old
        or the new content, and it survives a power failure. A repeat after a crash finds its file.

        Raises WrongKind (a directory has the name), EntryExists (`REFUSE`).
        """
        with (
            self._storage.opened(self._folder_id) as folder,
            translated(path),
            descriptors.descend(folder, path[:-1], create_for=self._storage.owner) as parent,
            _opened_aside(folder) as aside,
        ):
            self._storage.owner.adopt(staged._descriptor, 0o644)
            os.fsync(staged._descriptor)
            replaced_bytes = _check_name(parent, path[-1])
            if if_exists is IfExists.REPLACE:
                os.rename(staged.name, path[-1], src_dir_fd=aside, dst_dir_fd=parent)
                name = path[-1]
            else:
                name, replaced_bytes = _link(aside, staged, parent, path[-1], if_exists), 0
            os.fsync(parent)
            status = os.fstat(staged._descriptor)
            self._tidy(folder)
        modified_at = datetime.fromtimestamp(status.st_mtime, UTC)
        entry = Entry(name, EntryKind.FILE, status.st_size, modified_at, etag_of(status))
        return Published((*path[:-1], name), entry, replaced_bytes)

    def publish_all(
        self, contents: Sequence[tuple[EntryPath, bytes]], if_exists: IfExists
    ) -> list[Published | BerthError]:
        """Write these small files aside, sync them, then give each its name; return for each what became
        of it, in order. Faster than one after another, because the disk syncs them together.
        """
        outcomes: list[Published | BerthError] = []
        staged: list[StagedFile] = []
        try:
            for _path, content in contents:
                staged.append(self.create(uuid4().hex))
                staged[-1].writer_of([content], 0)()
            for each in staged:
                each.syncer()()
            for each, (path, _content) in zip(staged, contents, strict=True):
                outcomes.append(self._publish_or_remove(each, path, if_exists))
        finally:
            for each in staged:
                each.close()
            for each in staged[len(outcomes) :]:
                with suppress(BerthError):
                    self.remove(each.name)
        return outcomes

    def _publish_or_remove(
        self, staged: StagedFile, path: EntryPath, if_exists: IfExists
    ) -> Published | BerthError:
        try:
            return self.publish(staged, path, if_exists)
        except BerthError as error:
            self.remove(staged.name)
            return error

    def remove(self, name: str) -> None:
        """Remove a staged file; succeeds if it is absent."""
        with self._storage.opened(self._folder_id) as folder, translated(()), suppress(FileNotFoundError):
            with _opened_aside(folder) as aside:
                os.unlink(name, dir_fd=aside)
            self._tidy(folder)

    def remove_leftovers(self, known: Collection[str]) -> int:
        """Remove what killed processes left: files that nobody has locked or changed for LEFT_AFTER_S,
        except for the `known` names. Return their number.
        """
        with self._storage.opened(self._folder_id) as folder, translated(()):
            removed = 0
            with suppress(FileNotFoundError, NotADirectoryError), _opened_aside(folder) as aside:
                old = [name for name in os.listdir(aside) if name not in known and _is_old(aside, name)]
                removed = sum(_remove_unlocked(aside, name) for name in old)
            self._tidy(folder)
        return removed

    @staticmethod
    def _tidy(folder: int) -> None:
        """Remove the directory of staged files if it is empty."""
        with suppress(OSError):
            os.rmdir(UPLOADS_DIRECTORY, dir_fd=folder)


@contextmanager
def _opened_aside(folder: int) -> Iterator[int]:
    """Yield the open directory of staged files. From now on it is the portal's and sessions cannot
    enter it, also if one of them made it.
    """
    with closing(descriptors.open_directory(folder, UPLOADS_DIRECTORY)) as aside:
        with suppress(OSError):  # a share with a fixed owner and mode
            Owner(os.geteuid(), os.getegid()).adopt(aside, 0o700)
        yield aside


def _write_at(descriptor: int, parts: Sequence[bytes], offset: int) -> None:
    left = [memoryview(part) for part in parts if part]
    while left:
        written = os.pwritev(descriptor, left[:_MAX_PARTS], offset)
        offset += written
        while left and written >= len(left[0]):
            written -= len(left.pop(0))
        if left:
            left[0] = left[0][written:]


def _copy(source: int, target: int, offset: int, count: int) -> int:
    """Copy within the file system where it can, which may take no space."""
    try:
        return os.copy_file_range(source, target, count, offset_dst=offset)
    except OSError as error:
        if error.errno not in _NO_COPY:
            raise
        piece = os.read(source, min(count, 2**20))
        _write_at(target, [piece], offset)
        return len(piece)


def _check_name(parent: int, name: str) -> int:
    """Return the size of the file of this name, 0 if there is none or it is no regular file."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _link(aside: int, staged: StagedFile, parent: int, wanted: str, if_exists: IfExists) -> str:
    """Give the staged file a name that no entry has; return it."""
    own = os.fstat(staged._descriptor).st_ino
    for name in free_names(wanted):
        try:
            os.link(staged.name, name, src_dir_fd=aside, dst_dir_fd=parent, follow_symlinks=False)
        except FileExistsError:
            is_own = os.stat(name, dir_fd=parent, follow_symlinks=False).st_ino == own
            if not is_own and if_exists is IfExists.REFUSE:
                raise
            if not is_own:
                continue
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if _is_there(parent, name):
                if if_exists is IfExists.REFUSE:
                    raise EntryExists(_("There is already an entry of this name.")) from error
                continue
            os.rename(staged.name, name, src_dir_fd=aside, dst_dir_fd=parent)
            return name
        os.unlink(staged.name, dir_fd=aside)
        return name
    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), wanted)


def _is_there(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_old(aside: int, name: str) -> bool:
    try:
        status = os.stat(name, dir_fd=aside, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return time.time() - status.st_mtime > LEFT_AFTER_S


def _remove_unlocked(aside: int, name: str) -> bool:
    """Remove what is not a staged file of a writer; return True if it is gone now."""
    try:
        with closing(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=aside)) as found:
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a link, a socket
    descriptors.remove(aside, name)
    return True
