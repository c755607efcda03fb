"""Storage backend that keeps folders as directories `<root>/<folder id>` on this machine.

The root belongs to the portal only (mode 0700); the content of a folder belongs to the user of the
containers.
"""

import errno
import itertools
import os
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.errors import BerthError, InvalidInput, PermissionDenied
from vfolders.core.paths import ROOT, EntryPath, display_name
from vfolders.storage import descriptors, measuring
from vfolders.storage.base import (
    INTERACTIVE,
    Effort,
    Entry,
    EntryBusy,
    EntryExists,
    EntryKind,
    EntryMissing,
    Listing,
    OpenFile,
    StorageBackend,
    StorageFull,
    StorageUnavailable,
    Usage,
    WrongKind,
)
from vfolders.storage.descriptors import Owner, closing


class LocalStorage(StorageBackend):
    """Directories of this machine, or of a network file system mounted on it."""

    def __init__(self, root: str, owner: Owner) -> None:
        self._root = root
        self._owner = owner

    def prepare(self) -> None:
        with _translated(ROOT):
            os.makedirs(self._root, mode=0o700, exist_ok=True)

    def create_folder(self, folder_id: UUID) -> None:
        with self._opened_root() as root, _translated(ROOT), suppress(FileExistsError):
            descriptors.make_directory(root, folder_id.hex, self._owner)

    def delete_folder(self, folder_id: UUID) -> None:
        with self._opened_root() as root, _translated(ROOT), suppress(FileNotFoundError):
            descriptors.remove(root, folder_id.hex)

    def mount_source(self, folder_id: UUID) -> str:
        with self._opened(folder_id):
            return os.path.join(os.path.realpath(self._root), folder_id.hex)

    def list_directory(self, folder_id: UUID, path: EntryPath, *, limit: int) -> Listing:
        with (
            self._opened(folder_id) as folder,
            _translated(path),
            descriptors.descend(folder, path) as directory,
        ):
            with os.scandir(directory) as found:
                names = [entry.name for entry in itertools.islice(found, limit + 1)]
            entries = [entry for name in names[:limit] if (entry := _entry_or_none(directory, name))]
        entries.sort(key=lambda entry: (entry.kind != EntryKind.DIRECTORY, entry.name.casefold(), entry.name))
        return Listing(entries=tuple(entries), is_complete=len(names) <= limit)

    def stat(self, folder_id: UUID, path: EntryPath) -> Entry:
        with self._opened_parent(folder_id, path) as parent:
            return _entry(path[-1], os.stat(path[-1], dir_fd=parent, follow_symlinks=False))

    def open_file(self, folder_id: UUID, path: EntryPath) -> OpenFile:
        with self._opened_parent(folder_id, path) as parent:
            stream = os.fdopen(descriptors.open_regular(parent, path[-1]), "rb", buffering=0)
        status = os.fstat(stream.fileno())
        return OpenFile(
            stream=stream,
            size_bytes=status.st_size,
            modified_at=_instant(status.st_mtime),
            etag=f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}",
        )

    def write_file(self, folder_id: UUID, path: EntryPath, chunks: Iterable[bytes]) -> Entry:
        with (
            self._opened(folder_id) as folder,
            _translated(path),
            descriptors.descend(folder, path[:-1], create_for=self._owner) as parent,
        ):
            return self._replace_file(parent, path[-1], chunks)

    def make_directory(self, folder_id: UUID, path: EntryPath) -> None:
        with (
            self._opened(folder_id) as folder,
            _translated(path),
            descriptors.descend(folder, path[:-1], create_for=self._owner) as parent,
        ):
            descriptors.make_directory(parent, path[-1], self._owner)

    def delete_entry(self, folder_id: UUID, path: EntryPath) -> None:
        with self._opened_parent(folder_id, path) as parent:
            descriptors.remove(parent, path[-1])

    def measure(self, folder_id: UUID, effort: Effort = INTERACTIVE) -> Usage:
        with self._opened(folder_id) as folder, _translated(ROOT):
            return measuring.measure(folder, effort)

    @contextmanager
    def _opened_root(self) -> Iterator[int]:
        try:
            root = descriptors.open_root(self._root)
        except OSError as error:
            sentence = _("The storage host does not answer: {error}.").format(error=error.strerror)
            raise StorageUnavailable(sentence, hint=_("Ask an administrator.")) from error
        with closing(root):
            yield root

    @contextmanager
    def _opened(self, folder_id: UUID) -> Iterator[int]:
        with self._opened_root() as root:
            try:
                folder = descriptors.open_directory(root, folder_id.hex)
            except OSError as error:
                raise StorageUnavailable(
                    _("The folder's files are not on its storage host: {error}.").format(
                        error=error.strerror
                    ),
                    hint=_("Ask an administrator whether the host is mounted."),
                ) from error
            with closing(folder):
                yield folder

    @contextmanager
    def _opened_parent(self, folder_id: UUID, path: EntryPath) -> Iterator[int]:
        with (
            self._opened(folder_id) as folder,
            _translated(path),
            descriptors.descend(folder, path[:-1]) as parent,
        ):
            yield parent

    def _replace_file(self, parent: int, name: str, chunks: Iterable[bytes]) -> Entry:
        if _is_directory(parent, name):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        temporary = f".upload-{uuid.uuid4().hex}"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        with closing(file):
            try:
                for chunk in chunks:
                    _write_all(file, chunk)
                self._owner.adopt(file, 0o644)
                os.fsync(file)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise
            os.fsync(parent)
            return _entry(name, os.fstat(file))


def _write_all(file: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(file, rest) :]


def _is_directory(parent: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _entry_or_none(directory: int, name: str) -> Entry | None:
    """Return the entry, or None if it vanished after the directory was listed."""
    try:
        return _entry(name, os.stat(name, dir_fd=directory, follow_symlinks=False))
    except FileNotFoundError:
        return None


def _entry(name: str, status: os.stat_result) -> Entry:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
    size_bytes = status.st_size if kind is EntryKind.FILE else 0
    return Entry(name=name, kind=kind, size_bytes=size_bytes, modified_at=_instant(status.st_mtime))


_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.DIRECTORY, stat.S_IFLNK: EntryKind.LINK}
_LAST_INSTANT_S = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def _instant(seconds: float) -> datetime:
    """Return the time, clamped to valid dates, because sessions may set any time on a file."""
    return datetime.fromtimestamp(min(max(seconds, 0.0), _LAST_INSTANT_S), UTC)


_ERRORS: dict[int | None, tuple[type[BerthError], str]] = {
    errno.ENOENT: (EntryMissing, gettext_noop("There is no {name} in this folder.")),
    errno.ENOTDIR: (
        WrongKind,
        gettext_noop("A part of {name} is not a directory; links are not followed here."),
    ),
    errno.ELOOP: (WrongKind, gettext_noop("{name} is a link; links are not followed here.")),
    errno.EISDIR: (WrongKind, gettext_noop("{name} is a directory.")),
    errno.EEXIST: (EntryExists, gettext_noop("There is already an entry named {name}.")),
    errno.ENOTEMPTY: (EntryBusy, gettext_noop("{name} is changing just now. Try again.")),
    errno.ENOSPC: (StorageFull, gettext_noop("The storage host has no room left for {name}.")),
    errno.EDQUOT: (StorageFull, gettext_noop("The storage quota leaves no room for {name}.")),
    errno.EFBIG: (StorageFull, gettext_noop("{name} is larger than the storage host can hold.")),
    errno.ENAMETOOLONG: (InvalidInput, gettext_noop("{name} is too long for the storage host.")),
    errno.EACCES: (PermissionDenied, gettext_noop("The permissions set on {name} forbid this.")),
    errno.EPERM: (PermissionDenied, gettext_noop("The permissions set on {name} forbid this.")),
}
_OTHER_ERROR = (StorageUnavailable, gettext_noop("The storage host failed: {error}."))


@contextmanager
def _translated(path: EntryPath) -> Iterator[None]:
    """Translate OSErrors about `path` into the errors of the storage port."""
    name = f"“{display_name('/'.join(path))}”" if path else _("the folder")
    try:
        yield
    except descriptors.NotARegularFile as error:
        raise WrongKind(_("{name} is a link or a device, not a file.").format(name=name)) from error
    except descriptors.StillChanging as error:
        sentence = _("{name} is large or still changing. Deleting again goes on.")
        raise EntryBusy(sentence.format(name=name)) from error
    except OSError as error:
        kind, sentence = _ERRORS.get(error.errno, _OTHER_ERROR)
        raise kind(_(sentence).format(name=name, error=error.strerror)) from error
