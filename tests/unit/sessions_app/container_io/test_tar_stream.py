"""Archives are read in bounded memory, and unsafe headers are refused."""

import io
import tarfile
from collections.abc import AsyncIterator, Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.container_io import tar_stream
from sessions_app.container_io.tar_stream import (
    ArchiveRefused,
    Head,
    IntoSession,
    Kind,
    Rule,
    out_of_session,
    screen,
)

Change = Callable[[tarfile.TarInfo], None]


def entry(name: str, *, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **more: object) -> tuple:  # type: ignore[type-arg]
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def packed(*entries: tuple, form: int = tarfile.PAX_FORMAT) -> bytes:  # type: ignore[type-arg]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


async def flowing(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def screened(data: bytes, rule: Rule | None = None, size: int = 1000) -> bytes:
    rule = rule or into_session()
    return b"".join([piece async for piece in screen(flowing(data, size), rule)])


def into_session(**limits: int) -> IntoSession:
    return IntoSession(**({"entries_limit": 100, "links_limit": 10, "bytes_limit": 10**6} | limits))


def members(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getmembers()


def names(data: bytes) -> list[str]:
    return [member.name for member in members(data)]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("size", [1, 511, 512, 10**6])
async def test_files_directories_and_links_pass_whole(form: int, size: int) -> None:
    long_name = "deep/" + "n" * 60 + "/" + "m" * 80
    data = packed(
        entry("."),
        entry("./deep", kind=tarfile.DIRTYPE, mode=0o500),
        entry(long_name, content=b"x" * 1500, mode=0o4755, uid=0, gid=0, uname="root", mtime=1234567890),
        entry("link", kind=tarfile.SYMTYPE, linkname="../../etc/passwd"),
        entry("twin", kind=tarfile.LNKTYPE, linkname=long_name if form != tarfile.USTAR_FORMAT else "deep"),
        form=form,
    )
    made = await screened(data, size=size)
    directory, file, link, twin = members(made)
    assert (directory.name, directory.isdir(), directory.mode) == ("deep", True, 0o700)
    assert (file.name, file.size, file.mode, file.mtime) == (long_name, 1500, 0o755, 1234567890)
    assert (file.uid, file.gid, file.uname) == (0, 0, "")
    assert (link.issym(), link.linkname) == (True, "../../etc/passwd")
    assert twin.islnk()
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        assert archive.extractfile(file).read() == b"x" * 1500  # type: ignore[union-attr]


async def test_names_that_are_no_text_and_large_numbers_survive() -> None:
    raw = "caf\udce9/größe" + "ü" * 80
    huge = Head(name=b"big", kind=Kind.FILE, size_bytes=9 * 2**30, uid=3_000_000, gid=3_000_000)
    assert names(await screened(packed(entry(raw, content=b"1")))) == [raw]
    found = tarfile.TarInfo.frombuf(tar_stream.head_blocks(huge)[1024:1536], "utf-8", "strict")
    assert found.name == "big"
    assert b"size=9663676416\n" in tar_stream.head_blocks(huge)


@pytest.mark.parametrize("length", [985, 990, 991, 992, 993])
async def test_a_record_says_its_length_with_its_own_digits(length: int) -> None:
    name = "/".join(["n" * 200] * 4 + ["m" * (length - 804)])
    assert names(await screened(packed(entry(name)))) == [name]


async def test_content_of_what_is_left_out_is_left_out() -> None:
    data = packed(entry(".", content=b"x" * 2000), entry("file", content=b"y"))
    assert names(await screened(data, out_of_session)) == ["file"]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../../x", "a/..", "n" * 256, "/".join(["abc"] * 1000)]
)
async def test_names_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(ArchiveRefused):
        await screened(packed(entry(name, content=b"x")))


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"V", b"\xff"])
async def test_what_is_no_file_is_refused_on_the_way_in_and_left_out_on_the_way_out(kind: bytes) -> None:
    data = packed(entry("device", kind=kind), entry("file"))
    with pytest.raises(ArchiveRefused):
        await screened(data)
    assert names(await screened(data, out_of_session)) == ["file"]


@pytest.mark.parametrize(
    "entries",
    [
        [entry("a", kind=tarfile.SYMTYPE, linkname="/etc"), entry("a/passwd", content=b"x")],
        [entry("a", kind=tarfile.SYMTYPE, linkname="/etc"), entry("a", content=b"x")],
        [
            entry("a", kind=tarfile.SYMTYPE, linkname="/etc"),
            entry("b", kind=tarfile.LNKTYPE, linkname="a/passwd"),
        ],
        [entry("b", kind=tarfile.LNKTYPE, linkname="../../etc/passwd")],
        [entry("b", kind=tarfile.LNKTYPE, linkname=".")],
        [entry("b", kind=tarfile.SYMTYPE, linkname="")],
    ],
    ids=["below", "same", "hard", "outside", "top", "nowhere"],
)
async def test_links_are_no_way_out(entries: list[tuple]) -> None:  # type: ignore[type-arg]
    with pytest.raises(ArchiveRefused):
        await screened(packed(*entries))


async def test_entries_links_and_bytes_are_bounded() -> None:
    links = [entry(f"l{n}", kind=tarfile.SYMTYPE, linkname="x") for n in range(3)]
    for limits, entries in (
        ({"entries_limit": 2}, [entry("a"), entry("b"), entry("c")]),
        ({"links_limit": 2}, links),
        ({"bytes_limit": 10}, [entry("a", content=b"x" * 6), entry("b", content=b"x" * 6)]),
    ):
        with pytest.raises(ArchiveRefused, match="more than"):
            await screened(packed(*entries), into_session(**limits))


class Endless:
    """Blocks without end, of which it counts how many were taken."""

    def __init__(self, block: bytes, first: bytes = b"") -> None:
        self._block = block
        self._first = first
        self.taken_bytes = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.taken_bytes += len(self._first)
        yield self._first
        while True:
            self.taken_bytes += len(self._block)
            yield self._block


def head(letter: bytes, size: int) -> bytes:
    made = bytearray(tar_stream.head_blocks(Head(name=b"x", kind=Kind.FILE, size_bytes=size)))
    made[156:157] = letter
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made)


def with_size(digits: bytes) -> bytes:
    made = bytearray(tar_stream.head_blocks(Head(name=b"x", kind=Kind.FILE, size_bytes=0)))
    made[124:136] = digits
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made)


@pytest.mark.parametrize(
    "endless",
    [
        Endless(bytes(512 * 8), first=head(b"x", 8 * 2**30 - 1)),
        Endless(b"x" * 4096, first=head(b"L", 2**33 - 1)),
        Endless(head(b"x", 0)),
        Endless(head(b"g", 512) + bytes(512)),
    ],
    ids=["huge head", "huge name", "heads for ever", "global heads for ever"],
)
async def test_heads_without_end_are_refused_at_once(endless: Endless) -> None:
    with pytest.raises(ArchiveRefused):
        async for _ in screen(endless, out_of_session):  # type: ignore[arg-type]
            pass
    assert endless.taken_bytes < 2**18


def broken() -> Iterable[bytes]:
    good = packed(entry("a", content=b"x" * 600))
    yield good[:700]
    yield good[:300]
    yield b"\1" + good[1:]
    yield b"x" * 2048
    yield good[:124] + b"zzzzzzzzzzz\0" + good[136:]
    yield with_size(b"-0000000001\0")
    yield with_size(b"0_000000001\0")
    yield with_size(b"00000000009\0")
    for record in (b"garbage", b"9 path=x", b"99 path=x\n", b"0 path=x\n", b"x path=y\n", b"9 pathxyz\n"):
        yield head(b"x", len(record)) + record.ljust(512, b"\0") + good
    for record in (b"16 size=-00000x\n", b"30 GNU.sparse.major=1.0\n"):
        body = b"%d%s" % (len(record), record[2:])
        yield head(b"x", len(body)) + body.ljust(512, b"\0") + good


@pytest.mark.parametrize("data", list(broken()), ids=lambda data: str(len(data)))
async def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(ArchiveRefused):
        await screened(data)


async def test_an_old_archive_is_understood() -> None:
    """A directory is told by a slash, a time before 1970 is none, and numbers may be binary."""
    old = bytearray(tar_stream.head_blocks(Head(name=b"d/", kind=Kind.FILE)))
    old[156:157] = b"\0"
    old[124:136] = b"\x80" + bytes(11)
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\0 " % sum(old)
    early = packed(entry("f", mtime=-5.5))
    assert members(await screened(bytes(old)))[0].isdir()
    assert members(await screened(early))[0].mtime == 0
    assert names(await screened(b"")) == []


async def test_content_of_what_is_no_file_is_refused() -> None:
    odd = bytearray(tar_stream.head_blocks(Head(name=b"d", kind=Kind.DIRECTORY, size_bytes=512)))
    with pytest.raises(ArchiveRefused, match="no file"):
        await screened(bytes(odd) + bytes(512))


@given(data=st.binary(max_size=3000), size=st.integers(1, 700))
async def test_no_bytes_do_anything_but_be_refused_or_read(data: bytes, size: int) -> None:
    try:
        made = await screened(data, size=size)
    except ArchiveRefused:
        return
    assert all(not member.name.startswith(("/", "..")) for member in members(made))
