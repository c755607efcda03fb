"""Write and read tar streams, by which running sessions receive and send whole directories."""

import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

from berth.errors import BerthError, UnexpectedAnswer
from berth.local_files import appearing, is_safe_name, make_inside
from berth.transfer import FAILED, SKIPPED, Plan, Tally, Watcher, pass_over, pieces_of_file

BLOCK_BYTES = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK_BYTES)


def write_archive(plan: Plan, watcher: Watcher) -> Iterator[bytes]:
    """Yield the tar archive of a plan, in pieces; entry names are relative to the plan's directory."""
    for name, path in plan.members:
        status = path.stat()
        head = tarfile.TarInfo(name)
        head.mode, head.mtime = stat.S_IMODE(status.st_mode) & 0o777, int(status.st_mtime)
        if stat.S_ISDIR(status.st_mode):
            head.type = tarfile.DIRTYPE
            yield head.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
            continue
        head.size = status.st_size
        yield head.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
        yield from pieces_of_file(path, head.size, watcher)
        yield bytes(-head.size % BLOCK_BYTES)
    yield END


def read_archive(pieces: Iterator[bytes], local: Path, watcher: Watcher) -> Tally:
    """Unpack files and directories into `local`.

    Skips links, and names that would lead out of `local`.
    """
    tally = Tally()
    watcher.begin(local.name, None)
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", _Stream(pieces)), mode="r|") as archive:
            for member in archive:
                try:
                    tally += _unpack(archive, member, local, watcher)
                except (BerthError, OSError) as error:
                    pass_over(error, member.name, watcher)
                    tally += FAILED
    except tarfile.TarError as exc:
        raise UnexpectedAnswer(f"The portal sent an archive that cannot be read: {exc}.") from exc
    return tally


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, local: Path, watcher: Watcher) -> Tally:
    parts = PurePosixPath(member.name).parts
    if not parts:
        return Tally()  # the directory itself
    if not all(map(is_safe_name, parts)):
        watcher.skip(member.name, "its name leads elsewhere")
        return FAILED
    target = local.joinpath(*parts)
    if member.isdir():
        make_inside(local, parts)
        return Tally()
    if not member.isfile():
        is_link = member.issym() or member.islnk()
        watcher.skip(member.name, "a link" if is_link else "neither a file nor a directory")
        return SKIPPED
    make_inside(local, parts[:-1])
    content = archive.extractfile(member)
    assert content is not None  # regular files always have contents
    with appearing(target, member.mode & 0o777) as file:
        while piece := content.read(256 * 1024):
            file.write(piece)
            watcher.advance(len(piece))
    return Tally(1, member.size)


class _Stream:
    """File object that reads the pieces of an iterator once."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return taken
