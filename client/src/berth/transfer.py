"""Copy files between this computer and a folder or session.

A file is copied into TARGET if TARGET is a directory or ends with a slash; otherwise TARGET is its
new name. A directory is copied into TARGET under its own name, even if TARGET does not exist,
unless that is already the last name of TARGET; SOURCE/. means its contents. Repeating a copy
therefore gives the same result. Directories are merged and files replaced; neither replaces the
other. Missing directories are created.

A local TARGET that is a link to a file stays a link, and the file is replaced; a device or pipe is
written to. Below a copied directory, links are replaced, and devices and pipes are refused.

Links are neither followed nor copied. Names from the portal never lead out of the target directory,
and a file appears under its name only when it is complete. Entries that cannot be copied are
skipped and reported; the copy continues.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from berth.errors import BerthError, InvalidInput, NotFound, Refused
from berth.local_files import OF_ONE_ENTRY, appearing, is_safe_name, is_special, make_inside, make_local
from berth.models import Directory, Entry
from berth.transport import Content

PIECE_BYTES = 256 * 1024
OTHER_TARGET = "Remove it first, or name another target."
# Error codes of the portal that concern one entry, not the whole copy.
OF_ONE_ENTRY_CODES = frozenset(("wrong_kind", "exists", "in_the_way"))


@dataclass(frozen=True, slots=True)
class Tally:
    """Count of copied entries, of skipped ones (links, devices) and of failed ones."""

    files: int = 0
    size_bytes: int = 0
    skipped: int = 0
    failed: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.files + other.files,
            self.size_bytes + other.size_bytes,
            self.skipped + other.skipped,
            self.failed + other.failed,
        )


SKIPPED = Tally(skipped=1)
FAILED = Tally(failed=1)


class Watcher(Protocol):
    """Receiver of the progress of a copy."""

    def begin(self, name: str, size_bytes: int | None) -> None:
        """Start a file; `size_bytes` is None if unknown."""

    def advance(self, size_bytes: int) -> None:
        """Add `size_bytes` to the progress."""

    def skip(self, name: str, why: str) -> None:
        """Report a skipped entry."""


class QuietWatcher:
    """Watcher that reports nothing."""

    def begin(self, name: str, size_bytes: int | None) -> None:
        pass

    def advance(self, size_bytes: int) -> None:
        pass

    def skip(self, name: str, why: str) -> None:
        pass


Quiet: Watcher = QuietWatcher()


class FileStore(Protocol):
    """Operations of a folder or session that a copy needs."""

    def stat(self, path: str) -> Entry:
        """Return the entry of a file or directory; its name is the last segment of the path."""

    def read(self, path: str) -> Iterator[bytes]:
        """Yield the contents of a file, in pieces."""

    def write_stream(
        self, path: str, content: Content, size_bytes: int, mode: int = 0, stamp: str = ""
    ) -> None: ...

    def send_tree(self, local: Path, path: str, watcher: Watcher) -> Tally: ...

    def fetch_tree(self, path: str, local: Path, watcher: Watcher) -> Tally: ...


class Tree(FileStore, Protocol):
    """Place whose directories are copied file by file."""

    def list(self, path: str = "") -> Directory: ...

    def make_directory(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """Entries of a local directory to copy, as (name below it, local path), parents first."""

    members: tuple[tuple[str, Path], ...]
    tally: Tally


def upload(place: FileStore, local: str | Path, path: str, watcher: Watcher) -> Tally:
    """Copy a local file or directory to `path`.

    Raises InvalidInput for other kinds, Refused if a directory would replace a file.
    """
    source = Path(local)
    if _local_kind(source) == "directory":
        target = _tree_target(path, _kept_name(str(local)))
        if target.strip("/") and _kind_at(place, target) not in ("", "directory"):
            raise _in_the_way(target)
        return place.send_tree(source, target, watcher)
    goes_inside = not path or path.endswith("/") or _kind_at(place, path) == "directory"
    return send_file(place, source, _join(path, source.name) if goes_inside else path, watcher)


def download(place: FileStore, path: str, local: str | Path, watcher: Watcher) -> Tally:
    """Copy a file or directory of `place` to this computer. Raises NotFound, InvalidInput, Refused."""
    is_contents = path in ("", "/", ".") or path.endswith("/.")
    path = path.removesuffix(".") if is_contents else path
    path, text = path.rstrip("/") or path[:1], str(local)
    source = place.stat(path)
    if source.is_directory:
        target = Path(_tree_target(text, "" if is_contents else _safe_name(source.name)) or ".")
        if target.exists() and not target.is_dir():
            raise _in_the_way(str(target))
        make_local(target)
        return place.fetch_tree(path, target, watcher)
    if source.kind != "file":
        raise InvalidInput(f"“{path}” is neither a file nor a directory.")
    target = Path(text)
    if text.endswith("/") or target.is_dir():
        target /= _safe_name(source.name)
    if target.is_dir():
        raise Refused(f"{target} is a directory; a file cannot take its place.", hint=OTHER_TARGET)
    if is_special(target):
        return _fetch_into(place.read(path), target, source.size_bytes, watcher)
    target = Path(os.path.realpath(target))  # a named link stays; the file behind it is replaced
    make_local(target.parent)
    return fetch_file(place.read(path), target, source.size_bytes, watcher)


def plan_tree(local: Path, watcher: Watcher) -> Plan:
    """List all readable files and directories below `local`; reports the others to `watcher`."""
    members: list[tuple[str, Path]] = []
    tally = Tally()

    def unreadable(error: OSError) -> None:
        nonlocal tally
        watcher.skip(str(error.filename), f"it cannot be read: {error.strerror}")
        tally += FAILED

    for top, directories, files in os.walk(local, onerror=unreadable):
        directories.sort()
        for name in sorted((*directories, *files)):
            path = Path(top, name)
            try:
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    path.open("rb").close()
            except OSError as error:
                unreadable(error)
                continue
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                members.append((path.relative_to(local).as_posix(), path))
                tally += Tally(1, status.st_size) if stat.S_ISREG(status.st_mode) else Tally()
            else:
                watcher.skip(str(path), why_not(status.st_mode))
                tally += SKIPPED
    return Plan(tuple(members), tally)


def send_one_by_one(place: Tree, local: Path, path: str, watcher: Watcher) -> Tally:
    """Copy a local directory with its contents into `path`, file by file; creates it if missing."""
    plan = plan_tree(local, watcher)
    if path.strip("/"):
        place.make_directory(path)
    tally = Tally(skipped=plan.tally.skipped, failed=plan.tally.failed)
    lost: set[str] = set()
    for name, child in plan.members:
        if not lost.isdisjoint(map(str, PurePosixPath(name).parents)):
            tally += FAILED
            continue
        try:
            if child.is_dir():
                place.make_directory(_join(path, name))
            else:
                tally += send_file(place, child, _join(path, name), watcher)
        except NotFound:
            raise  # parents are created on the way, so the folder itself is gone
        except BerthError as error:
            pass_over(error, str(child), watcher)
            lost.add(name)
            tally += FAILED
    return tally


def fetch_one_by_one(place: Tree, path: str, local: Path, watcher: Watcher) -> Tally:
    """Copy the contents of a directory into the existing directory `local`, file by file."""
    listing = place.list(path)
    tally = Tally()
    if not listing.is_complete:
        watcher.skip(path, f"only the first {len(listing.entries)} entries are listed")
        tally += FAILED
    for entry in listing.entries:
        below = f"{path}/{entry.name}".lstrip("/")
        if not entry.is_addressable or not is_safe_name(entry.name):
            watcher.skip(below, "its name cannot be used here")
            tally += FAILED
        elif entry.kind not in ("file", "directory"):
            watcher.skip(below, "a link" if entry.kind == "link" else "neither a file nor a directory")
            tally += SKIPPED
        else:
            try:
                tally += _fetch_entry(place, entry, below, local, watcher)
            except (BerthError, OSError) as error:
                if isinstance(error, NotFound):
                    place.list(path)  # raises NotFound if the directory is gone too
                pass_over(error, below, watcher)
                tally += FAILED
    return tally


def _fetch_entry(place: Tree, entry: Entry, path: str, local: Path, watcher: Watcher) -> Tally:
    target = local / entry.name
    if not entry.is_directory:
        return fetch_file(place.read(path), target, entry.size_bytes, watcher)
    make_inside(local, (entry.name,))
    return fetch_one_by_one(place, path, target, watcher)


def pass_over(error: BerthError | OSError, name: str, watcher: Watcher) -> None:
    """Report an error of one entry; raise one that would affect the next entry too."""
    of_one_entry = (
        error.errno in OF_ONE_ENTRY
        if isinstance(error, OSError)
        else isinstance(error, InvalidInput | NotFound)
        or (isinstance(error, Refused) and error.code in OF_ONE_ENTRY_CODES)
    )
    if not of_one_entry:
        raise error
    watcher.skip(name, error.message if isinstance(error, BerthError) else str(error.strerror))


def fetch_file(pieces: Iterator[bytes], target: Path, size_bytes: int | None, watcher: Watcher) -> Tally:
    """Write `pieces` to `target`, which appears when all of them are written."""
    watcher.begin(target.name, size_bytes)
    with appearing(target) as file:
        return Tally(1, _write(pieces, file, watcher))


def _fetch_into(pieces: Iterator[bytes], target: Path, size_bytes: int | None, watcher: Watcher) -> Tally:
    """Write `pieces` to an existing device or pipe. Raises InvalidInput."""
    watcher.begin(target.name, size_bytes)
    try:
        number = os.open(target, os.O_WRONLY)
    except OSError as exc:
        raise InvalidInput(f"{target} cannot be written to: {exc.strerror}.") from exc
    with os.fdopen(number, "wb") as file:
        return Tally(1, _write(pieces, file, watcher))


def _write(pieces: Iterator[bytes], file: BinaryIO, watcher: Watcher) -> int:
    """Write `pieces` to `file`. Returns the number of bytes."""
    written = 0
    for piece in pieces:
        file.write(piece)
        written += len(piece)
        watcher.advance(len(piece))
    return written


def pieces_of_file(local: Path, size_bytes: int, watcher: Watcher) -> Iterator[bytes]:
    """Yield exactly `size_bytes` bytes of a file. Raises InvalidInput if it has become shorter."""
    left = size_bytes
    with local.open("rb") as file:
        while left and (piece := file.read(min(PIECE_BYTES, left))):
            left -= len(piece)
            watcher.advance(len(piece))
            yield piece
    if left:
        raise InvalidInput(f"{local} became shorter while it was read.", hint="Copy it again.")


def why_not(mode: int) -> str:
    """Return why an entry with this mode is skipped."""
    return "a link" if stat.S_ISLNK(mode) else "neither a file nor a directory"


def _safe_name(name: str) -> str:
    if not is_safe_name(name):
        raise InvalidInput(f"“{name}” cannot be a name here.", hint="Say under which name to keep it.")
    return name


def send_file(place: FileStore, local: Path, path: str, watcher: Watcher) -> Tally:
    """Copy a local file to exactly `path`. Raises InvalidInput, Refused."""
    try:
        status = local.stat()
        local.open("rb").close()
    except OSError as exc:
        raise InvalidInput(f"{local} cannot be read: {exc.strerror}.") from exc
    watcher.begin(local.name, status.st_size)
    place.write_stream(
        path,
        lambda: pieces_of_file(local, status.st_size, watcher),
        status.st_size,
        mode=stat.S_IMODE(status.st_mode) & 0o777,
        stamp=str(status.st_mtime_ns),
    )
    return Tally(1, status.st_size)


def _kind_at(place: FileStore, path: str) -> str:
    """Return the kind of the entry at `path`; "" if there is none."""
    try:
        return place.stat(path).kind
    except NotFound:
        return ""


def _tree_target(path: str, name: str) -> str:
    """Return `path`/`name`, or `path` if it ends in `name` already or only contents are copied."""
    if not name or (not path.endswith("/") and path.rpartition("/")[2] == name):
        return path
    return _join(path, name)


def _join(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}" if path.strip("/") else f"{path[:1]}{name}"


def _in_the_way(path: str) -> Refused:
    return Refused(f"“{path}” is no directory; a directory cannot take its place.", hint=OTHER_TARGET)


def _local_kind(local: Path) -> str:
    try:
        mode = local.stat().st_mode  # a named source may be a link
    except OSError as exc:
        raise InvalidInput(f"{local} cannot be read: {exc.strerror}.") from exc
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISREG(mode):
        return "file"
    raise InvalidInput(f"{local} is neither a file nor a directory.")


def _kept_name(source: str) -> str:
    """Return the name that a directory keeps; "" if only its contents are copied."""
    if source == "." or source.endswith("/."):
        return ""
    name = Path(source).name
    return name if name not in ("", "..") else Path(source).resolve().name
