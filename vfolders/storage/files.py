"""Operations on the files of a folder, the same on every storage host.

Paths are tuples of safe components from vfolders.core.paths; ROOT is the folder itself. Sessions
write into the same folders concurrently and may create symbolic links, FIFOs, devices and hard links
or rename entries between two steps. No operation follows a link, opens anything but regular files
and directories, or reaches outside the folder.
"""

import asyncio
import errno
import itertools
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.errors import BerthError, InvalidInput, PermissionDenied
from vfolders.core.paths import HIDDEN, MAX_DEPTH, ROOT, TRASH, UNFINISHED, UNLISTED, EntryPath, display_name
from vfolders.storage import archives, descriptors, listing, measuring, trash, trees
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
from vfolders.storage.directory_entries import entry_of, entry_or_none, etag_of, instant
from vfolders.storage.host_calls import LONG_S, SHORT_S, HostCalls
from vfolders.storage.listing import After, Order, Page
from vfolders.storage.trees import NameTaken

COPY_S = 6 * 3600.0
"""Deadline of the copy of a tree."""
_UNPACKED = "unpacked"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

P = ParamSpec("P")
T = TypeVar("T")


def _bounded(
    timeout_s: float,
) -> Callable[[Callable[Concatenate["FolderFiles", P], T]], Callable[Concatenate["FolderFiles", P], T]]:
    """Run the method as one call to the host, with this deadline."""

    def bound(
        method: Callable[Concatenate["FolderFiles", P], T],
    ) -> Callable[Concatenate["FolderFiles", P], T]:
        @wraps(method)
        def run(files: "FolderFiles", /, *args: P.args, **kwargs: P.kwargs) -> T:
            return files.run(lambda: method(files, *args, **kwargs), timeout_s)

        return run

    return bound


class FolderFiles:
    """Files of one folder. Thread-safe; keeps nothing open between calls but what it returns.
    Raises only the errors of `storage/base.py`. With `calls`, no call waits longer for a stalled host
    than its deadline.
    """

    def __init__(self, storage: StorageBackend, folder_id: UUID, calls: HostCalls | None = None) -> None:
        self._storage = storage
        self._folder_id = folder_id
        self._calls = calls

    def run(self, call: Callable[[], T], timeout_s: float = SHORT_S) -> T:
        """Return what `call` returns, which must own what it opens. Raises StorageUnavailable if the host
        does not answer in time.
        """
        return self._calls.run(call, timeout_s=timeout_s) if self._calls else call()

    @_bounded(SHORT_S)
    def list_directory(self, path: EntryPath, *, limit: int) -> Listing:
        """Return at most `limit` entries of the directory. Raises EntryMissing, WrongKind."""
        with (
            self._opened() as folder,
            translated(path),
            descriptors.descend(folder, path) as directory,
        ):
            with os.scandir(directory) as found:
                listed = (entry.name for entry in found if path or not entry.name.startswith(HIDDEN))
                names = list(itertools.islice(listed, limit + 1))
            entries = [entry for name in names[:limit] if (entry := entry_or_none(directory, name))]
        entries.sort(key=lambda entry: (entry.kind != EntryKind.DIRECTORY, entry.name.casefold(), entry.name))
        return Listing(entries=tuple(entries), is_complete=len(names) <= limit)

    @_bounded(SHORT_S)
    def list_page(
        self, path: EntryPath, *, order: Order, is_descending: bool, after: After | None, limit: int
    ) -> Page:
        """Return a page of the directory, see `storage/listing.py`. Raises EntryMissing, WrongKind."""
        with self._opened() as folder, translated(path), descriptors.descend(folder, path) as directory:
            return listing.list_page(
                directory,
                is_top=path == ROOT,
                order=order,
                is_descending=is_descending,
                after=after,
                limit=limit,
            )

    @_bounded(SHORT_S)
    def stat(self, path: EntryPath) -> Entry:
        """Return the entry itself; a link is not followed. `path` is not ROOT. Raises EntryMissing."""
        with self._opened_parent(path) as parent:
            return entry_of(path[-1], os.stat(path[-1], dir_fd=parent, follow_symlinks=False))

    @contextmanager
    def held_directory(self, path: EntryPath) -> Iterator[int]:
        """Yield the inode number of a directory, which no other gets until the end of the block, even if
        this one is removed. Raises EntryMissing, WrongKind.
        """

        def open_directory() -> _HeldDirectory:
            with self._opened() as folder, translated(path), descriptors.descend(folder, path) as found:
                return _HeldDirectory(os.dup(found))

        held = self.run(open_directory)
        try:
            yield held.inode
        finally:
            held.close()

    @_bounded(SHORT_S)
    def open_file(self, path: EntryPath) -> OpenFile:
        """Open a regular file. Never waits for a writer of a FIFO. Raises EntryMissing, WrongKind."""
        with self._opened_parent(path) as parent:
            stream = os.fdopen(descriptors.open_regular(parent, path[-1]), "rb", buffering=0)
        status = os.fstat(stream.fileno())
        return OpenFile(
            stream=stream,
            size_bytes=status.st_size,
            modified_at=instant(status.st_mtime),
            etag=etag_of(status),
            calls=self._calls,
        )

    def write_file(self, path: EntryPath, chunks: Iterable[bytes]) -> Entry:
        """Write a whole file: readers see the old or the new content, never a part, and it survives
        a power failure.

        Missing parent directories are created. A link of that name is replaced, not followed. If
        `chunks` raises, the old content stays. Raises WrongKind (a directory has the name),
        StorageFull.
        """
        new = self.run(lambda: self._begin_file(path))
        try:
            for chunk in chunks:
                self.run(new.writer_of(chunk))
            return self.run(new.commit, LONG_S)
        finally:
            with suppress(StorageUnavailable):  # a stalled host: the temporary file stays
                self.run(new.abandon)

    @_bounded(SHORT_S)
    def replace_unchanged(self, path: EntryPath, content: bytes, *, etag: str) -> Entry | None:
        """Write a file if it is still as it was with this etag, or missing with the etag "". Return
        None, and change nothing, if another writer was faster. Keeps the permission bits.
        """
        owner = self._storage.owner
        with (
            self._opened() as folder,
            translated(path),
            descriptors.descend(folder, path[:-1]) as parent,
            descriptors.descend(folder, (UNFINISHED,), create_for=owner) as aside,
        ):
            name, mode = path[-1], 0o644
            if etag:
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode) or etag_of(status) != etag:
                    return None
                mode = stat.S_IMODE(status.st_mode) & 0o777
            temporary = trash.new_batch()
            with closing(os.open(temporary, _NEW, 0o600, dir_fd=aside)) as file:
                try:
                    _write_all(file, content)
                    owner.adopt(file, mode)
                    os.fsync(file)
                    if not _take_place(aside, temporary, parent, name, etag):
                        return None
                    os.fsync(parent)
                    return entry_of(name, os.fstat(file))
                finally:
                    with suppress(OSError):
                        os.unlink(temporary, dir_fd=aside)

    @_bounded(SHORT_S)
    def make_directory(self, path: EntryPath) -> None:
        """Create the directory and its missing parents. Raises EntryExists, WrongKind, StorageFull."""
        with (
            self._opened() as folder,
            translated(path),
            descriptors.descend(folder, path[:-1], create_for=self._storage.owner) as parent,
        ):
            descriptors.make_directory(parent, path[-1], self._storage.owner)

    @_bounded(LONG_S)
    def delete_entry(self, path: EntryPath) -> None:
        """Remove a file, a link, or a directory with all its content.
        Raises EntryMissing, EntryBusy.
        """
        with self._opened_parent(path) as parent:
            descriptors.remove(parent, path[-1])

    @_bounded(SHORT_S)
    def weigh(self, paths: Sequence[EntryPath], *, most_entries: int) -> Usage:
        """Return bytes and number of the entries and all that they hold; incomplete beyond
        `most_entries`. Missing entries count nothing.
        """
        size = count = 0
        with self._opened() as folder:
            for path in paths:
                with suppress(OSError):
                    for found in _found_at(folder, path):
                        if count >= most_entries:
                            return Usage(size, count, is_complete=False)
                        count += 1
                        size += found.status.st_size if found.is_file else 0
        return Usage(size, count, is_complete=True)

    @_bounded(SHORT_S)
    def taken_names(self, path: EntryPath, names: Collection[str]) -> list[str]:
        """Return those of the names that the directory has. Raises EntryMissing, WrongKind."""
        with self._opened() as folder, translated(path), descriptors.descend(folder, path) as directory:
            return [name for name in names if entry_or_none(directory, name)]

    @_bounded(SHORT_S)
    def move(self, path: EntryPath, to: EntryPath, *, taken: NameTaken, batch: str) -> EntryPath | None:
        """Move or rename an entry within the folder; return its path then, or None if it was skipped.
        A replaced entry goes to `batch` of the trash.

        Readers see the entry at one place or at the other. Raises EntryMissing (also if the parent
        of `to` is missing), EntryExists, WrongKind (a directory into itself).
        """
        with (
            self._opened() as folder,
            translated(path),
            descriptors.descend(folder, path[:-1]) as source,
            _present(source, path[-1]),
            translated(to),
            descriptors.descend(folder, to[:-1]) as target,
        ):
            if to[: len(path)] == path and to != path:
                raise trees.IntoItself(path[-1])
            return self._placing(folder, taken, batch).place(source, path[-1], target, to)

    @_bounded(COPY_S)
    def copy(
        self, path: EntryPath, target: "FolderFiles", to: EntryPath, *, copying: "Copying"
    ) -> EntryPath | None:
        """Copy an entry, a directory with all its content, to `to` of this or another folder; return
        its path then, or None if it was skipped. Links are copied as links, never followed.

        The copy appears under its name when it is complete. Raises EntryMissing, EntryExists,
        WrongKind (also a FIFO or a device), StorageFull, and what `copying.count` raises.
        """
        with (
            self._opened() as source_folder,
            target._opened() as folder,
            translated(path),
            descriptors.descend(source_folder, path[:-1]) as source,
            _present(source, path[-1]),
            translated(to),
            descriptors.descend(folder, to[:-1]) as place,
        ):
            if target._folder_id == self._folder_id and to[: len(path)] == path and to != path:
                raise trees.IntoItself(path[-1])
            owner = target._storage.owner
            with _removed_at_the_end(folder, owner) as staging:
                trees.Copier(owner, copying.count, copying.left_out).copy(source, path[-1], staging, to[-1])
                placing = target._placing(folder, copying.taken, copying.batch)
                return placing.place(staging, to[-1], place, to)

    @_bounded(COPY_S)
    def copy_all(self, target: "FolderFiles", count: Callable[[int], None]) -> list[EntryPath]:
        """Copy everything but the trash into an empty folder, which nobody uses yet, and have it
        written to the disk; return what could not be copied (FIFOs, devices, unreadable files).
        `count` as of `Copying`. Raises what it raises, StorageFull, WrongKind (too many levels).
        """
        left_out: list[EntryPath] = []
        with self._opened() as source, target._opened() as place, translated(ROOT):
            trees.Copier(target._storage.owner, count, left_out).copy_content(source, place)
            descriptors.sync_filesystem(place)
        return left_out

    @_bounded(COPY_S)
    def unpack(
        self, path: EntryPath, target: "FolderFiles", to: EntryPath, name: str, *, copying: "Copying"
    ) -> tuple[EntryPath | None, list[str]]:
        """Unpack an archive into the directory `to` of this or another folder: as the new directory
        `name`, or among what is there if it is "". Return the path of the new directory (None if it
        was skipped) and the names of members that were left out. Nothing appears before all is
        unpacked. Raises ArchiveRefused, EntryExists, and what `copying.count` raises.
        """
        with (
            self.open_file(path).stream as archive,
            target._opened() as folder,
            translated(to),
            descriptors.descend(folder, to) as place,
            _removed_at_the_end(folder, target._storage.owner) as staging,
        ):
            owner = target._storage.owner
            descriptors.make_directory(staging, _UNPACKED, owner)
            with closing(descriptors.open_directory(staging, _UNPACKED)) as unpacked:
                left_out = archives.unpack(archive, unpacked, owner=owner, spend=copying.count)
                placing = target._placing(folder, copying.taken, copying.batch)
                if name:
                    return placing.place(staging, _UNPACKED, place, (*to, name)), left_out
                if copying.taken is NameTaken.REFUSE:  # before the first entry appears
                    _refuse_taken(trees.taken_path(unpacked, place, to))
                trees.merge(unpacked, place, to, placing)
                return to, left_out

    def zip_stream(self, paths: Sequence[EntryPath]) -> Iterator[bytes]:
        """Yield a ZIP archive of the entries with all that they hold, of the whole folder without any.
        Missing ones are left out.
        """
        with self._opened() as folder:
            found = _found_at_all(folder, paths) if paths else trees.walk(folder, leave_out=UNLISTED)
            yield from archives.zip_stream(found)

    def search(self, path: EntryPath) -> Iterator[tuple[EntryPath, Entry]]:
        """Yield all entries at any depth below the directory, with their paths in the folder. Raises
        EntryMissing, WrongKind.
        """
        leave_out = UNLISTED if path == ROOT else frozenset()
        with self._opened() as folder, translated(path), descriptors.descend(folder, path) as directory:
            for found in trees.walk(directory, leave_out=leave_out):
                yield (*path, *found.path), entry_of(found.name, found.status)

    async def arun(self, call: Callable[[], T], timeout_s: float = SHORT_S) -> T:
        """Do as `run`, for coroutines."""
        if self._calls is None:
            return await asyncio.to_thread(call)
        return await self._calls.arun(call, timeout_s=timeout_s)

    @_bounded(SHORT_S)
    def throw_away(self, path: EntryPath, *, batch: str) -> None:
        """Move an entry to `batch` of the folder's trash, from which `restore` brings it back.
        Raises EntryMissing, WrongKind (the name of the trash is taken).
        """
        with self._opened() as folder, translated(path), descriptors.descend(folder, path[:-1]) as parent:
            self._placing(folder, NameTaken.REFUSE, batch).discard(parent, path[-1], path)

    @_bounded(SHORT_S)
    def restore(self, batch: str) -> None:
        """Bring the entries of a batch back to where they were. Raises EntryMissing."""
        with self._opened() as folder, translated((TRASH, batch)):
            trash.restore(folder, batch)

    @_bounded(SHORT_S)
    def trashed(self) -> list[trash.Batch]:
        """Return the batches in the trash, newest first."""
        with self._opened() as folder, translated((TRASH,)):
            return trash.batches(folder)

    @_bounded(LONG_S)
    def expire_trash(self, *, now_s: float) -> int:
        """Remove what has been in the trash or unfinished for too long; return the number of batches."""
        with self._opened() as folder, translated((TRASH,)):
            return trash.expire(folder, now_s=now_s)

    def _placing(self, folder: int, taken: NameTaken, batch: str) -> trees.Placing:
        def discard(directory: int, name: str, path: EntryPath) -> None:
            trash.discard(folder, directory, name, path=path, batch=batch, owner=self._storage.owner)

        return trees.Placing(taken, discard)

    def measure(self, effort: Effort = INTERACTIVE, observe: measuring.FileObserver | None = None) -> Usage:
        """Return the apparent size of all regular files at any depth.
        A hard-linked file counts once; links are not followed. `observe` receives each counted file.
        """

        def count() -> Usage:
            with self._opened() as folder, translated(ROOT):
                return measuring.measure(folder, effort, observe)

        return self.run(count, effort.max_s + LONG_S)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        with self._storage.opened(self._folder_id) as folder:
            yield folder

    @contextmanager
    def _opened_parent(self, path: EntryPath) -> Iterator[int]:
        with (
            self._opened() as folder,
            translated(path),
            descriptors.descend(folder, path[:-1]) as parent,
        ):
            yield parent

    def _begin_file(self, path: EntryPath) -> "_NewFile":
        with (
            self._opened() as folder,
            translated(path),
            descriptors.descend(folder, path[:-1], create_for=self._storage.owner) as parent,
            descriptors.descend(folder, (UNFINISHED,), create_for=self._storage.owner) as aside,
        ):
            if _is_directory(parent, path[-1]):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path[-1])
            return _NewFile(aside, parent, path, self._storage.owner)


class _HeldDirectory:
    """An open directory."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.inode = os.fstat(descriptor).st_ino

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()  # opened by a call whose caller had given up


class _NewFile:
    """A file that is written in the directory `aside` and gets its place in `parent` when it is whole.
    Holds three descriptors until `abandon`.
    """

    def __init__(self, aside: int, parent: int, path: EntryPath, owner: Owner) -> None:
        self._path, self._owner = path, owner
        self._temporary = trash.new_batch()
        self._file = os.open(self._temporary, _NEW, 0o600, dir_fd=aside)
        self._aside, self._parent = os.dup(aside), os.dup(parent)
        self._is_named = False

    def writer_of(self, chunk: bytes) -> Callable[[], None]:
        """Return a call that appends the bytes. Its descriptor is its own, because a stalled call goes on
        after `abandon`, when the number may mean another file.
        """
        file = os.dup(self._file)

        def write() -> None:
            with translated(self._path), closing(file):  # a full quota may show at the closing
                _write_all(file, chunk)

        return write

    def commit(self) -> Entry:
        name = self._path[-1]
        with translated(self._path):
            self._owner.adopt(self._file, 0o644)
            os.fsync(self._file)
            os.rename(self._temporary, name, src_dir_fd=self._aside, dst_dir_fd=self._parent)
            self._is_named = True
            os.fsync(self._parent)
            return entry_of(name, os.fstat(self._file))

    def abandon(self) -> None:
        """Close everything, and remove the file unless it was committed. Does nothing a second time."""
        aside, parent, file = self._aside, self._parent, self._file
        self._aside = self._parent = self._file = -1
        if file < 0:
            return
        with closing(parent), closing(aside), suppress(OSError), closing(file):
            if not self._is_named:
                with suppress(OSError):
                    os.unlink(self._temporary, dir_fd=aside)

    def __del__(self) -> None:
        if hasattr(self, "_is_named"):
            self.abandon()  # made by a call whose caller had given up


@dataclass(frozen=True, slots=True)
class Copying:
    """Settings of a copy: `count` gets the bytes of each piece before it is written (0 for an entry)
    and may end the copy by an error, but not use the database; `left_out` collects what could not be copied.
    """

    taken: NameTaken
    batch: str
    count: Callable[[int], None]
    left_out: list[EntryPath]


@contextmanager
def _removed_at_the_end(folder: int, owner: Owner) -> Iterator[int]:
    """Yield an open new directory in UNFINISHED; it is removed at the end of the block, with what is left
    in it.
    """
    name = trash.new_batch()
    with descriptors.descend(folder, (UNFINISHED,), create_for=owner) as aside:
        try:
            with descriptors.descend(aside, (name,), create_for=owner) as staging:
                yield staging
        finally:
            with suppress(OSError):
                descriptors.remove(aside, name)


def _take_place(aside: int, temporary: str, parent: int, name: str, etag: str) -> bool:
    """Give the name to the new file unless another writer was faster. What had the name has the
    temporary one then.
    """
    if not etag:
        try:
            trees.move(aside, temporary, parent, name)
        except FileExistsError:
            return False
        return True
    if not trees.exchange(aside, temporary, parent, name):
        os.rename(temporary, name, src_dir_fd=aside, dst_dir_fd=parent)
        return True
    # Only now nobody can replace the old file any more: it is looked at once again.
    if etag_of(os.stat(temporary, dir_fd=aside, follow_symlinks=False)) == etag:
        return True
    trees.exchange(aside, temporary, parent, name)
    return False


def _found_at(folder: int, path: EntryPath) -> Iterator[trees.Found]:
    """Yield the entry `path` and, of a directory, all below it; their paths begin with its own."""
    with descriptors.descend(folder, path[:-1]) as parent:
        top = trees.Found(path, parent, os.stat(path[-1], dir_fd=parent, follow_symlinks=False))
        yield top
        if top.is_directory:
            with closing(descriptors.open_directory(parent, path[-1])) as directory:
                for found in trees.walk(directory):
                    yield trees.Found((*path, *found.path), found.parent, found.status)


def _found_at_all(folder: int, paths: Sequence[EntryPath]) -> Iterator[trees.Found]:
    """Yield the entries and all below them; their paths begin with the name of the entry."""
    for path in paths:
        with suppress(FileNotFoundError, NotADirectoryError):
            for found in _found_at(folder, path):
                yield trees.Found(found.path[len(path) - 1 :], found.parent, found.status)


@contextmanager
def _present(directory: int, name: str) -> Iterator[None]:
    """Check that the entry is there before the block. Raises FileNotFoundError."""
    os.stat(name, dir_fd=directory, follow_symlinks=False)
    yield


def _write_all(file: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(file, rest) :]


def _is_directory(parent: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


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


def _refuse_taken(path: EntryPath | None) -> None:
    if path:
        with translated(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


@contextmanager
def translated(path: EntryPath) -> Iterator[None]:
    """Translate OSErrors about `path` into the errors of the storage port."""
    name = f"“{display_name('/'.join(path))}”" if path else _("the folder")
    try:
        yield
    except trees.IntoItself as error:
        sentence = _("{name} cannot be moved or copied into itself.")
        raise WrongKind(sentence.format(name=name)) from error
    except trees.TooDeep as error:
        sentence = _("{name} has more than {count} levels of directories.")
        raise WrongKind(sentence.format(name=name, count=MAX_DEPTH)) from error
    except trees.NoFreeName as error:
        raise EntryExists(_("All numbered forms of {name} are taken.").format(name=name)) from error
    except descriptors.NotARegularFile as error:
        raise WrongKind(_("{name} is a link or a device, not a file.").format(name=name)) from error
    except descriptors.StillChanging as error:
        sentence = _("{name} is large or still changing. Deleting again goes on.")
        raise EntryBusy(sentence.format(name=name)) from error
    except OSError as error:
        kind, sentence = _ERRORS.get(error.errno, _OTHER_ERROR)
        raise kind(_(sentence).format(name=name, error=error.strerror)) from error
