"""Packs entries of a folder as a ZIP stream, and unpacks ZIP and tar archives.

An archive is as untrusted as any file: its names may lead out, it may be a bomb, and its lengths may
lie. Nothing is written outside the open directory, links and devices are left out, and an archive
that is refused leaves nothing.
"""

import bz2
import gzip
import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, Self, cast

from zipstream import ZipStream  # type: ignore[import-untyped]

from common.i18n import gettext as _
from vfolders.core.paths import MAX_DEPTH, ROOT, EntryPath, UnsafePath, display_name, parse_path
from vfolders.storage import descriptors
from vfolders.storage.base import WrongKind
from vfolders.storage.descriptors import Owner, closing
from vfolders.storage.trees import Found

PIECE_BYTES = 2**20
MOST_ENTRIES = 100_000
MOST_RATIO = 200
FREE_BYTES = 100 * 2**20
"""Unpacked bytes to which the ratio does not apply."""
_MOST_READ_BYTES = 16 * 2**20  # at once: the directory of a ZIP archive, a long name in a tar archive
LEFT_OUT_NAME = "LEFT OUT.txt"

# What the readers of the standard library raise for damaged archives.
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, NotImplementedError)


class ArchiveRefused(WrongKind):
    """The file is not an archive that can be unpacked here."""

    default_code = "archive_refused"


def zip_stream(entries: Iterator[Found]) -> Iterator[bytes]:
    """Yield a ZIP archive, uncompressed, of files and directories as they are found. Links, devices
    and unreadable files are left out, and named in a file at its end, as are changed names.
    """
    stream = ZipStream(compress_type=zipfile.ZIP_STORED)
    left_out: list[str] = []
    for found in entries:
        path = "/".join(found.path)
        name = _portable(path)
        if name != path:
            left_out.append(_("{name}: its name is not UTF-8 and was changed").format(name=name))
        if found.is_directory:
            stream.mkdir(name)
            yield from stream.all_files()
            if len(found.path) >= MAX_DEPTH:
                left_out.append(_("{name}: too many levels of directories").format(name=display_name(name)))
            continue
        try:
            file = descriptors.open_regular(found.parent, found.name)
        except OSError as error:
            left_out.append(f"{display_name(name)}: {_why_left_out(found, error)}")
            continue
        with closing(file):
            # By this path the library takes the time and mode of the open file.
            stream.add_path(f"/proc/self/fd/{file}", name, recurse=False)
            yield from stream.all_files()
    if left_out:
        stream.add("\n".join([_("Not in this archive, or changed:"), *left_out, ""]), LEFT_OUT_NAME)
    yield from stream.finalize()


def _portable(path: str) -> str:
    """Return the path with bytes that are not UTF-8 as %FF, because names in ZIP archives are UTF-8."""
    return "".join(f"%{ord(each) - 0xDC00:02X}" if 0xDC80 <= ord(each) <= 0xDCFF else each for each in path)


def _why_left_out(found: Found, error: OSError) -> str:
    if found.is_link:
        return _("a link")
    if isinstance(error, descriptors.NotARegularFile):
        return _("a device, pipe or socket")
    return _("not readable")


def unpack(archive: BinaryIO, into: int, *, owner: Owner, spend: Callable[[int], None]) -> list[str]:
    """Unpack the open file into the open directory; return the names of members left out: links and
    devices. `spend` gets the bytes of each piece before it is written, 0 for each member.

    Raises ArchiveRefused (no archive, damaged, encrypted, a bomb, a name that leads out) and what
    `spend` raises; the caller then removes what is in the directory.
    """
    size = os.fstat(archive.fileno()).st_size
    with _Writer(into, owner, _Budget(size, spend)) as writer:
        try:
            for member in _members(archive):
                writer.write(member)
        except _DAMAGED as error:
            raise ArchiveRefused(_("The archive is damaged: {error}.").format(error=error)) from error
        return writer.left_out


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    is_directory: bool
    is_file: bool
    mode: int
    open: Callable[[], IO[bytes]]


@dataclass(slots=True)
class _Budget:
    """Bounds what an archive of this size may become."""

    archive_bytes: int
    spend: Callable[[int], None]
    written: int = 0
    entries: int = 0

    def count_entry(self) -> None:
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            sentence = _("The archive has more than {count} entries.")
            raise ArchiveRefused(sentence.format(count=MOST_ENTRIES), hint=_("Unpack it in a session."))
        self.spend(0)

    def count_bytes(self, amount: int) -> None:
        self.written += amount
        if self.written > max(FREE_BYTES, MOST_RATIO * self.archive_bytes):
            sentence = _("The archive grows to more than {count} times its size.")
            raise ArchiveRefused(sentence.format(count=MOST_RATIO), hint=_("Unpack it in a session."))
        self.spend(amount)


class _Writer:
    """Writes members below an open directory. Keeps the directory of the last member open."""

    def __init__(self, top: int, owner: Owner, budget: _Budget) -> None:
        self._top, self._owner, self._budget = top, owner, budget
        self._opened = ExitStack()
        self._path: EntryPath | None = None
        self._directory = top
        self.left_out: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._opened.close()

    def write(self, member: _Member) -> None:
        self._budget.count_entry()
        path = _path_of(member.name)
        if not path:
            return
        if not member.is_directory and not member.is_file:
            self.left_out.append(display_name(member.name))
            return
        try:
            if member.is_directory:
                self._enter(path)
            else:
                self._enter(path[:-1])
                self._write_file(path[-1], member)
        except (NotADirectoryError, IsADirectoryError) as error:
            sentence = _("The archive has {name} both as a file and as a directory.")
            raise ArchiveRefused(sentence.format(name=f"“{display_name(member.name)}”")) from error

    def _enter(self, path: EntryPath) -> None:
        """Open the directory, and create it and its parents if missing."""
        if path == self._path:
            return
        self._opened.close()
        self._path = None
        self._directory = self._opened.enter_context(
            descriptors.descend(self._top, path, create_for=self._owner, is_synced=False)
        )
        self._path = path

    def _write_file(self, name: str, member: _Member) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._directory)  # a later member of the same name counts
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with (
            member.open() as content,
            closing(os.open(name, flags, 0o600, dir_fd=self._directory)) as file,
        ):
            while piece := content.read(PIECE_BYTES):
                self._budget.count_bytes(len(piece))
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(file, rest) :]
            self._owner.adopt(file, 0o755 if member.mode & 0o111 else 0o644)


def _path_of(name: str) -> EntryPath:
    """Return where a member is written; ROOT for the top itself. Raises ArchiveRefused."""
    parts = name.removeprefix("./").removesuffix("/")
    if parts in {"", "."}:
        return ROOT
    try:
        return parse_path(parts)
    except UnsafePath as error:
        sentence = _("The archive was not unpacked: its member {name} is not a path inside a folder.")
        hint = str(error)
        raise ArchiveRefused(sentence.format(name=f"“{display_name(name)[:200]}”"), hint=hint) from error


def _members(archive: BinaryIO) -> Iterator[_Member]:
    start = archive.read(262)
    archive.seek(0)
    buffered: Any = io.BufferedReader(archive, PIECE_BYTES)  # type: ignore[type-var]
    try:
        if start.startswith(b"PK"):
            yield from _zip_members(_Bounded(buffered))
        elif start.startswith(b"\x1f\x8b"):
            yield from _tar_members(gzip.GzipFile(fileobj=buffered))
        elif start.startswith(b"BZh"):
            yield from _tar_members(bz2.BZ2File(buffered))
        elif start[257:262] == b"ustar":
            yield from _tar_members(buffered)
        else:
            raise ArchiveRefused(
                _("This is not an archive that can be unpacked here."),
                hint=_("ZIP, tar, tar.gz and tar.bz2 can; others unpack in a session."),
            )
    finally:
        buffered.detach()


def _zip_members(file: "_Bounded") -> Iterator[_Member]:
    with zipfile.ZipFile(cast("IO[bytes]", file)) as opened:
        members = opened.infolist()
        for info in members:
            if info.flag_bits & 0x1:
                raise ArchiveRefused(_("The archive is encrypted."), hint=_("Unpack it in a session."))
            # Of others the library unpacks each read whole, however large that becomes.
            if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise ArchiveRefused(
                    _("The archive is compressed by another method than deflate."),
                    hint=_("Unpack it in a session."),
                )
            _path_of(info.filename)  # all are checked before the first is written
        for info in members:
            mode = info.external_attr >> 16
            yield _Member(
                name=info.filename,
                is_directory=info.is_dir(),
                is_file=not info.is_dir() and stat.S_IFMT(mode) in {0, stat.S_IFREG},
                mode=mode,
                open=lambda info=info: opened.open(info),  # type: ignore[misc]
            )


def _tar_members(file: Any) -> Iterator[_Member]:
    # The buffer makes the small steps back that the library takes cheap.
    bounded: Any = _Bounded(io.BufferedReader(file, PIECE_BYTES))
    with tarfile.open(fileobj=bounded, mode="r:") as opened:
        for info in opened:
            yield _Member(
                name=info.name,
                is_directory=info.isdir(),
                is_file=info.isfile(),
                mode=info.mode,
                open=lambda info=info: opened.extractfile(info),  # type: ignore[misc,arg-type]
            )


class _Bounded:
    """File of which no reader takes much memory at once, whatever a length in the archive says."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size, _MOST_READ_BYTES) if size >= 0 else _MOST_READ_BYTES)
        if size > _MOST_READ_BYTES or (size < 0 and len(data) == _MOST_READ_BYTES):
            raise ArchiveRefused(
                _("The archive has too many entries, or too long names."), hint=_("Unpack it in a session.")
            )
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the file open: it is the caller's."""
