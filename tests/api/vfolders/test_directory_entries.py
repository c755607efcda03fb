"""REST of the entries of folders: pages, operations on many, the trash."""

import io
import json
import os
import tarfile
import threading
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import People
from tests.factories import api_client
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from vfolders.core.paths import UNFINISHED
from vfolders.files import operations
from vfolders.models import FileOperation, StorageHost, VFolder
from vfolders.selectors import files_of, mount_source

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


@pytest.fixture
def folder(people: People) -> VFolder:
    return make_folder(people.member, name="data")


@pytest.fixture
def inside(folder: VFolder) -> Path:
    return Path(mount_source(folder))


def url(folder: VFolder, rest: str) -> str:
    return f"/api/v1/folders/{folder.pk}/{rest}"


def operate(client: Any, folder: VFolder, kind: str, *paths: str, **more: Any) -> Any:
    body = {"kind": kind, "paths": list(paths), **more}
    return client.post(url(folder, "operations/"), body, content_type="application/json")


def test_pages_stay_right_while_entries_come_and_go(people: People, folder: VFolder, inside: Path) -> None:
    client = api_client(people.member)
    for number in range(9):
        (inside / f"{number}.txt").write_bytes(b"x" * (9 - number))
    (inside / "zoo").mkdir()

    def pages(change: bool = False, **asked: Any) -> list[str]:
        names: list[str] = []
        after: str | None = ""
        while after is not None:
            page = client.get(url(folder, "entries/"), {**asked, "limit": 4, "after": after}).json()
            names += [entry["name"] for entry in page["entries"]]
            after = page["after"]
            if change and len(names) == 4:
                (inside / "0.txt").unlink()  # behind
                (inside / "3a.txt").write_text("")  # before
        return names

    numbers = [f"{number}.txt" for number in range(9)]
    assert pages() == ["zoo", *numbers]
    assert pages(sort="size") == ["zoo", *reversed(numbers)]
    assert pages(sort="name", descending="true") == ["zoo", *reversed(numbers)]
    assert pages(change=True) == ["zoo", *numbers[:4], "3a.txt", *numbers[4:]]
    for wrong in ({"after": "x"}, {"sort": "colour"}, {"limit": "0"}, {"path": "../x"}):
        assert client.get(url(folder, "entries/"), wrong).status_code == 400
    assert client.get(url(folder, "entries/"), {"path": "9.txt"}).status_code == 404


def test_entries_are_moved_renamed_and_copied(people: People, folder: VFolder, inside: Path) -> None:
    client = api_client(people.member)
    (inside / "sub").mkdir()
    for name in ("a", "b"):
        (inside / name).write_text(name)

    assert operate(client, folder, "move", "a", "b", to="sub").json()["paths"] == ["sub/a", "sub/b"]
    assert operate(client, folder, "move", "sub/a", to="sub", name="c").json()["paths"] == ["sub/c"]
    assert operate(client, folder, "copy", "sub").json()["code"] == "exists"
    copied = operate(client, folder, "copy", "sub", taken="keep_both")

    assert (copied.status_code, copied.json()["state"]) == (200, "done")
    assert sorted(os.listdir(inside / "sub (2)")) == ["b", "c"]
    refused = operate(client, folder, "move", "sub/b", to="sub", name="c")
    assert (refused.status_code, refused.json()["fields"]) == (409, {"names": ["c"]})
    for wrong in ({"name": ".berth-x"}, {"name": "a/b"}, {"to": ".."}, {"taken": "maybe"}, {"kind": "burn"}):
        body = {"kind": "move", "paths": ["sub/b"], **wrong}
        answer = client.post(url(folder, "operations/"), body, content_type="application/json")
        assert answer.status_code == 400, wrong
    assert operate(client, folder, "move", "gone", to="sub").status_code == 404


def test_an_entry_moves_to_another_folder_where_both_rights_exist(
    people: People, folder: VFolder, inside: Path
) -> None:
    client = api_client(people.member)
    other = make_folder(people.member, name="other")
    foreign = make_folder(people.outsider, name="foreign")
    (inside / "tree").mkdir()
    (inside / "tree" / "a").write_text("content")

    assert operate(client, folder, "move", "tree", to_folder=str(foreign.pk)).status_code == 404
    assert operate(client, folder, "move", "tree", to_folder=str(other.pk)).json()["state"] == "done"

    assert (Path(mount_source(other)) / "tree" / "a").read_text() == "content"
    assert not (inside / "tree").exists()
    other.refresh_from_db()
    assert other.size_bytes == len("content")


def test_a_copy_above_the_limit_of_bytes_leaves_nothing(
    people: People, folder: VFolder, inside: Path
) -> None:
    client = api_client(people.member)
    limit(people.member, max_folder_bytes=1500)
    (inside / "a").write_bytes(b"x" * 1000)
    VFolder.objects.filter(pk=folder.pk).update(size_bytes=1000)

    refused = operate(client, folder, "copy", "a", name="b")

    assert (refused.status_code, refused.json()["code"]) == (422, "limit_exceeded")
    folder.refresh_from_db()
    assert folder.size_bytes == 1000
    assert not (inside / "b").exists()


def test_deleting_is_undone(people: People, folder: VFolder, inside: Path) -> None:
    client = api_client(people.member)
    (inside / "d").mkdir()
    (inside / "d" / "a\nb").write_text("x")
    paths = {"paths": ["d/a\nb", "d", "gone"]}

    batch = client.post(url(folder, "trash/"), paths, content_type="application/json").json()["batch"]
    listed = client.get(url(folder, "entries/")).json()
    trashed = client.get(url(folder, "trash/")).json()

    assert (listed["total"], listed["entries"]) == (0, [])
    assert [each["id"] for each in trashed] == [batch]
    assert client.post(url(folder, f"trash/{batch}/restore/")).status_code == 204
    assert (inside / "d" / "a\nb").read_text() == "x"
    assert client.post(url(folder, f"trash/{batch}/restore/")).status_code == 404
    assert client.post(url(folder, "trash/../restore/")).status_code == 404
    client.post(url(folder, "trash/"), {"paths": ["d"]}, content_type="application/json")
    assert client.delete(url(folder, "trash/")).status_code == 204
    assert list(inside.iterdir()) == []


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def tar_of(*members: tarfile.TarInfo) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return written.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, **more: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, 3 if kind == tarfile.REGTYPE else 0
    for field, value in more.items():
        setattr(info, field, value)
    return info


def unpacked(client: Any, folder: VFolder, path: str, **more: Any) -> FileOperation:
    begun = operate(client, folder, "unpack", path, **more)
    assert begun.status_code == 202, begun.json()
    operations.run_operation(uuid.UUID(begun.json()["id"]))
    return FileOperation.objects.get(pk=begun.json()["id"])


def test_archives_are_unpacked_as_a_directory_or_in_place(
    people: People, folder: VFolder, inside: Path
) -> None:
    client = api_client(people.member)
    (inside / "a.zip").write_bytes(zip_of({"x/1.txt": b"one", "x/2.txt": b"two", "데이터.txt": b"3"}))
    links = [
        member("sub/link", tarfile.SYMTYPE, linkname="/etc/shadow"),
        member("sub/pipe", tarfile.FIFOTYPE),
    ]
    (inside / "b.tar.gz").write_bytes(tar_of(member("./sub/file"), *links, member("x/1.txt")))

    assert unpacked(client, folder, "a.zip", name="a").state == "done"
    assert (inside / "a" / "x" / "2.txt").read_bytes() == b"two"
    assert (inside / "a" / "데이터.txt").exists()
    done = unpacked(client, folder, "b.tar.gz", to="a", taken="replace")

    assert (inside / "a" / "x" / "1.txt").read_bytes() == b"xxx"  # replaced
    assert (inside / "a" / "x" / "2.txt").read_bytes() == b"two"  # merged
    assert os.listdir(inside / "a" / "sub") == ["file"]
    assert done.left_out == ["sub/link", "sub/pipe"]
    folder.refresh_from_db()
    assert folder.size_bytes == 7 + 6


def test_bombs_escapes_and_damaged_archives_leave_nothing(
    people: People, folder: VFolder, inside: Path, monkeypatch: pytest.MonkeyPatch, subtests: Any
) -> None:
    client = api_client(people.member)
    monkeypatch.setattr("vfolders.storage.archives.FREE_BYTES", 2**20)
    monkeypatch.setattr("vfolders.storage.archives.MOST_ENTRIES", 50)
    whole = zip_of({"a": os.urandom(5000)})
    long_name = tarfile.TarInfo("long")
    long_name.type, long_name.size = tarfile.GNUTYPE_LONGNAME, 2**40
    refused = {
        "climbs.zip": (zip_of({"ok": b"", "../../evil": b"x"}), "not a path"),
        "absolute.zip": (zip_of({"/etc/evil": b"x"}), "not a path"),
        "dots.tar.gz": (tar_of(member("a"), member("b/../../evil")), "not a path"),
        "bomb.zip": (zip_of({"zeros": bytes(20 * 2**20)}), "times its size"),
        "lzma.zip": (zip_of({"zeros": bytes(2**20)}, zipfile.ZIP_LZMA), "another method"),
        "bzip2.zip": (zip_of({"zeros": bytes(2**20)}, zipfile.ZIP_BZIP2), "another method"),
        "many.zip": (zip_of({str(number): b"" for number in range(60)}), "more than 50"),
        "damaged.zip": (whole.replace(whole[100:200], bytes(100)), "damaged"),
        "cut.tar.gz": (tar_of(member("a"))[:40], "damaged"),
        "both.zip": (zip_of({"a": b"x", "a/b": b"x"}), "both"),
        "name.tar": (long_name.tobuf(tarfile.GNU_FORMAT) + bytes(1024), "too long names"),
        "text.zip": (b"only text", "not an archive"),
    }
    for name, (content, sentence) in refused.items():
        with subtests.test(name):
            (inside / name).write_bytes(content)
            operation = unpacked(client, folder, name, name="out")
            assert operation.state == "failed"
            assert sentence in operation.error
            assert not (inside / "out").exists()
    (inside / "pipe.zip").unlink(missing_ok=True)
    os.mkfifo(inside / "pipe.zip")
    assert "not a file" in unpacked(client, folder, "pipe.zip", name="out").error
    folder.refresh_from_db()
    assert folder.size_bytes == 0
    assert list((inside / UNFINISHED).iterdir()) == []


def test_an_operation_is_seen_and_cancelled_by_its_user_alone(
    people: People, folder: VFolder, inside: Path
) -> None:
    client = api_client(people.member)
    (inside / "a.zip").write_bytes(zip_of({"x": b"one"}))
    begun = operate(client, folder, "unpack", "a.zip", name="out").json()
    its_url = f"/api/v1/file-operations/{begun['id']}/"

    assert api_client(people.outsider).get(its_url).status_code == 404
    assert client.delete(its_url).status_code == 200
    operations.run_operation(uuid.UUID(begun["id"]))

    assert client.get(its_url).json()["state"] == "cancelled"
    assert not (inside / "out").exists()


def test_an_operation_that_fails_unexpectedly_is_not_shown_as_done(
    people: People, folder: VFolder, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise MemoryError

    (inside / "a").touch()
    monkeypatch.setattr(operations._Run, "_copy", fail)
    with pytest.raises(MemoryError):
        operate(api_client(people.member), folder, "copy", "a", name="b")
    assert FileOperation.objects.get().state == "failed"


def body_of(answer: Any) -> bytes:
    return b"".join(answer)


def test_a_selection_is_downloaded_as_a_zip_without_links(
    people: People, folder: VFolder, inside: Path, tmp_path: Path
) -> None:
    client = api_client(people.member)
    (tmp_path / "secret").write_text("not yours")
    (inside / "d" / "empty").mkdir(parents=True)
    (inside / "d" / "a\nb “é”.txt").write_text("x")
    (inside / os.fsdecode(b"d/raw-\xff.txt")).write_text("raw")
    (inside / "d" / "link").symlink_to(tmp_path / "secret")
    (inside / "big.bin").write_bytes(os.urandom(3 * 2**20))
    (inside / "not wanted").write_text("x")

    answer = client.get(url(folder, "zip/"), {"path": ["d", "big.bin"]})
    archive = zipfile.ZipFile(io.BytesIO(body_of(answer)))

    left_out = archive.read("LEFT OUT.txt").decode()
    assert archive.testzip() is None
    assert set(archive.namelist()) == {
        "d/", "d/empty/", "d/a\nb “é”.txt", "d/raw-%FF.txt", "big.bin", "LEFT OUT.txt",
    }  # fmt: skip
    assert archive.read("big.bin") == (inside / "big.bin").read_bytes()
    assert "d/link: a link" in left_out
    assert "raw-%FF.txt" in left_out
    assert client.get(url(folder, "zip/"), {"path": "gone"}).status_code == 404
    whole = client.get(url(folder, "zip/"))
    assert "not wanted" in zipfile.ZipFile(io.BytesIO(body_of(whole))).namelist()


def test_names_are_searched_in_the_whole_tree(
    people: People, folder: VFolder, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = api_client(people.member)
    (inside / "deep" / "er").mkdir(parents=True)
    for name in ("deep/er/Model.PT", "deep/model.txt", "other"):
        (inside / name).write_text("x")
    client.post(url(folder, "trash/"), {"paths": ["deep/model.txt"]}, content_type="application/json")

    def hits(words: str, path: str = "") -> list[str]:
        lines = body_of(client.get(url(folder, "search/"), {"q": words, "path": path})).splitlines()
        found = [json.loads(line) for line in lines if line]
        assert found[-1]["is_complete"] is (len(found) <= 1000)
        return [hit["path"] for hit in found[:-1]]

    assert hits("model") == ["deep/er/Model.PT"]
    assert hits("*.pt", "deep") == ["deep/er/Model.PT"]
    assert hits("[") == []
    assert client.get(url(folder, "search/"), {"q": " "}).status_code == 400
    for number in range(1200):
        (inside / "deep" / f"many-{number}").touch()
    assert len(hits("many")) == 1000


def test_two_writers_of_a_text_get_a_sentence_and_its_encoding_stays(
    people: People, folder: VFolder, inside: Path
) -> None:
    client = api_client(people.member)
    its_url = url(folder, "text/?path=a.txt")
    old = "안녕하세요, 여러분. 데이터 폴더입니다.\r\n둘째 줄도 있습니다.\r\n"
    (inside / "a.txt").write_bytes(old.encode("cp949"))
    (inside / "a.txt").chmod(0o600)

    read = client.get(its_url).json()
    assert (read["text"], read["newline"]) == (old.replace("\r\n", "\n"), "\r\n")
    change = {**read, "text": "바뀐 글\n"}
    saved = client.put(its_url, change, content_type="application/json")
    again = client.put(its_url, change, content_type="application/json")

    assert saved.status_code == 200
    assert (inside / "a.txt").read_bytes() == "바뀐 글\r\n".encode("cp949")
    assert (inside / "a.txt").stat().st_mode & 0o777 == 0o600
    assert (again.status_code, again.json()["code"]) == (409, "changed_meanwhile")
    fresh = {**change, "etag": saved.json()["etag"], "text": "\N{SNOWMAN}\N{ROCKET}"}
    assert client.put(its_url, fresh, content_type="application/json").json()["fields"].keys() == {"text"}
    for wrong in (
        {"encoding": "rot13"},
        {"encoding": "nothing"},
        {"encoding": "punycode"},
        {"encoding": "idna"},
        {"newline": "x"},
    ):
        assert client.put(its_url, {**change, **wrong}, content_type="application/json").status_code == 400
    new = client.put(url(folder, "text/?path=n.txt"), {"text": ""}, content_type="application/json")
    assert new.status_code == 200
    assert client.put(
        url(folder, "text/?path=n.txt"), {"text": "x"}, content_type="application/json"
    ).status_code == 409  # fmt: skip
    for content in (b"\0\1\2", b"x" * (2 * 2**20 + 1)):
        (inside / "b").write_bytes(content)
        assert client.get(url(folder, "text/?path=b")).json()["code"] == "not_text"


def test_of_two_writers_at_once_one_saves(people: People, folder: VFolder, inside: Path) -> None:
    files = files_of(folder)
    for _round in range(30):
        (inside / "a").write_bytes(b"old")
        opened = files.open_file(("a",))
        opened.stream.close()
        outcomes: list[bool] = []

        def save(content: bytes, etag: str = opened.etag, outcomes: list[bool] = outcomes) -> None:
            outcomes.append(files.replace_unchanged(("a",), content, etag=etag) is not None)

        writers = [threading.Thread(target=save, args=(content,)) for content in (b"one", b"two", b"three")]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert outcomes.count(True) == 1
        assert sorted(os.listdir(inside)) == [UNFINISHED, "a"]
