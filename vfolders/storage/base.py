"""The port to storage hosts: what a host of folders must do, whatever holds the bytes.

A folder is named by its id alone. Paths are tuples of safe components from vfolders.core.paths; ROOT is the folder
itself. Sessions write into the same folders at the same time and may plant symbolic links, FIFOs, devices and
hard links or rename things between two steps; an implementation must never follow a link, never open what is
not a regular file or directory, and never reach outside the folder.
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
    """One name in a directory. `size_bytes` is 0 for all but files; `name` is as on the disk."""

    name: str
    kind: EntryKind
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory: directories first, then by name. `is_complete` is false where the limit cut it short."""

    entries: tuple[Entry, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """What a folder holds. `is_complete` is false where counting stopped at a limit."""

    size_bytes: int
    file_count: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Effort:
    """How long counting may go on, and which share of one processor core it may take meanwhile."""

    most_entries: int
    most_s: float
    share: float


WHILE_SOMEBODY_WAITS = Effort(most_entries=1_000_000, most_s=20.0, share=1.0)
IN_BACKGROUND = Effort(most_entries=200_000_000, most_s=900.0, share=0.25)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file open for reading; whoever got it closes `stream`. `etag` changes when the file does."""

    stream: BinaryIO
    size_bytes: int
    modified_at: datetime
    etag: str


class EntryMissing(NotFound):
    """Nothing has this name."""


class WrongKind(Conflict):
    """A file was needed where there is a directory, a link or a device; or the other way round."""

    default_code = "wrong_kind"


class EntryExists(Conflict):
    """The name is taken."""

    default_code = "exists"


class EntryBusy(Conflict):
    """Somebody kept changing the entry while it was worked on; trying again may help."""

    default_code = "busy"


class StorageFull(LimitExceeded):
    """The host has no room left, or its own quota is used up."""

    default_code = "storage_full"


class StorageUnavailable(Unavailable):
    """The host does not answer, or the folder is not there."""

    default_code = "storage_unavailable"


class StorageBackend(ABC):
    """One storage host. Thread-safe; holds nothing open between calls. Raises only the errors above."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the host ready for its first folder. One that is ready already is success."""

    @abstractmethod
    def create_folder(self, folder_id: UUID) -> None:
        """Make the empty folder. One that exists already is success."""

    @abstractmethod
    def delete_folder(self, folder_id: UUID) -> None:
        """Remove the folder with all it holds; links are removed, never followed. Absent is success.

        After a crash or EntryBusy a second call goes on where the first stopped.
        """

    @abstractmethod
    def mount_source(self, folder_id: UUID) -> str:
        """Absolute path on the machine that a container engine binds. Raises StorageUnavailable."""

    @abstractmethod
    def list_directory(self, folder_id: UUID, path: EntryPath, *, limit: int) -> Listing:
        """At most `limit` entries of the directory. Raises EntryMissing, WrongKind."""

    @abstractmethod
    def stat(self, folder_id: UUID, path: EntryPath) -> Entry:
        """The entry itself; a link is not followed. Raises EntryMissing. `path` is not ROOT."""

    @abstractmethod
    def open_file(self, folder_id: UUID, path: EntryPath) -> OpenFile:
        """Open a regular file. Raises EntryMissing, WrongKind; never waits for a writer of a FIFO."""

    @abstractmethod
    def write_file(self, folder_id: UUID, path: EntryPath, chunks: Iterable[bytes]) -> Entry:
        """Write a whole file: readers see the old content or the new, never a part, and it survives a power cut.

        Missing parent directories are made. A link of that name is replaced, not followed. If `chunks` raises,
        the old content stays. Raises WrongKind (a directory has the name), StorageFull.
        """

    @abstractmethod
    def make_directory(self, folder_id: UUID, path: EntryPath) -> None:
        """Make the directory and its missing parents. Raises EntryExists, WrongKind, StorageFull."""

    @abstractmethod
    def delete_entry(self, folder_id: UUID, path: EntryPath) -> None:
        """Remove a file, a link, or a directory with all it holds. Raises EntryMissing, EntryBusy."""

    @abstractmethod
    def measure(self, folder_id: UUID, effort: Effort = WHILE_SOMEBODY_WAITS) -> Usage:
        """Apparent size of all regular files at any depth, a hard-linked one counted once, links not followed."""
