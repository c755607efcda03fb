"""Port to storage hosts, independent of how the bytes are stored.

A backend gives each folder, which is known by its id only, a directory on this machine.
`storage/files.py` has the operations on files in it, the same for every backend.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO
from uuid import UUID

from django.utils.translation import gettext as _

from common.errors import Conflict, LimitExceeded, NotFound, Unavailable
from vfolders.storage import descriptors
from vfolders.storage.descriptors import Owner

if TYPE_CHECKING:
    from vfolders.storage.host_calls import HostCalls


class EntryKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory. `size_bytes` is 0 except for files; `name` is as on the disk; `etag`
    changes when the entry does.
    """

    name: str
    kind: EntryKind
    size_bytes: int
    modified_at: datetime
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Content of a directory, directories first, then by name.
    `is_complete` is False if the limit cut it short.
    """

    entries: tuple[Entry, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Size of a folder. `is_complete` is False if counting stopped at a limit; `file_count` is None if
    the host knows the size alone.
    """

    size_bytes: int
    file_count: int | None
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
    """A regular file open for reading; the receiver closes `stream`, and reads by `calls` to the host,
    which are bounded. `etag` changes when the file does.
    """

    stream: BinaryIO
    size_bytes: int
    modified_at: datetime
    etag: str
    calls: "HostCalls | None" = None

    def read_start(self, most_bytes: int) -> bytes:
        """Return the first bytes of the file, at most so many. Raises StorageUnavailable."""
        descriptor = os.dup(self.stream.fileno())  # of the call, which may outlive a stalled host

        def read() -> bytes:
            with descriptors.closing(descriptor):
                return os.pread(descriptor, most_bytes, 0)

        return self.calls.run(read) if self.calls else read()


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


class Capability(StrEnum):
    """Ability of a storage host beyond keeping folders."""

    QUOTA = "quota"  # the file system itself refuses writes above a folder's quota
    USAGE = "usage"  # the file system knows a folder's size without a walk
    CLONE = "clone"  # a copy of a folder takes no time and no space


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes of a whole storage host. `free_bytes` is what new files may take."""

    total_bytes: int
    free_bytes: int


class StorageBackend(ABC):
    """One storage host.

    Thread-safe; keeps nothing open between calls. Every call may be repeated, also after a crash in
    the middle. Raises only the errors above.
    """

    capabilities: frozenset[Capability] = frozenset()

    is_mounted_by_berth: bool = False
    """`attach` mounts it, so `detach` takes it away from this machine."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        """User of the containers, to whom everything inside folders belongs."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare the host for its first folder, and attach it. Idempotent."""

    @abstractmethod
    def attach(self) -> None:
        """Mount what a start of the machine or a crash has unmounted; creates nothing. Idempotent.
        Raises StorageUnavailable.
        """

    @abstractmethod
    def lacks(self) -> tuple[str, ...]:
        """Return what this machine lacks for the host, as sentences for administrators; () if nothing."""

    @abstractmethod
    def space(self) -> Space:
        """Return how full the host is. Raises StorageUnavailable."""

    @abstractmethod
    def create_folder(self, folder_id: UUID, *, quota_bytes: int | None = None) -> None:
        """Create the empty folder. Idempotent; a present folder keeps its content and its quota."""

    @abstractmethod
    def delete_folder(self, folder_id: UUID) -> None:
        """Remove the folder with all its content; links are removed, not followed. Succeeds if it
        is absent.

        After a crash or EntryBusy a second call continues where the first stopped.
        """

    @abstractmethod
    def folder_path(self, folder_id: UUID) -> str:
        """Return the absolute path of the folder on this machine, for a bind mount.
        Raises StorageUnavailable.
        """

    @abstractmethod
    def _open_folder(self, folder_id: UUID) -> int:
        """Return a descriptor of the folder's directory. Raises OSError."""

    @contextmanager
    def opened(self, folder_id: UUID) -> Iterator[int]:
        """Yield a descriptor of the folder's directory. Raises StorageUnavailable."""
        try:
            folder = self._open_folder(folder_id)
        except OSError as error:
            raise StorageUnavailable(
                _("The folder's files are not on its storage host: {error}.").format(error=error.strerror),
                hint=_("Ask an administrator whether the host is mounted."),
            ) from error
        with descriptors.closing(folder):
            yield folder

    def agent_volume(self) -> tuple[dict[str, str], str] | None:
        """Return the options of Docker's volume driver `local` (type, o, device), and the password that
        replaces {secret} in them, by which other machines mount the host; None if they cannot.
        """
        return None

    def detach(self) -> None:
        """Unmount the host from this machine; its files stay. Idempotent."""
        return

    def set_quota(self, folder_id: UUID, quota_bytes: int | None) -> None:
        """Let the file system refuse writes that make the folder larger; None removes the quota.
        Only with Capability.QUOTA.
        """
        raise NotImplementedError(self)

    def used_bytes(self, folder_id: UUID) -> int | None:
        """Return the folder's size as the file system counts it, within a second; None if it does not
        count this folder, e.g. one without a quota. Only with Capability.USAGE.
        """
        raise NotImplementedError(self)

    def clone_folder(self, source_id: UUID, target_id: UUID) -> None:
        """Create the folder `target_id` with the present content of the other. Does nothing if it is
        there. Only with Capability.CLONE.
        """
        raise NotImplementedError(self)
