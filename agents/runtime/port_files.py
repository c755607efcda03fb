"""Port to the files of a running container. Pure; raises the faults of `port` and those below.

Paths are absolute texts. Access has the rights of the container's own user, and links are followed
only as that user would follow them.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from agents.runtime.port import RuntimeFault


class PathMissing(RuntimeFault):
    """There is nothing at this path."""

    code = "path_missing"


class PathForbidden(RuntimeFault):
    """The container's user has no permission for this."""

    code = "path_forbidden"


class PathUnfit(RuntimeFault):
    """The entry at this path has the wrong type for the call, or the container's programs cannot do
    it.
    """

    code = "path_unfit"


class EntryType(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory.
    `mode` has the permission bits only; `target` is the target of a link.
    """

    name: str
    type: EntryType
    size_bytes: int
    mode: int
    modified_at: datetime
    target: str = ""

    @property
    def is_addressable(self) -> bool:
        """False for a name that is not UTF-8; its text has a replacement character in each invalid
        place.
        """
        return "\N{REPLACEMENT CHARACTER}" not in self.name


@dataclass(frozen=True, slots=True)
class Owner:
    """User and primary group of the container's processes, which own the files that they write."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Place:
    """A path that the container's user can reach: resolved, except perhaps for the last name, with
    its entry. `is_readable`: that user may read it and, if it is a directory, enter it.
    """

    path: str
    entry: Entry
    is_readable: bool


class Staging(ABC):
    """A temporary directory for an upload, inside the target directory. Discard it in every case."""

    @abstractmethod
    async def write(self, name: str, mode: int, chunks: AsyncIterable[bytes]) -> None:
        """Create a file in it. Exceptions of `chunks` propagate. Raises PathUnfit with the
        container's message, e.g. if the disk is full.
        """

    @abstractmethod
    async def unpack(self, chunks: AsyncIterable[bytes]) -> None:
        """Unpack a tar into it.
        Exceptions of `chunks` propagate. Raises PathUnfit, also if the image has no `tar`.
        """

    @abstractmethod
    async def commit(self) -> None:
        """Move everything to its target, each file atomically; directories are merged, files
        replaced.

        Raises PathUnfit, and moves nothing, if a file would replace a directory or the reverse.
        Raises PathForbidden, after which some entries may not have been moved.
        """

    @abstractmethod
    async def discard(self) -> None:
        """Remove the directory with everything still in it. Idempotent; never raises a fault."""


class ContainerFiles(ABC):
    """The files of one running container.
    Every method may raise ContainerGone and RuntimeUnavailable.
    """

    @abstractmethod
    async def owner(self) -> Owner:
        """Return the user and primary group of its processes."""

    @abstractmethod
    async def find(self, path: str, *, follows_link: bool) -> Place:
        """Return the entry at `path`, if the container's user can reach it; with `follows_link`,
        the final target of a link. Raises PathMissing, PathForbidden.
        """

    @abstractmethod
    async def list_directory(self, path: str, limit: int) -> tuple[list[Entry], bool]:
        """Return at most `limit` entries by name, and True if these are all.
        Raises PathMissing, PathForbidden, PathUnfit.
        """

    @abstractmethod
    def read(self, place: Place) -> AsyncGenerator[bytes, None]:
        """Yield the content of a file.
        Close the iterator (`aclose`) to stop early. Raises PathUnfit.
        """

    @abstractmethod
    def pack(self, place: Place) -> AsyncGenerator[bytes, None]:
        """Yield a tar of the readable content of a directory. The container produces it, so it must
        be validated. Close the iterator (`aclose`) to stop early. Raises PathUnfit, also if the
        image has no `tar`.
        """

    @abstractmethod
    async def stage(self, directory: str) -> Staging:
        """Create `directory` with its missing parents, and a staging directory in it.
        Raises PathForbidden, PathUnfit.
        """
