"""Copies between this computer and a folder or session, with the manners of `cp -r`.

Links are not followed and not copied. What a portal names never leads out of the directory that it is copied into, and a
file appears under its name only when it is whole.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from berth.errors import InvalidInput, NotFound
from berth.models import Directory, Entry
from berth.transport import Content

PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Tally:
    """How much was copied, and how much was not: links, devices, names that cannot be asked for."""

    files: int = 0
    size_bytes: int = 0
    skipped: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.files + other.files, self.size_bytes + other.size_bytes, self.skipped + other.skipped
        )


SKIPPED = Tally(skipped=1)


class Watcher(Protocol):
    """Hears how a copy goes."""

    def begin(self, name: str, size_bytes: int | None) -> None:
        """A file begins; None: nobody knows how much it is."""

    def advance(self, size_bytes: int) -> None:
        """So many bytes more."""

    def skip(self, name: str, why: str) -> None:
        """Something is left out."""


class _Quiet:
    def begin(self, name: str, size_bytes: int | None) -> None:
        pass

    def advance(self, size_bytes: int) -> None:
        pass

    def skip(self, name: str, why: str) -> None:
        pass


Quiet: Watcher = _Quiet()


class Place(Protocol):
    """What a copy asks of a folder or a session."""

    def stat(self, path: str) -> Entry: ...

    def read(self, path: str) -> Iterator[bytes]: ...

    def write_stream(self, path: str, content: Content, size_bytes: int, mode: int = 0) -> None: ...

    def send_tree(self, local: Path, path: str, watcher: Watcher) -> Tally: ...

    def fetch_tree(self, path: str, local: Path, watcher: Watcher) -> Tally: ...


class Tree(Place, Protocol):
    """A place whose directories are copied file by file."""

    def list(self, path: str = "") -> Directory: ...

    def make_directory(self, path: str) -> None: ...


def upload(place: Place, local: Path, path: str, watcher: Watcher) -> Tally:
    """Raises InvalidInput for what is neither a file nor a directory."""
    kind = _kind_of(local)
    target = path
    if _goes_inside(place, path):
        target = f"{path.rstrip('/')}/{_base_name(local)}" if path else _base_name(local)
    if kind == "directory":
        return place.send_tree(local, target, watcher)
    return _send_file(place, local, target, watcher)


def download(place: Place, path: str, local: Path, watcher: Watcher) -> Tally:
    """Raises NotFound, InvalidInput."""
    source = place.stat(path)
    target = local / _safe_name(source.name) if source.name and local.is_dir() else local
    if source.is_directory:
        target.mkdir(parents=True, exist_ok=True)
        return place.fetch_tree(path, target, watcher)
    if source.kind != "file":
        raise InvalidInput(f"“{path}” is neither a file nor a directory.")
    return fetch_file(place.read(path), target, source.size_bytes, watcher)


def send_one_by_one(place: Tree, local: Path, path: str, watcher: Watcher) -> Tally:
    """A directory with all it holds, made if missing."""
    if path.strip("/"):
        place.make_directory(path)
    tally = Tally()
    for child in sorted(local.iterdir()):
        below = f"{path}/{child.name}".lstrip("/")
        mode = child.lstat().st_mode
        if stat.S_ISDIR(mode):
            tally += send_one_by_one(place, child, below, watcher)
        elif stat.S_ISREG(mode):
            tally += _send_file(place, child, below, watcher)
        else:
            watcher.skip(str(child), why_not(mode))
            tally += SKIPPED
    return tally


def fetch_one_by_one(place: Tree, path: str, local: Path, watcher: Watcher) -> Tally:
    """What a directory holds, into `local`, which is there."""
    listing = place.list(path)
    tally = Tally()
    if not listing.is_complete:
        watcher.skip(path, f"only the first {len(listing.entries)} entries are listed")
        tally += SKIPPED
    for entry in listing.entries:
        below = f"{path}/{entry.name}".lstrip("/")
        if not entry.is_addressable or not is_safe_name(entry.name):
            watcher.skip(below, "its name cannot be used here")
            tally += SKIPPED
        elif entry.is_directory:
            make_inside(local, (entry.name,))
            tally += fetch_one_by_one(place, below, local / entry.name, watcher)
        elif entry.kind == "file":
            tally += fetch_file(place.read(below), local / entry.name, entry.size_bytes, watcher)
        else:
            watcher.skip(below, "a link" if entry.kind == "link" else "neither a file nor a directory")
            tally += SKIPPED
    return tally


def fetch_file(pieces: Iterator[bytes], target: Path, size_bytes: int | None, watcher: Watcher) -> Tally:
    """Write `pieces` to `target`, which appears when all is there."""
    watcher.begin(target.name, size_bytes)
    written = 0
    with appearing(target) as file:
        for piece in pieces:
            file.write(piece)
            written += len(piece)
            watcher.advance(len(piece))
    return Tally(1, written)


@contextmanager
def appearing(target: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write; it takes its name, in the place of another, only if all went well. Raises InvalidInput."""
    try:
        number, draft = tempfile.mkstemp(dir=target.parent, prefix=".berth-")
    except OSError as exc:
        raise InvalidInput(f"{target.parent} cannot be written to: {exc.strerror}.") from exc
    try:
        with os.fdopen(number, "wb") as file:
            yield file
        Path(draft).chmod(mode & ~_umask())
        Path(draft).replace(target)
    except IsADirectoryError as exc:
        raise InvalidInput(f"{target} is a directory.") from exc
    finally:
        Path(draft).unlink(missing_ok=True)


def pieces_of_file(local: Path, size_bytes: int, watcher: Watcher) -> Iterator[bytes]:
    """Exactly so many bytes. Raises InvalidInput when the file holds fewer by now."""
    left = size_bytes
    with local.open("rb") as file:
        while left and (piece := file.read(min(PIECE_BYTES, left))):
            left -= len(piece)
            watcher.advance(len(piece))
            yield piece
    if left:
        raise InvalidInput(f"{local} became shorter while it was read.", hint="Copy it again.")


def why_not(mode: int) -> str:
    """Why something with this mode is left out."""
    return "a link" if stat.S_ISLNK(mode) else "neither a file nor a directory"


def is_safe_name(name: str) -> bool:
    """Whether a name from elsewhere stays in the directory that it is put into."""
    return name not in ("", ".", "..") and not set("/\\\0") & set(name)


def make_inside(local: Path, parts: tuple[str, ...]) -> None:
    """Directories below `local`, none of them a link to elsewhere."""
    place = local
    for part in parts:
        place /= part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise InvalidInput(f"{place} is in the way: it is no directory.")
        place.mkdir(exist_ok=True)


def _safe_name(name: str) -> str:
    if not is_safe_name(name):
        raise InvalidInput(f"“{name}” cannot be a name here.", hint="Say under which name to keep it.")
    return name


def _send_file(place: Place, local: Path, path: str, watcher: Watcher) -> Tally:
    try:
        told = local.stat()
        local.open("rb").close()
    except OSError as exc:
        raise InvalidInput(f"{local} cannot be read: {exc.strerror}.") from exc
    watcher.begin(local.name, told.st_size)
    place.write_stream(
        path,
        lambda: pieces_of_file(local, told.st_size, watcher),
        told.st_size,
        mode=stat.S_IMODE(told.st_mode) & 0o777,
    )
    return Tally(1, told.st_size)


def _goes_inside(place: Place, path: str) -> bool:
    """Whether a copy to `path` goes into a directory there."""
    if not path or path.endswith("/"):
        return True
    try:
        return place.stat(path).is_directory
    except NotFound:
        return False


def _kind_of(local: Path) -> str:
    try:
        mode = local.stat().st_mode  # what is named may be a link
    except OSError as exc:
        raise InvalidInput(f"{local} cannot be read: {exc.strerror}.") from exc
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    raise InvalidInput(f"{local} is neither a file nor a directory.")


def _base_name(local: Path) -> str:
    return local.name if local.name not in ("", "..") else local.resolve().name


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
