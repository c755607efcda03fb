"""Read, filter and rewrite tar archives as streams in bounded memory. Pure.

Archives are untrusted: containers can make the engine pack anything, and users can send anything.
No header is copied; the output is built from `Head` alone. Names are bytes, relative, without "."
and "..".
"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import blake2b

from common.i18n import gettext as _

BLOCK_BYTES = 512
PIECE_BYTES = 2**16
EXTENSION_BYTES = 2**16
EXTENSIONS_PER_HEAD = 4
NAME_BYTES = 255
PATH_BYTES = 3072
MAX_OCTAL_ID = 0o7777777
MAX_OCTAL_SIZE = 0o77777777777
MAX_TIME = 2**33 - 1


class ArchiveRefused(Exception):
    """Archive that is malformed or has forbidden entries; the message is a sentence for users."""


class Kind(Enum):
    """Type of an entry; the value is its type flag in the header."""

    FILE = b"0"
    HARDLINK = b"1"
    SYMLINK = b"2"
    DIRECTORY = b"5"
    OTHER = b"?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One entry of an archive. `name` is b"" for the top directory. Only files have a size.
    `target` is the target of a symbolic link as received, or the archive name of a hard link's
    target.
    """

    name: bytes
    kind: Kind
    size_bytes: int = 0
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    modified_at: int = 0
    target: bytes = b""


Part = Head | bytes
Rule = Callable[[Head], tuple[Head, ...]]
"""Filter for one entry: returns the heads to write; content follows the last one; an empty tuple
drops the entry. Raises ArchiveRefused.
"""


# Reading


async def read_archive(chunks: AsyncIterable[bytes]) -> AsyncGenerator[Part, None]:
    """Yield each head, followed by the content of its file in pieces. Raises ArchiveRefused."""
    source = _Source(chunks)
    extras: dict[bytes, bytes] = {}
    extensions = 0
    while block := await source.block():
        kind, size = block[156:157], _number(block[124:136])
        if kind in b"xgLK":
            extensions += 1
            if size > EXTENSION_BYTES or extensions > EXTENSIONS_PER_HEAD:
                raise ArchiveRefused(_("The archive has a head without end."))
            extras |= _extension(kind, await source.padded(size))
            continue
        head = _head(block, extras)
        yield head
        async for piece in source.pieces(head.size_bytes):
            yield piece
        extras, extensions = {}, 0


class _Source:
    """Reader of exact amounts from chunks of any size."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = aiter(chunks)
        self._held = b""
        self._at = 0  # bytes of `_held` already taken

    async def block(self) -> bytes:
        """Return the next header block; b"" at the end of the archive."""
        block = await self._take(BLOCK_BYTES, may_end=True)
        if not block.strip(b"\0"):
            return b""
        checksum = _number(block[148:156])
        if checksum != sum(block) - sum(block[148:156]) + 8 * 0x20:
            raise ArchiveRefused(_("This is not a tar archive, or it is broken."))
        return block

    async def padded(self, size: int) -> bytes:
        return (await self._take(size + -size % BLOCK_BYTES))[:size]

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        left = size
        while left > 0:
            piece = await self._take(min(left, PIECE_BYTES))
            left -= len(piece)
            yield piece
        await self._take(-size % BLOCK_BYTES)

    async def _take(self, size: int, *, may_end: bool = False) -> bytes:
        length = len(self._held) - self._at
        if size <= length:
            begin, self._at = self._at, self._at + size
            return self._held[begin : self._at]
        kept = [self._held[self._at :]]
        while length < size:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                if may_end and not length:
                    return b""
                raise ArchiveRefused(_("The archive ends in the middle."))
            kept.append(chunk)
            length += len(chunk)
        self._held, self._at = b"".join(kept), size
        return self._held[:size]


def _head(block: bytes, extras: dict[bytes, bytes]) -> Head:
    letter = block[156:157]
    kind = Kind.FILE if letter in (b"0", b"\0", b"7") else _KINDS.get(letter, Kind.OTHER)
    prefix = _text(block[345:500]) if block[257:262] == b"ustar" and block[263:265] == b"00" else b""
    name = extras.get(b"path") or (prefix + b"/" if prefix else b"") + _text(block[:100])
    if letter == b"\0" and name.endswith(b"/"):
        kind = Kind.DIRECTORY
    target = extras.get(b"linkpath") or _text(block[157:257])
    size = _decimal(extras[b"size"]) if b"size" in extras else _number(block[124:136])
    if kind is not Kind.FILE and size:
        raise ArchiveRefused(_("The archive gives content to what is no file."))
    return Head(
        name=clean_name(name),
        kind=kind,
        size_bytes=size,
        mode=_number(block[100:108]) & 0o777,
        uid=_decimal(extras[b"uid"]) if b"uid" in extras else _number(block[108:116]),
        gid=_decimal(extras[b"gid"]) if b"gid" in extras else _number(block[116:124]),
        modified_at=min(
            _decimal(extras[b"mtime"]) if b"mtime" in extras else _number(block[136:148]), MAX_TIME
        ),
        target=clean_name(target) if kind is Kind.HARDLINK else _clean_target(target, kind),
    )


_KINDS = {kind.value: kind for kind in (Kind.HARDLINK, Kind.SYMLINK, Kind.DIRECTORY)}
_GNU_KEYS = {b"L": b"path", b"K": b"linkpath"}


def _extension(letter: bytes, body: bytes) -> dict[bytes, bytes]:
    """Parse an extension header (PAX or GNU) into its records, e.g. {b"path": …}."""
    if letter == b"g":
        return {}
    if letter in _GNU_KEYS:
        return {_GNU_KEYS[letter]: body.rstrip(b"\0")}
    found = {}
    while body:
        length_text = body.partition(b" ")[0]
        length = _decimal(length_text)
        record, body = body[:length], body[length:]
        key, separator, value = record[len(length_text) + 1 : -1].partition(b"=")
        if len(record) != length or not record.endswith(b"\n") or not separator:
            raise ArchiveRefused(_("This is not a tar archive, or it is broken."))
        if key.startswith(b"GNU.sparse"):
            raise ArchiveRefused(_("The archive has sparse files; pack it without --sparse."))
        found[key] = value
    return found


def clean_name(name: bytes) -> bytes:
    """Normalise a name. Raises ArchiveRefused if it leaves the archive or is too long."""
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if name.startswith(b"/") or b".." in parts:
        raise ArchiveRefused(
            _("The archive has a name that leads out of it: {name}").format(name=_shown(name))
        )
    if b"\0" in name or len(name) > PATH_BYTES or any(len(part) > NAME_BYTES for part in parts):
        raise ArchiveRefused(_("The archive has a name that no disk takes: {name}").format(name=_shown(name)))
    return b"/".join(parts)


def _clean_target(target: bytes, kind: Kind) -> bytes:
    if kind is not Kind.SYMLINK:
        return b""
    if not target or b"\0" in target or len(target) > PATH_BYTES:
        raise ArchiveRefused(
            _("The archive has a link that leads nowhere: {name}").format(name=_shown(target))
        )
    return target


def _text(field_: bytes) -> bytes:
    return field_.partition(b"\0")[0]


def _number(field_: bytes) -> int:
    """Parse an octal number, or a binary one as GNU tar writes large ones."""
    if field_[:1] == b"\x80":
        return int.from_bytes(field_[1:], "big")
    digits = field_.strip(b" \0")
    if digits and not digits.isdigit():  # int() would accept signs and underscores
        raise ArchiveRefused(_("This is not a tar archive, or it is broken."))
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise ArchiveRefused(_("This is not a tar archive, or it is broken.")) from None


def _decimal(digits: bytes) -> int:
    """Parse the integer part of a decimal number; negative numbers give 0."""
    whole = digits.partition(b".")[0]
    if not whole.isdigit() or len(whole) > 19:
        return _refuse_number(whole)
    return int(whole)


def _refuse_number(digits: bytes) -> int:
    if digits.startswith(b"-"):
        return 0  # a time before 1970
    raise ArchiveRefused(_("This is not a tar archive, or it is broken."))


def _shown(name: bytes) -> str:
    return ascii(name[:80].decode(errors="replace"))[1:-1]


# Writing


def head_blocks(head: Head) -> bytes:
    """Encode the header of an entry as POSIX pax blocks."""
    name = head.name + b"/" if head.kind is Kind.DIRECTORY else head.name
    records = {}
    if len(name) > 100 or not name.isascii():
        records[b"path"] = name
    if len(head.target) > 100 or not head.target.isascii():
        records[b"linkpath"] = head.target
    for key, value, limit in (
        (b"size", head.size_bytes, MAX_OCTAL_SIZE),
        (b"uid", head.uid, MAX_OCTAL_ID),
        (b"gid", head.gid, MAX_OCTAL_ID),
    ):
        if value > limit:
            records[key] = b"%d" % value
    before = b""
    if records:
        body = b"".join(_record(key, value) for key, value in records.items())
        before = _block(b"././@Head", b"x", replace(head, size_bytes=len(body), target=b"")) + padded(body)
    return before + _block(name, head.kind.value, head)


def padding(size: int) -> bytes:
    """Return the zero bytes that fill a file's content up to a whole block."""
    return bytes(-size % BLOCK_BYTES)


END = bytes(2 * BLOCK_BYTES)


def padded(body: bytes) -> bytes:
    return body + padding(len(body))


def _block(name: bytes, letter: bytes, head: Head) -> bytes:
    fields = (
        name[:100].ljust(100, b"\0")
        + b"%07o\0" % head.mode
        + b"%07o\0" % min(head.uid, MAX_OCTAL_ID)
        + b"%07o\0" % min(head.gid, MAX_OCTAL_ID)
        + b"%011o\0" % min(head.size_bytes, MAX_OCTAL_SIZE)
        + b"%011o\0" % head.modified_at
    )
    rest = letter + head.target[:100].ljust(100, b"\0") + b"ustar\x0000"
    checksum = sum(fields) + 8 * 0x20 + sum(rest)
    return (fields + b"%06o\0 " % checksum + rest).ljust(BLOCK_BYTES, b"\0")


def _record(key: bytes, value: bytes) -> bytes:
    """Encode a pax record; its length prefix counts its own digits."""
    rest = b" %s=%s\n" % (key, value)
    length = len(rest) + len(str(len(rest)))
    if len(str(length)) > len(str(len(rest))):
        length += 1
    return b"%d%s" % (length, rest)


async def screen(chunks: AsyncIterable[bytes], rule: Rule) -> AsyncGenerator[bytes, None]:
    """Yield the archive rewritten with `rule` applied to each entry. Raises ArchiveRefused."""
    kept: Head | None = None
    async for part in read_archive(chunks):
        if isinstance(part, bytes):
            if kept is not None:
                yield part
            continue
        if kept is not None:
            yield padding(kept.size_bytes)
        kept = None
        for kept in rule(part):
            yield head_blocks(kept)
    if kept is not None:
        yield padding(kept.size_bytes)
    yield END


# Rules


def _parents(name: bytes) -> list[bytes]:
    """Return the parent directories of a name: b"a" and b"a/b" for b"a/b/c"."""
    parts = name.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def _digest(name: bytes) -> bytes:
    return blake2b(name, digest_size=16).digest()


@dataclass(slots=True)
class IntoSession:
    """Rule for uploads: accepts files, directories and links, up to the limits. Refuses names that
    pass through a symbolic link of the same archive, since they would be written to its target.
    Stores only digests of link names.
    """

    entries_limit: int
    links_limit: int
    bytes_limit: int
    entries: int = 0
    size_bytes: int = 0
    _links: set[bytes] = field(default_factory=set)

    def __call__(self, head: Head) -> tuple[Head, ...]:
        if not head.name:
            return ()
        if head.kind is Kind.OTHER:
            raise ArchiveRefused(
                _("Only files, directories and links may be sent; {name} is neither.").format(
                    name=_shown(head.name)
                )
            )
        if head.kind is Kind.HARDLINK and not head.target:
            raise ArchiveRefused(
                _("The archive has a link that leads nowhere: {name}").format(name=_shown(head.name))
            )
        for name in (head.name, head.target if head.kind is Kind.HARDLINK else b""):
            self._refuse_detour(name)
        self._count(head)
        if head.kind is Kind.SYMLINK:
            self._links.add(_digest(head.name))
        if len(self._links) > self.links_limit:
            raise ArchiveRefused(
                _("The archive has more than {count} symbolic links.").format(count=self.links_limit)
            )
        mode = head.mode | 0o700 if head.kind is Kind.DIRECTORY else head.mode
        return (replace(head, uid=0, gid=0, mode=mode),)

    def _refuse_detour(self, name: bytes) -> None:
        for part in (*_parents(name), name):
            if _digest(part) in self._links:
                raise ArchiveRefused(
                    _("The archive leads through a link of its own: {name}").format(name=_shown(name))
                )

    def _count(self, head: Head) -> None:
        self.entries += 1
        self.size_bytes += head.size_bytes
        if self.entries > self.entries_limit:
            raise ArchiveRefused(
                _("The archive has more than {count} entries.").format(count=self.entries_limit)
            )
        if self.size_bytes > self.bytes_limit:
            raise ArchiveRefused(_("The archive has more than {count} bytes.").format(count=self.bytes_limit))


def out_of_session(head: Head) -> tuple[Head, ...]:
    """Rule for downloads: keeps files, directories and links, and removes owners. The session's own
    `tar` has read them with its permissions.
    """
    if not head.name or head.kind is Kind.OTHER:
        return ()
    return (replace(head, uid=0, gid=0),)
