"""The port to the files of a running container. Pure, and the faults are those of `base`.

Paths are absolute texts. Whoever asks has the rights of the container's own user, and links are followed only as that
user would follow them.
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
    """The container's user may not do this there."""

    code = "path_forbidden"


class PathUnfit(RuntimeFault):
    """What is at this path is not of the kind that the call needs, or the container's programs cannot do it."""

    code = "path_unfit"


class EntryType(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory. `mode` has the permission bits alone; `target` is where a link points to."""

    name: str
    type: EntryType
    size_bytes: int
    mode: int
    modified_at: datetime
    target: str = ""

    @property
    def is_addressable(self) -> bool:
        """False for a name that is not UTF-8, of which text has a replacement character in each wrong place."""
        return "\N{REPLACEMENT CHARACTER}" not in self.name


@dataclass(frozen=True, slots=True)
class Owner:
    """Who the container's processes are: what they own and may read."""

    uid: int
    gid: int
    gids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Place:
    """A path that the container's user reached: without links but for perhaps the last name, and what is there.
    `is_readable`: that user may read it, and enter it if it is a directory."""

    path: str
    entry: Entry
    is_readable: bool


class Staging(ABC):
    """A directory of its own in the directory where an upload belongs. Discard it, whatever happened."""

    @abstractmethod
    async def write(self, name: str, mode: int, chunks: AsyncIterable[bytes]) -> None:
        """Makes a file in it. What `chunks` raises passes. Raises PathUnfit, with the container's words: a full disk."""

    @abstractmethod
    async def unpack(self, chunks: AsyncIterable[bytes]) -> None:
        """Unpacks a tar into it. What `chunks` raises passes. Raises PathUnfit, also where the image has no `tar`."""

    @abstractmethod
    async def commit(self) -> None:
        """Moves all that is in it to where it belongs, each file whole; directories are merged, files replaced. Raises
        PathUnfit, and moves nothing, where a file would take the place of a directory or the other way round; PathForbidden: what
        was not moved is not moved then."""

    @abstractmethod
    async def discard(self) -> None:
        """It is gone with what is still in it. May be repeated; never raises a fault."""


class ContainerFiles(ABC):
    """The files of one container that runs. Every method may raise ContainerGone and RuntimeUnavailable."""

    @abstractmethod
    async def owner(self) -> Owner:
        """Who its processes are."""

    @abstractmethod
    async def find(self, path: str, *, follows_link: bool) -> Place:
        """What is at `path`, if its user may get there; with `follows_link` what a link there leads to in the end.
        Raises PathMissing, PathForbidden."""

    @abstractmethod
    async def list_directory(self, path: str, limit: int) -> tuple[list[Entry], bool]:
        """Entries by name, at most `limit`, and whether these are all. Raises PathMissing, PathForbidden, PathUnfit."""

    @abstractmethod
    def read(self, place: Place) -> AsyncGenerator[bytes, None]:
        """The content of a file. Close the iterator (`aclose`) to leave early. Raises PathUnfit."""

    @abstractmethod
    def pack(self, place: Place) -> AsyncGenerator[bytes, None]:
        """A tar of what is in a directory and may be read. It is the container's word: screen it. Close the iterator
        (`aclose`) to leave early. Raises PathUnfit, also where the image has no `tar`."""

    @abstractmethod
    async def stage(self, directory: str) -> Staging:
        """Makes `directory` with its parents, where they are missing, and a staging in it. Raises PathForbidden,
        PathUnfit."""
