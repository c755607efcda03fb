"""Resumable uploads over REST: TUS 1.0 with wrong offsets, lengths, checksums and owners."""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from common import clock
from common.models import AuditEntry
from tests import factories
from tests.conftest import People
from tests.factories import api_client
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from vfolders import selectors
from vfolders.core import bundles
from vfolders.core.paths import UPLOADS_DIRECTORY
from vfolders.core.uploads import UploadState
from vfolders.models import Upload, VFolder
from vfolders.selectors import mount_source
from vfolders.storage import staging
from vfolders.storage.base import StorageBackend, StorageUnavailable
from vfolders.uploads import lifecycle, resumable

pytestmark = pytest.mark.django_db
PART = "application/offset+octet-stream"


class Tus:
    """A client of one folder."""

    def __init__(self, api: Client, folder: VFolder) -> None:
        self._api, self.url = api, f"/api/v1/folders/{folder.pk}/uploads/"

    def create(self, path: str = "", length: int | None = 0, body: bytes = b"", **headers: str) -> Any:
        told = {} if length is None else {"Upload-Length": str(length)}
        if path:
            told["Upload-Metadata"] = metadata(path=path)
        content_type = {"content_type": PART} if body else {}
        return self._api.post(self.url, body or None, headers=sent({**told, **headers}), **content_type)

    def append(
        self, url: str, offset: int | str, body: bytes, *, content_type: str = PART, **headers: str
    ) -> Any:
        told = sent({"Upload-Offset": str(offset), **headers})
        return self._api.patch(url, body, content_type=content_type, headers=told)

    def head(self, url: str) -> Any:
        return self._api.head(url, headers=sent({}))

    def delete(self, url: str) -> Any:
        return self._api.delete(url, headers=sent({}))


def sent(headers: Mapping[str, str]) -> dict[str, str]:
    return {"Tus-Resumable": "1.0.0", **{name.replace("_", "-"): value for name, value in headers.items()}}


def metadata(**values: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in values.items())


def checksum(body: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm} {base64.b64encode(hashlib.new(algorithm, body).digest()).decode()}"


@pytest.fixture
def folder(people: People, tmp_path: Path) -> VFolder:
    make_storage_host(tmp_path)
    return make_folder(people.member, name="data")


@pytest.fixture
def tus(people: People, folder: VFolder) -> Tus:
    return Tus(api_client(people.member), folder)


@pytest.fixture
def inside(folder: VFolder) -> Path:
    return Path(mount_source(folder))


def size_of(folder: VFolder) -> int:
    return VFolder.objects.get(pk=folder.pk).size_bytes


def test_a_file_arrives_in_parts_and_appears_whole(tus: Tus, inside: Path, folder: VFolder) -> None:
    url = tus.create("dir/模型.bin", 6)["Location"]
    first = tus.append(url, 0, b"abc")
    assert (first.status_code, first["Upload-Offset"], first["Tus-Resumable"]) == (204, "3", "1.0.0")
    assert [each.name for each in inside.iterdir()] == [UPLOADS_DIRECTORY]
    assert size_of(folder) == 3
    told = tus.head(url)
    assert (told.status_code, told["Upload-Offset"], told["Upload-Length"]) == (200, "3", "6")
    assert (told["Upload-Metadata"], told["Cache-Control"]) == (metadata(path="dir/模型.bin"), "no-store")

    assert tus.append(url, 3, b"def").status_code == 204
    assert (inside / "dir" / "模型.bin").read_bytes() == b"abcdef"
    assert [each.name for each in inside.iterdir()] == ["dir"]
    assert tus.head(url)["Upload-Offset"] == "6"
    assert size_of(folder) == 6


def test_the_server_tells_what_it_can(tus: Tus) -> None:
    answer = tus._api.options(tus.url)
    assert (answer.status_code, answer["Tus-Version"]) == (204, "1.0.0")
    assert answer["Tus-Checksum-Algorithm"] == "sha1,sha256"


def test_pages_upload_with_their_cookie_and_token(people: People, folder: VFolder, inside: Path) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.member)
    page = Tus(browser, folder)
    assert page.create("a", 1, b"a").status_code == 403
    browser.get(f"/data/{folder.pk}/")
    token = {"X-CSRFToken": browser.cookies[settings.CSRF_COOKIE_NAME].value}
    assert page.create("a", 1, b"a", **token).status_code == 201
    assert (inside / "a").read_bytes() == b"a"


def test_a_small_file_needs_one_request_and_an_empty_one_no_body(tus: Tus, inside: Path) -> None:
    made = tus.create("a", 3, b"abc")
    assert (made.status_code, made["Upload-Offset"]) == (201, "3")
    assert tus.create("empty", 0).status_code == 201
    assert {each.name: each.read_bytes() for each in inside.iterdir()} == {"a": b"abc", "empty": b""}


def test_a_length_may_be_told_later(tus: Tus, inside: Path) -> None:
    url = tus.create("log", None, Upload_Defer_Length="1")["Location"]
    assert tus.append(url, 0, b"abc").status_code == 204
    assert tus.head(url)["Upload-Defer-Length"] == "1"
    assert tus.append(url, 3, b"de", Upload_Length="5").status_code == 204
    assert (inside / "log").read_bytes() == b"abcde"


def test_a_length_that_was_told_meanwhile_is_the_length(
    tus: Tus, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = tus.create("log", None, Upload_Defer_Length="1")["Location"]
    earlier = Upload.objects.select_related("folder__host").get()
    assert tus.append(url, 0, b"", Upload_Length="5").status_code == 204
    monkeypatch.setattr(resumable, "access_upload", lambda *_: earlier)
    assert tus.append(url, 0, b"abcdef").status_code == 400
    assert tus.append(url, 0, b"abc", Upload_Length="6").status_code == 400
    assert tus.append(url, 0, b"abcde").status_code == 204
    assert (inside / "log").read_bytes() == b"abcde"


def test_what_is_wrong_is_refused_and_nothing_lost(tus: Tus, inside: Path) -> None:
    url = tus.create("a", 6)["Location"]
    tus.append(url, 0, b"abc")
    wrong = {
        409: tus.append(url, 2, b"cdef"),
        415: tus.append(url, 3, b"def", content_type="application/octet-stream"),
        460: tus.append(url, 3, b"dXf", Upload_Checksum=checksum(b"def", "sha1")),
        412: tus._api.patch(url, b"def", content_type=PART, headers={"Upload-Offset": "3"}),
    }
    bad = [
        tus.append(url, "x", b"def"),
        tus.append(url, 3, b"defg"),
        tus.append(url, 3, b"def", Upload_Checksum="md5 AAAA"),
        tus.append(url, 3, b"def", Upload_Checksum="sha1 !"),
        tus.append(url, 3, b"def", Upload_Length="7"),
        tus.create("b", -1),
        tus.create("b", None),
        tus.create("", 3),
        tus.create("../b", 3),
        tus.create("/etc/passwd", 3),
        tus.create(f"{UPLOADS_DIRECTORY}/b", 3),
        tus.create("b", 3, Upload_Metadata="path ???"),
        tus.create("b", 3, Upload_Metadata=metadata(path="b", if_exists="perhaps")),
        tus.create("b", 3, Upload_Concat="final;nothing"),
        tus.create("a\0b", 3, Upload_Concat="partial"),
    ]
    assert {status: answer.status_code for status, answer in wrong.items()} == {each: each for each in wrong}
    assert [answer.status_code for answer in bad] == [400] * len(bad)
    assert all(answer.json()["message"] for answer in (*wrong.values(), *bad))
    assert tus.head(url)["Upload-Offset"] == "3"
    assert tus.append(url, 3, b"def", Upload_Checksum=checksum(b"def")).status_code == 204
    assert (inside / "a").read_bytes() == b"abcdef"


def test_uploads_of_others_are_not_there(people: People, tus: Tus, folder: VFolder) -> None:
    url = tus.create("a", 3)["Location"]
    other = make_folder(people.member, name="other")
    admin = Tus(api_client(people.superadmin), folder)
    elsewhere = url.replace(str(folder.pk), str(other.pk))
    answers = [
        admin.head(url), admin.append(url, 0, b"abc"), admin.delete(url),
        tus.head(elsewhere), tus.append(elsewhere, 0, b"abc"),
    ]  # fmt: skip
    assert [answer.status_code for answer in answers] == [404] * 5
    part = tus.create("", 1, b"x", Upload_Concat="partial")["Location"]
    assert admin.create("b", None, Upload_Concat=f"final;{part}").status_code == 404


def test_an_upload_has_one_writer_at_a_time(tus: Tus) -> None:
    url = tus.create("a", 3)["Location"]
    tus.append(url, 0, b"a")
    staged = resumable._staging(Upload.objects.get()).open(Upload.objects.get().pk.hex)
    assert [tus.append(url, 1, b"bc").status_code, tus.delete(url).status_code] == [423, 423]
    staged.close()
    assert tus.append(url, 1, b"bc").status_code == 204


def test_parts_are_put_together(tus: Tus, inside: Path, folder: VFolder) -> None:
    parts = [tus.create("", len(each), each, Upload_Concat="partial")["Location"] for each in (b"abc", b"de")]
    late = tus.create("", 5, Upload_Concat="partial")["Location"]
    assert tus.create("a", None, Upload_Concat=f"final;{parts[0]} {late}").status_code == 409
    whole = tus.create("a", None, Upload_Concat=f"final;http://testserver{parts[0]} {parts[1]}")
    assert (whole.status_code, (inside / "a").read_bytes()) == (201, b"abcde")
    assert tus.head(whole["Location"])["Upload-Concat"].startswith("final;")
    assert tus.append(whole["Location"], 5, b"f").status_code == 403
    assert tus.head(parts[0]).status_code == 404
    assert size_of(folder) == 5


def test_parts_of_which_one_is_in_use_are_put_together_later(tus: Tus, inside: Path) -> None:
    parts = [tus.create("", len(each), each, Upload_Concat="partial")["Location"] for each in (b"abc", b"de")]
    busy = Upload.objects.order_by("created_at").last()
    assert busy is not None
    staged = resumable._staging(busy).open(busy.pk.hex)
    assert tus.create("a", None, Upload_Concat=f"final;{' '.join(parts)}").status_code == 423
    assert len(list((inside / UPLOADS_DIRECTORY).iterdir())) == Upload.objects.count() == 2
    staged.close()
    assert tus.create("a", None, Upload_Concat=f"final;{' '.join(parts)}").status_code == 201
    assert (inside / "a").read_bytes() == b"abcde"


def test_a_taken_name_is_refused_before_a_byte_is_sent_or_both_are_kept(tus: Tus, inside: Path) -> None:
    (inside / "a").write_bytes(b"old")
    (inside / "dir").mkdir()
    refused = tus.create("a", 3, Upload_Metadata=metadata(path="a", if_exists="refuse"))
    assert (refused.status_code, refused.json()["code"]) == (409, "exists")
    assert tus.create("dir", 3).status_code == 409
    kept = tus.create("a", 3, b"new", Upload_Metadata=metadata(path="a", if_exists="keep_both"))
    assert tus._api.get(kept["Location"]).json()["path"] == "a (2)"
    assert (inside / "a").read_bytes() == b"old"
    assert tus.create("a", 3, b"new").status_code == 201
    assert (inside / "a").read_bytes() == b"new"


def test_a_removed_upload_gives_its_space_back(tus: Tus, inside: Path, folder: VFolder) -> None:
    url = tus.create("a", 6)["Location"]
    tus.append(url, 0, b"abc")
    assert [each["path"] for each in tus._api.get(tus.url).json()] == ["a"]
    assert tus.delete(url).status_code == 204
    assert (tus.head(url).status_code, size_of(folder), list(inside.iterdir())) == (404, 0, [])


def test_a_full_folder_refuses_in_the_middle_and_keeps_what_came(
    people: People, tus: Tus, folder: VFolder
) -> None:
    limit(people.member, max_folder_bytes=4)
    refused = tus.create("a", 6)
    assert (refused.status_code, refused.json()["code"]) == (422, "limit_exceeded")
    url = tus.create("a", None, Upload_Defer_Length="1")["Location"]
    assert tus.append(url, 0, b"abc").status_code == 204
    assert tus.append(url, 3, b"def").status_code == 422
    assert (tus.head(url)["Upload-Offset"], size_of(folder)) == ("3", 3)


def test_expired_uploads_are_removed(tus: Tus, inside: Path, folder: VFolder) -> None:
    url = tus.create("a", 6)["Location"]
    tus.append(url, 0, b"abc")
    assert resumable.settle_uploads() == 0
    Upload.objects.update(expires_at=clock.now())
    assert tus.head(url).status_code == 404
    assert resumable.settle_uploads() == 1
    assert (list(inside.iterdir()), size_of(folder), Upload.objects.count()) == ([], 0, 0)


def test_a_host_with_wrong_settings_does_not_end_the_clean_up(
    tus: Tus, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_folder(people.member, name="before")  # in the order of names
    tus.create("a", 6, b"abc")
    Upload.objects.all().delete()
    monkeypatch.setattr(staging, "LEFT_AFTER_S", -1.0)

    def storage_of(asked: VFolder) -> StorageBackend:
        if asked == before:
            raise StorageUnavailable("wrong settings")
        return selectors.storage_of(asked)

    monkeypatch.setattr(resumable, "storage_of", storage_of)
    assert resumable.remove_leftovers() == 1


@pytest.mark.parametrize("died", ["before the name", "after the name"])
def test_an_upload_whose_process_died_at_its_end_is_finished(
    tus: Tus, inside: Path, died: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = tus.create("a", 3)["Location"]
    with monkeypatch.context() as patch:
        patch.setattr(resumable, "publish", lambda **_: None)
        tus.append(url, 0, b"abc")
    upload = Upload.objects.get()
    assert (upload.state, list(inside.glob("a"))) == (UploadState.RECEIVED, [])
    if died == "after the name":
        with monkeypatch.context() as patch:
            patch.setattr(lifecycle, "transition", lambda *_, **__: None)
            resumable.publish(actor=factories.actor_for(upload.user), upload=upload)

    reader = Client(headers={"Authorization": f"Bearer {factories.make_token(upload.user, scopes=['read'])}"})
    assert reader.head(url, headers=sent({}))["Upload-Offset"] == "3"
    assert Upload.objects.get().state == UploadState.RECEIVED
    assert tus.head(url)["Upload-Offset"] == "3"
    assert ((inside / "a").read_bytes(), [each.name for each in inside.iterdir()]) == (b"abc", ["a"])
    assert Upload.objects.get().state == UploadState.FINISHED


def bundle(*files: tuple[str, bytes]) -> bytes:
    lines = (
        json.dumps({"path": path, "size": len(content)}).encode() + b"\n" + content for path, content in files
    )
    return b"".join(lines)


def test_a_bundle_stores_many_files_and_tells_of_each(tus: Tus, inside: Path, folder: VFolder) -> None:
    url = f"/api/v1/folders/{folder.pk}/bundles/"
    files = [(f"d{number % 3}/{number}.txt", b"x" * number) for number in range(300)]
    wrong = [("../out", b"x"), ("", b"x"), ("d0", b"a directory")]
    answer = tus._api.post(
        url, bundle(*files, *wrong, ("last", b"")), content_type="application/octet-stream"
    )
    results = answer.json()["files"]
    assert answer.status_code == 200
    assert [each["path"] for each in results if "error" not in each] == [*(path for path, _ in files), "last"]
    assert [each["path"] for each in results if "error" in each] == ["../out", "", "d0"]
    assert all((inside / path).read_bytes() == content for path, content in files)
    assert sorted(each.name for each in inside.iterdir()) == ["d0", "d1", "d2", "last"]
    assert size_of(folder) == sum(range(300))

    both = tus._api.post(
        f"{url}?if_exists=refuse", bundle(("last", b"y")), content_type="application/octet-stream"
    )
    assert both.json()["files"][0]["error"]["code"] == "exists"


def test_a_broken_bundle_keeps_what_was_whole(
    tus: Tus, inside: Path, folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"/api/v1/folders/{folder.pk}/bundles/"
    for broken in (
        b"no json\n",
        b'{"path": "b", "size": -1}\n',
        b'{"path": "b", "size": 5}\nabc',
        b"[" * 100_000,
    ):
        body = bundle(("a", b"1")) + broken
        answer = tus._api.post(url, body, content_type="application/octet-stream").json()
        assert ([each["path"] for each in answer["files"]], answer["error"]["code"]) == (["a"], "invalid")
    assert [each.name for each in inside.iterdir()] == ["a"]
    limited = bundle(("c", b"1"), ("..", b""), ("d", b"1"))
    with monkeypatch.context() as patch:
        patch.setattr(bundles, "MAX_FILES", 2)
        answer = tus._api.post(url, limited, content_type="application/octet-stream").json()
    assert [each["path"] for each in answer["files"]] == ["c", ".."]
    assert "at most 2 files" in answer["error"]["message"]
    audited = AuditEntry.objects.filter(action="vfolders.write_files").count()
    tus._api.post(url, bundle(("..", b"")), content_type="application/octet-stream")
    assert AuditEntry.objects.filter(action="vfolders.write_files").count() == audited
    huge = b'{"path": "b", "size": 2000000}\n'
    assert tus._api.post(url, huge, content_type="application/octet-stream").status_code == 400
