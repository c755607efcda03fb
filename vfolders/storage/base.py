"""Port to storage hosts, independent of how the bytes are stored.

A folder is identified by its id only. Paths are tuples of safe components from vfolders.core.paths;
ROOT is the folder itself. Sessions write into the same folders concurrently and may create symbolic
links, FIFOs, devices and hard links or rename entries between two steps. An implementation must
never follow a link, never open anything but regular files and directories, and never reach outside
the folder.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import BinaryIO
from uuid import UUID

from common.errors import Conflict, LimitExceeded, NotFound, Unavailable
from vfolders.core.paths import EntryPath


class EntryKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory. `size_bytes` is 0 except for files; `name` is as on the disk."""

    name: str
    kind: EntryKind
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Listing:
    """Content of a directory, directories first, then by name.
    `is_complete` is False if the limit cut it short.
    """

    entries: tuple[Entry, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Size of a folder. `is_complete` is False if counting stopped at a limit."""

    size_bytes: int
    file_count: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of a measurement: entries, seconds, and share of one processor core."""

    max_entries: int
    max_s: float
    share: float


INTERACTIVE = Effort(max_entries=1_000_000, max_s=20.0, share=1.0)
BACKGROUND = Effort(max_entries=200_000_000, max_s=900.0, share=0.25)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file open for reading; the receiver closes `stream`.
    `etag` changes when the file does.
    """

    stream: BinaryIO
    size_bytes: int
    modified_at: datetime
    etag: str


class EntryMissing(NotFound):
    """There is no entry of this name."""


class WrongKind(Conflict):
    """The entry is of another type than required, e.g. a directory, link or device instead of a
    file.
    """

    default_code = "wrong_kind"


class EntryExists(Conflict):
    """The name is taken."""

    default_code = "exists"


class EntryBusy(Conflict):
    """The entry kept changing during the operation; trying again may help."""

    default_code = "busy"


class StorageFull(LimitExceeded):
    """The host has no space left, or its own quota is used up."""

    default_code = "storage_full"


class StorageUnavailable(Unavailable):
    """The host does not answer, or the folder is missing on it."""

    default_code = "storage_unavailable"


class StorageBackend(ABC):
    """One storage host.
    Thread-safe; keeps nothing open between calls. Raises only the errors above.
    """

    @abstractmethod
    def prepare(self) -> None:
        """Prepare the host for its first folder. Idempotent."""

    @abstractmethod
    def create_folder(self, folder_id: UUID) -> None:
        """Create the empty folder. Idempotent."""

    @abstractmethod
    def delete_folder(self, folder_id: UUID) -> None:
        """Remove the folder with all its content; links are removed, not followed. Succeeds if it
        is absent.

        After a crash or EntryBusy a second call continues where the first stopped.
        """

    @abstractmethod
    def mount_source(self, folder_id: UUID) -> str:
        """Return the absolute path on the machine for a bind mount. Raises StorageUnavailable."""

    @abstractmethod
    def list_directory(self, folder_id: UUID, path: EntryPath, *, limit: int) -> Listing:
        """Return at most `limit` entries of the directory. Raises EntryMissing, WrongKind."""

    @abstractmethod
    def stat(self, folder_id: UUID, path: EntryPath) -> Entry:
        """Return the entry itself; a link is not followed. `path` is not ROOT. Raises EntryMissing."""

    @abstractmethod
    def open_file(self, folder_id: UUID, path: EntryPath) -> OpenFile:
        """Open a regular file. Never waits for a writer of a FIFO. Raises EntryMissing, WrongKind."""

    @abstractmethod
    def write_file(self, folder_id: UUID, path: EntryPath, chunks: Iterable[bytes]) -> Entry:
        """Write a whole file: readers see the old or the new content, never a part, and it survives
        a power failure.

        Missing parent directories are created. A link of that name is replaced, not followed. If
        `chunks` raises, the old content stays. Raises WrongKind (a directory has the name),
        StorageFull.
        """

    @abstractmethod
    def make_directory(self, folder_id: UUID, path: EntryPath) -> None:
        """Create the directory and its missing parents. Raises EntryExists, WrongKind, StorageFull."""

    @abstractmethod
    def delete_entry(self, folder_id: UUID, path: EntryPath) -> None:
        """Remove a file, a link, or a directory with all its content.
        Raises EntryMissing, EntryBusy.
        """

    @abstractmethod
    def measure(self, folder_id: UUID, effort: Effort = INTERACTIVE) -> Usage:
        """Return the apparent size of all regular files at any depth.
        A hard-linked file counts once; links are not followed.
        """
