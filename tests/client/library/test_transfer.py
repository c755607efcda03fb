"""Transfers are complete or absent, and stay inside their target."""

import errno
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth import Entry, InvalidInput, NotFound, UnexpectedAnswer
from berth.archives import read_archive, write_archive
from berth.cli.copying import Notes
from berth.files import FolderFiles, SessionFiles
from berth.models import Directory
from berth.transfer import (
    Quiet,
    Tally,
    download,
    fetch_one_by_one,
    pieces_of_file,
    plan_tree,
    send_one_by_one,
    upload,
)
from tests.client.wires import Pieces, client_on, refusal

LOST = httpx.ReadError("reset")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0\\"), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 100
)


class Tree:
    """A folder in memory."""

    def __init__(self, **files: bytes) -> None:
        self.files = dict(files)
        self.directories = {""}
        self.odd: list[Entry] = []

    def stat(self, path: str) -> Entry:
        path = path.strip("/")
        if path in self.directories or any(name.startswith(f"{path}/") for name in self.files):
            return Entry(name=PurePosixPath(path).name, kind="directory")
        if path in self.files:
            return Entry(name=PurePosixPath(path).name, kind="file", size_bytes=len(self.files[path]))
        raise NotFound(path)

    def list(self, path: str = "") -> Directory:
        below = f"{path}/" if path else ""
        names = {
            name.removeprefix(below).split("/")[0]
            for name in (*self.files, *self.directories)
            if name.startswith(below) and name != path and name
        }
        entries = [self.stat(below + name) for name in sorted(names)]
        return Directory(path=path, entries=tuple(entries + self.odd))

    def read(self, path: str) -> Iterator[bytes]:
        yield self.files[path]

    def write_stream(self, path: str, content, size_bytes: int, mode: int = 0, stamp: str = "") -> None:  # type: ignore[no-untyped-def]
        self.files[path] = b"".join(content())

    def make_directory(self, path: str) -> None:
        self.directories.add(path)

    def send_tree(self, local: Path, path: str, watcher: object) -> Tally:
        return send_one_by_one(self, local, path, Quiet)

    def fetch_tree(self, path: str, local: Path, watcher: object) -> Tally:
        return fetch_one_by_one(self, path, local, Quiet)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    (directory / "sub" / "empty").mkdir(parents=True)
    (directory / "a.txt").write_text("one")
    (directory / "sub" / "b.txt").write_text("two")
    (directory / "link").symlink_to("/etc/passwd")
    return directory


class Heard(Notes):
    """Keeps what is left out."""

    def __init__(self) -> None:
        self.told = ""

    def skip(self, name: str, why: str) -> None:
        self.told += f"{name}: {why}\n"


def contents(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_a_file_goes_into_a_directory_and_else_takes_the_name(tmp_path: Path, source: Path) -> None:
    tree = Tree()
    tree.make_directory("in")
    for target in ("", "in", "in/", "new.txt"):
        upload(tree, source / "a.txt", target, Quiet)
    assert set(tree.files) == {"a.txt", "in/a.txt", "new.txt"}


def test_a_directory_goes_with_all_it_holds_but_links(source: Path, tmp_path: Path) -> None:
    tree = Tree()
    assert upload(tree, source, "", Quiet) == Tally(files=2, size_bytes=6, skipped=1)
    assert tree.files == {"source/a.txt": b"one", "source/sub/b.txt": b"two"}
    assert "source/sub/empty" in tree.directories

    back = tmp_path / "back"
    back.mkdir()
    download(tree, "source", back, Quiet)
    assert contents(back / "source") == {"a.txt": "one", "sub/b.txt": "two"}
    assert (back / "source" / "sub" / "empty").is_dir()
    download(tree, "source/.", tmp_path / "other", Quiet)
    assert contents(tmp_path / "other") == contents(back / "source")


@pytest.mark.parametrize("name", ["../evil", "..", "a/b", "", "/etc/x"])
def test_names_from_a_portal_never_lead_out_of_the_directory(name: str, tmp_path: Path) -> None:
    target = tmp_path / "in" / "deep"
    target.mkdir(parents=True)
    tree = Tree()
    tree.odd = [Entry(name=name, kind="file"), Entry(name="x", kind="link")]
    before = set(tmp_path.rglob("*"))
    assert fetch_one_by_one(tree, "", target, Quiet) == Tally(skipped=1, failed=1)
    assert set(tmp_path.rglob("*")) == before


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    client, _ = client_on(
        httpx.Response(200, headers={"Content-Length": "9", "Content-Type": "x/y"}),
        httpx.Response(200, stream=Pieces(b"begin", LOST)),
    )
    (tmp_path / "f").write_text("before")
    with pytest.raises(Exception, match="reset"):
        FolderFiles(client.transport, "id").download("f", tmp_path / "f")
    assert contents(tmp_path) == {"f": "before"}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["f"]


def test_a_download_goes_on_where_it_broke() -> None:
    tag = {"ETag": '"1"'}
    client, wire = client_on(
        httpx.Response(200, headers=tag, stream=Pieces(b"abc", LOST)),
        httpx.Response(206, headers=tag, stream=Pieces(b"def")),
    )
    assert b"".join(FolderFiles(client.transport, "id").read("f")) == b"abcdef"
    assert wire.requests[1].headers["Range"] == "bytes=3-"
    assert wire.requests[1].headers["If-Range"] == '"1"'


def test_a_file_that_changed_meanwhile_is_not_patched_together() -> None:
    client, _ = client_on(
        httpx.Response(200, headers={"ETag": '"1"'}, stream=Pieces(b"abc", LOST)),
        httpx.Response(200, headers={"ETag": '"2"'}, stream=Pieces(b"xyz")),
    )
    with pytest.raises(UnexpectedAnswer, match="changed"):
        b"".join(FolderFiles(client.transport, "id").read("f"))


def test_a_file_that_becomes_shorter_is_not_sent_as_if_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("abc")
    with pytest.raises(InvalidInput, match="shorter"):
        b"".join(pieces_of_file(tmp_path / "f", 4, Quiet))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", Path("/dev/null")):
        with pytest.raises(InvalidInput):
            upload(Tree(), path, "", Quiet)


def test_a_link_a_pipe_or_a_device_that_is_named_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "behind").write_text("old")
    (tmp_path / "link").symlink_to("behind")
    (tmp_path / "dangling").symlink_to("new/file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    for name in ("link", "dangling", "pipe", "to-pipe"):
        assert download(Tree(log=b"new"), "log", tmp_path / name, Quiet) == Tally(1, 3)

    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"newnew"
    assert (tmp_path / "pipe").is_fifo()
    links = ("link", "dangling", "to-pipe")
    assert [str((tmp_path / name).readlink()) for name in links] == ["behind", "new/file", "pipe"]
    assert contents(tmp_path) == dict.fromkeys(("behind", "dangling", "link", "new/file"), "new")


def test_a_directory_leads_into_no_link_and_no_pipe_that_lies_there(tmp_path: Path) -> None:
    target, heard = tmp_path / "target", Heard()
    target.mkdir()
    (tmp_path / "elsewhere").write_text("old")
    (target / "link").symlink_to("../elsewhere")
    os.mkfifo(target / "pipe")
    assert fetch_one_by_one(Tree(link=b"1", pipe=b"2", z=b"3"), "", target, heard).failed == 1
    assert "a device or pipe" in heard.told
    assert contents(tmp_path) == {"elsewhere": "old", "target/link": "1", "target/z": "3"}
    assert (target / "pipe").is_fifo()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE])
def test_what_the_disk_refuses_to_every_file_ends_the_copy(
    number: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = b"".join(write_archive(plan_tree(source, Quiet), Quiet))
    told = Heard()

    def refuse(**options: object) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path / ".berth-draft"))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    copies: tuple[Callable[[], Tally], ...] = (
        lambda: fetch_one_by_one(Tree(a=b"1", b=b"2"), "", tmp_path, told),
        lambda: read_archive(iter([archive]), tmp_path, told),
    )
    for copy in copies:
        with pytest.raises(OSError, match=os.strerror(number)) as raised:
            copy()
        assert (raised.value.errno, raised.value.filename) == (number, str(tmp_path))
    assert told.told == ""


class Vanishing(Tree):
    """A folder that is deleted, or loses one file, when its first file is copied."""

    def __init__(self, *, is_whole: bool, **files: bytes) -> None:
        super().__init__(**files)
        self.is_whole, self.asked = is_whole, 0

    def list(self, path: str = "") -> Directory:
        if self.asked and not self.is_whole:
            raise NotFound("gone")
        return super().list(path)

    def read(self, path: str) -> Iterator[bytes]:
        self.asked += 1
        if not self.is_whole or self.asked == 1:
            raise NotFound("gone")
        return super().read(path)

    def write_stream(self, path: str, content, size_bytes: int, mode: int = 0, stamp: str = "") -> None:  # type: ignore[no-untyped-def]
        self.asked += 1
        raise NotFound("gone")


def test_a_folder_that_is_deleted_meanwhile_ends_the_copy(source: Path, tmp_path: Path) -> None:
    folder = Vanishing(is_whole=False, **{"d/a": b"1", "d/b": b"2", "e": b"3"})
    with pytest.raises(NotFound):
        fetch_one_by_one(folder, "", tmp_path, Quiet)
    with pytest.raises(NotFound):
        send_one_by_one(folder, source, "", Quiet)
    assert folder.asked == 2


def test_a_file_that_is_deleted_meanwhile_is_passed_over(tmp_path: Path) -> None:
    told = Heard()
    folder = Vanishing(is_whole=True, a=b"1", b=b"2")
    assert fetch_one_by_one(folder, "", tmp_path, told) == Tally(files=1, size_bytes=1, failed=1)
    assert (contents(tmp_path), told.told) == ({"b": "2"}, "a: gone\n")


def test_archives_hold_what_a_directory_holds(source: Path, tmp_path: Path) -> None:
    (source / "a.txt").chmod(0o750)
    plan = plan_tree(source, Quiet)
    assert plan.tally == Tally(files=2, size_bytes=6, skipped=1)
    target = tmp_path / "target"
    target.mkdir()
    read_archive(write_archive(plan, Quiet), target, Quiet)
    assert contents(target) == {"a.txt": "one", "sub/b.txt": "two"}
    assert (target / "sub" / "empty").is_dir()
    assert (target / "a.txt").stat().st_mode & 0o100


def hostile_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("../evil", "/abs", "ok/../../evil", "fine"):
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
        for name, kind, to in (("out", tarfile.SYMTYPE, ".."), ("hard", tarfile.LNKTYPE, "/etc/passwd")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, to
            archive.addfile(link)
        through = tarfile.TarInfo("out/evil")
        through.size = 1
        archive.addfile(through, io.BytesIO(b"x"))
        device = tarfile.TarInfo("device")
        device.type = tarfile.CHRTYPE
        archive.addfile(device)
    return buffer.getvalue()


def test_a_hostile_archive_writes_into_its_directory_alone(tmp_path: Path) -> None:
    target = tmp_path / "a" / "target"
    target.mkdir(parents=True)
    tally = read_archive(iter([hostile_archive()]), target, Quiet)
    assert contents(tmp_path) == {"a/target/fine": "x", "a/target/out/evil": "x"}
    assert (tally.files, tally.skipped, tally.failed) == (2, 3, 3)
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


def test_an_archive_does_not_go_through_links_that_lie_there(tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    target.mkdir()
    elsewhere.mkdir()
    (target / "out").symlink_to(elsewhere)
    left_out = Heard()
    assert read_archive(iter([hostile_archive()]), target, left_out).failed == 4
    assert "is in the way" in left_out.told
    assert list(elsewhere.iterdir()) == []
    assert contents(target) == {"fine": "x"}


@pytest.mark.parametrize("cut", [1, 100, 512, 700])
def test_an_archive_that_ends_early_is_told(cut: int, source: Path, tmp_path: Path) -> None:
    (source / "a.txt").write_bytes(b"x" * 4000)
    whole = b"".join(write_archive(plan_tree(source, Quiet), Quiet))
    with pytest.raises(UnexpectedAnswer):
        read_archive(iter([whole[:cut]]), tmp_path, Quiet)


@given(files=st.dictionaries(NAMES, st.binary(max_size=2000), max_size=5))
@settings(max_examples=30, deadline=None)
def test_any_name_and_content_survives_an_archive(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    for name, content in files.items():
        (here / name).write_bytes(content)
    read_archive(write_archive(plan_tree(here, Quiet), Quiet), there, Quiet)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == files


def test_sessions_take_a_directory_as_one_archive(source: Path) -> None:
    client, wire = client_on(
        refusal(404, "not_found"),
        httpx.Response(200, json={"path": "/home/work/new/source", "entries": 3, "size_bytes": 6}),
    )
    SessionFiles(client.transport, "s").upload(source, "new")
    assert [request.url.params["path"] for request in wire.requests] == [
        "/home/work/new/source",
        "/home/work/new/source",
    ]
    with tarfile.open(fileobj=io.BytesIO(wire.requests[1].content)) as archive:
        assert archive.getnames() == ["a.txt", "sub", "sub/b.txt", "sub/empty"]


def test_a_link_that_is_named_is_followed(tmp_path: Path) -> None:
    client, wire = client_on(
        httpx.Response(
            200,
            json={"path": "/home/work/latest", "name": "latest", "type": "symlink", "target": "/data/run-7"},
        ),
        httpx.Response(200, json={"path": "/data/run-7", "name": "run-7", "type": "file", "size_bytes": 3}),
        httpx.Response(200, content=b"abc"),
    )
    SessionFiles(client.transport, "s").download("latest", tmp_path)
    assert contents(tmp_path) == {"latest": "abc"}
    assert wire.requests[2].url.params["path"] == "/home/work/latest"
