"""Simulated files of a container, in memory: a flat mapping, all owned by one user, packed as an
engine does.
"""

import io
import tarfile
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex

from agents.runtime.port_files import (
    ContainerFiles,
    Entry,
    EntryType,
    Owner,
    PathMissing,
    PathUnfit,
    Place,
    Staging,
)

UID = 1000
PACK_BYTES = 2**16


@dataclass(slots=True)
class SimulatedTree:
    """Files as {path: content}; None marks a directory."""

    entries: dict[str, bytes | None] = field(
        default_factory=lambda: {
            "/": None,
            "/home": None,
            "/home/work": None,
            "/home/work/.profile": b"umask 022\n",
        }
    )

    def make_directories(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            self.entries.setdefault("/" + "/".join(parts[:depth]), None)

    def below(self, path: str) -> list[str]:
        start = path.rstrip("/") + "/"
        return sorted(found for found in self.entries if found.startswith(start) and found != "/")


class SimulatedFiles(ContainerFiles):
    def __init__(self, tree: SimulatedTree, require_running: Callable[[], None]) -> None:
        self._tree = tree
        self._require_running = require_running

    async def owner(self) -> Owner:
        return Owner(UID, UID)

    async def find(self, path: str, *, follows_link: bool) -> Place:
        self._require_running()
        path = path.rstrip("/") or "/"
        return Place(path, self._entry(path), is_readable=True)

    async def list_directory(self, path: str, limit: int) -> tuple[list[Entry], bool]:
        place = await self.find(path, follows_link=True)
        if place.entry.type is not EntryType.DIRECTORY:
            raise PathUnfit(f"{path} is no directory.")
        depth = place.path.rstrip("/").count("/") + 1
        names = [found for found in self._tree.below(place.path) if found.count("/") == depth]
        return [self._entry(found) for found in names[:limit]], len(names) <= limit

    async def read(self, place: Place) -> AsyncGenerator[bytes, None]:
        yield self._tree.entries[place.path] or b""

    async def pack(self, place: Place) -> AsyncGenerator[bytes, None]:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for found in [place.path, *self._tree.below(place.path)]:
                head = tarfile.TarInfo("." + found[len(place.path) :])
                content = self._tree.entries[found]
                head.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
                head.mode = 0o755 if content is None else 0o644
                head.uid = head.gid = UID
                head.size = len(content or b"")
                archive.addfile(head, io.BytesIO(content or b""))
        packed = buffer.getvalue()
        for start in range(0, len(packed), PACK_BYTES):
            yield packed[start : start + PACK_BYTES]

    async def stage(self, directory: str) -> Staging:
        self._require_running()
        directory = directory.rstrip("/")
        parts = directory.split("/")
        for place in ("/".join(parts[:depth]) for depth in range(2, len(parts) + 1)):
            if self._tree.entries.get(place) is not None:
                raise PathUnfit(f"{place} is no directory.")
        self._tree.make_directories(directory)
        return SimulatedStaging(self._tree, directory)

    def _entry(self, path: str) -> Entry:
        if path not in self._tree.entries:
            raise PathMissing(f"There is nothing at {path}.")
        content = self._tree.entries[path]
        return Entry(
            name=path.rpartition("/")[2],
            type=EntryType.DIRECTORY if content is None else EntryType.FILE,
            size_bytes=len(content or b""),
            mode=0o755 if content is None else 0o644,
            modified_at=datetime.fromtimestamp(0, UTC),
        )


class SimulatedStaging(Staging):
    def __init__(self, tree: SimulatedTree, directory: str) -> None:
        self._tree = tree
        self._directory = directory
        self._path = f"{directory}/.berth-upload-{token_hex(8)}"
        self._tree.entries[self._path] = None

    async def write(self, name: str, mode: int, chunks: AsyncIterable[bytes]) -> None:
        self._tree.entries[f"{self._path}/{name}"] = b"".join([chunk async for chunk in chunks])

    async def unpack(self, chunks: AsyncIterable[bytes]) -> None:
        packed = io.BytesIO(b"".join([chunk async for chunk in chunks]))
        with tarfile.open(fileobj=packed) as archive:
            for head in archive:
                content = archive.extractfile(head)
                path = f"{self._path}/{head.name.strip('/')}"
                self._tree.make_directories(path.rpartition("/")[0])
                self._tree.entries[path] = content.read() if content else None

    async def commit(self) -> None:
        staged = self._tree.below(self._path)
        for path in staged:
            there = self._directory + path[len(self._path) :]
            is_file = self._tree.entries[path] is not None
            if there in self._tree.entries and (self._tree.entries[there] is not None) != is_file:
                raise PathUnfit(f"What is at {there} is of another kind.")
        for path in staged:
            self._tree.entries[self._directory + path[len(self._path) :]] = self._tree.entries.pop(path)

    async def discard(self) -> None:
        for path in [self._path, *self._tree.below(self._path)]:
            self._tree.entries.pop(path, None)
