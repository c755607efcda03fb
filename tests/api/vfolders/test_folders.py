"""REST of folders, and of the files in them."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from tests.conftest import People
from tests.factories import api_client
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from vfolders import access_watch
from vfolders.models import StorageHost
from vfolders.selectors import mount_source

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


def put(client: Any, url: str, content: bytes) -> Any:
    return client.put(url, content, content_type="application/octet-stream")


def test_a_folder_is_made_listed_read_and_deleted(people: People) -> None:
    client = api_client(people.member)

    made = client.post("/api/v1/folders/", {"name": "data"})
    url = f"/api/v1/folders/{made.json()['id']}/"

    assert made.status_code == 201
    assert made.json()["owner"] == people.member.email
    assert made.json()["project"] is None
    assert client.get("/api/v1/folders/").json()["results"] == [made.json()]
    assert client.get(url).json() == made.json()
    assert client.delete(url).status_code == 204
    assert client.delete(url).status_code == 204
    assert client.get(url).json()["state"] == "trashed"
    assert client.get("/api/v1/folders/").json()["results"] == []
    assert [each["id"] for each in client.get("/api/v1/folders/trash/").json()["results"]] == [
        made.json()["id"]
    ]


def test_the_life_of_a_folder(people: People) -> None:
    client = api_client(people.member)
    made = client.post("/api/v1/folders/", {"name": "weights", "mode": "model"}).json()
    url = f"/api/v1/folders/{made['id']}/"

    changed = client.patch(url, {"name": "weights2", "mode": "data"}).json()
    assert (made["mode"], changed["name"], changed["mode"]) == ("model", "weights2", "data")
    assert client.patch(url, {"mode": "auto_mount"}).status_code == 400

    copy = client.post(f"{url}clone/", {"name": "copy"})
    assert (copy.status_code, copy.json()["state"], copy.json()["clone"]["source_name"]) == (
        201,
        "cloning",
        "weights2",
    )
    assert client.delete(f"/api/v1/folders/{copy.json()['id']}/").status_code == 204

    client.delete(url)
    client.post("/api/v1/folders/", {"name": "weights2"})
    taken = client.post(f"{url}restore/", {})
    assert (taken.status_code, list(taken.json()["fields"])) == (409, ["name"])
    assert client.post(f"{url}restore/", {"name": "weights3"}).json()["state"] == "ready"
    client.delete(url)
    assert client.post(f"{url}purge/", {"name": "other"}).status_code == 400
    assert client.post(f"{url}purge/", {"name": "weights3"}).status_code == 204
    assert client.get(url).status_code == 404


def test_a_folder_of_a_project_is_shared_with_its_members(people: People) -> None:
    made = api_client(people.member).post(
        "/api/v1/folders/", {"name": "data", "project": people.project.name}
    )
    url = f"/api/v1/folders/{made.json()['id']}/files/a.txt"

    assert made.json()["project"] == people.project.name
    assert put(api_client(people.project_admin), url, b"shared").status_code == 200
    assert b"".join(api_client(people.member).get(url)) == b"shared"
    assert api_client(people.outsider).get(url).status_code == 404


def test_wrong_requests_say_which_field(people: People) -> None:
    client = api_client(people.member)

    for body, field in (
        ({}, "name"),
        ({"name": "../x"}, "name"),
        ({"name": "x", "project": "absent"}, "project"),
        ({"name": "x", "host": "absent"}, "host"),
    ):
        refused = client.post("/api/v1/folders/", body)
        assert refused.status_code in {400, 404}
        assert field in refused.json()["fields"]


@pytest.fixture
def files_url(people: People) -> str:
    return f"/api/v1/folders/{make_folder(people.member, name='data').pk}/files/"


def test_a_file_goes_up_and_comes_down_unchanged(people: People, files_url: str) -> None:
    client = api_client(people.member)
    content = bytes(range(256)) * 5000

    stored = put(client, files_url + "deep/er/model.bin", content)
    fetched = client.get(files_url + "deep/er/model.bin")

    assert stored.status_code == 200
    assert stored.json()["size_bytes"] == len(content)
    assert b"".join(fetched) == content
    assert fetched["Content-Length"] == str(len(content))


def test_an_empty_file_is_a_file(people: People, files_url: str) -> None:
    client = api_client(people.member)

    assert put(client, files_url + "empty", b"").json()["size_bytes"] == 0
    assert b"".join(client.get(files_url + "empty")) == b""


def test_user_files_are_only_ever_attachments(people: People, files_url: str) -> None:
    client = api_client(people.member)
    put(client, files_url + "“evil”.html", b"<script>alert(1)</script>")

    answer = client.get(files_url + "“evil”.html", headers={"Accept": "text/html"})

    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment; filename*=utf-8''%E2%80%9Cevil")
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_part_of_a_file_can_be_fetched_and_a_download_resumed(
    people: People, files_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_watch, "RECHECK_S", 0.0)  # the right is read for each piece
    client = api_client(people.member)
    url = files_url + "digits"
    put(client, url, b"0123456789")

    part = client.get(url, headers={"Range": "bytes=3-5"})
    resumed = client.get(url, headers={"Range": "bytes=5-", "If-Range": part["ETag"]})
    changed = client.get(url, headers={"Range": "bytes=5-", "If-Range": '"other"'})
    behind = client.get(url, headers={"Range": "bytes=10-"})
    same = client.get(url, headers={"If-None-Match": part["ETag"]})
    head = client.head(url)

    assert (part.status_code, b"".join(part), part["Content-Range"]) == (206, b"345", "bytes 3-5/10")
    assert (resumed.status_code, b"".join(resumed)) == (206, b"56789")
    assert (changed.status_code, b"".join(changed)) == (200, b"0123456789")
    assert (behind.status_code, behind["Content-Range"]) == (416, "bytes */10")
    assert (same.status_code, same.content) == (304, b"")
    assert (head.status_code, head["Content-Length"], head.content) == (200, "10", b"")


def test_directories_are_made_listed_and_deleted(people: People, files_url: str) -> None:
    client = api_client(people.member)
    folder_url = files_url.removesuffix("files/")

    made = client.post(folder_url + "directories/", {"path": "a/b"})
    put(client, files_url + "a/x", b"12")
    listed = client.get(files_url + "a").json()
    usage = client.get(folder_url + "usage/").json()

    assert made.status_code == 201
    assert [(entry["name"], entry["kind"], entry["size_bytes"]) for entry in listed["entries"]] == [
        ("b", "directory", 0),
        ("x", "file", 2),
    ]
    assert client.get(files_url + "a/").json()["entries"] == listed["entries"]
    assert usage == {"size_bytes": 2, "file_count": 1, "is_complete": True}
    assert client.delete(files_url + "a").status_code == 204
    assert client.get(files_url).json() == {"path": "", "entries": [], "is_complete": True}


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../../etc/passwd",
        "a/../../b",
        "/etc/passwd",
        "a%00b",
        "a%0Ab",
        "..%2f..%2fetc",
        "a//b",
        "x/",
    ],
)
def test_no_path_leaves_the_folder(people: People, files_url: str, path: str, tmp_path: Path) -> None:
    client = api_client(people.member)
    before = sorted(str(found) for found in tmp_path.rglob("*"))

    assert put(client, files_url + path, b"x").status_code in {400, 404}
    assert client.get(files_url + path).status_code in {400, 404}
    assert client.delete(files_url + path).status_code in {400, 404}
    assert sorted(str(found) for found in tmp_path.rglob("*")) == before


def test_names_stay_what_they_are(people: People, files_url: str) -> None:
    client = api_client(people.member)

    put(client, files_url + "%252e%252e%2Fx", b"1")

    assert [entry["name"] for entry in client.get(files_url).json()["entries"]] == ["%2e%2e"]


ODD_NAMES = [
    "new\nline",
    "end\n",
    "\n",
    "tab\tab",
    "-rf",
    "'\"`$(x)\\",
    " ",
    "a b ",
    "…\x1b[31m\x7f",
    "x" * 255,
    "é" * 127,
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_whatever_a_session_calls_a_file_is_listed_fetched_replaced_and_deleted(
    people: People, files_url: str, name: str
) -> None:
    client = api_client(people.member)
    place = Path(mount_source(people.member.folders.get()))
    (place / name).mkdir()
    (place / name / name).write_bytes(b"1")
    address = f"{files_url}{quote(name, safe='')}"
    inside = f"{address}/{quote(name, safe='')}"

    for url, is_directory in ((files_url, True), (address, False)):
        [entry] = client.get(url).json()["entries"]
        assert (entry["name"], entry["is_addressable"]) == (name, True)
        assert (entry["kind"] == "directory") == is_directory
    answer = client.get(inside)
    assert b"".join(answer) == b"1"
    assert "attachment" in answer["Content-Disposition"]
    assert "\n" not in answer["Content-Disposition"]
    assert put(client, inside, b"2").status_code == 200
    assert put(client, f"{address}/beside", b"3").status_code == 200
    assert client.delete(inside).status_code == 204
    assert client.delete(address).status_code == 204
    assert list(place.iterdir()) == []


def test_a_name_that_is_not_utf_8_is_said_to_be_out_of_reach_beside_the_others(
    people: People, files_url: str
) -> None:
    place = Path(mount_source(people.member.folders.get()))
    (place / "caf\udce9").write_bytes(b"")
    (place / "fine").write_bytes(b"")

    entries = api_client(people.member).get(files_url).json()["entries"]

    assert {entry["name"]: entry["is_addressable"] for entry in entries} == {"caf\ufffd": False, "fine": True}


def test_names_with_control_characters_are_not_made(people: People, files_url: str) -> None:
    client = api_client(people.member)
    for name in ("a\nb", "\t"):
        refused = put(client, f"{files_url}{quote(name)}", b"x")
        assert (refused.status_code, "path" in refused.json()["fields"]) == (400, True)
    folder = files_url.removesuffix("files/")
    assert client.post(f"{folder}directories/", {"path": "a\nb"}).status_code == 400
    assert client.get(files_url).json()["entries"] == []


def test_a_link_of_a_session_is_listed_and_not_followed(people: People, files_url: str) -> None:
    folder = people.member.folders.get()
    Path(mount_source(folder), "passwd").symlink_to("/etc/passwd")
    client = api_client(people.member)

    assert client.get(files_url).json()["entries"][0]["kind"] == "link"
    refused = client.get(files_url + "passwd")
    assert refused.status_code == 409
    assert refused.json()["code"] == "wrong_kind"


def test_a_page_without_csrf_token_cannot_write(people: People, files_url: str) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")

    assert put(browser, files_url + "a", b"x").status_code == 403
    assert browser.get(files_url).json()["entries"] == []


def test_sizes_are_told_and_an_upload_above_the_limit_is_refused_before_it_is_read(people: People) -> None:
    client = api_client(people.member)
    limit(people.member, max_folder_bytes=1000)
    folder = make_folder(people.member, name="data")
    url = f"/api/v1/folders/{folder.pk}/"
    assert put(client, f"{url}files/a", b"x" * 900).status_code == 200
    told = client.get(url).json()
    assert (told["size_bytes"], told["measured_at"], told["is_size_whole"]) == (900, None, True)

    refused = put(client, f"{url}files/b", b"x" * 200)
    assert refused.status_code == 422
    assert refused.json()["code"] == "limit_exceeded"
    assert refused.json()["limits"][0]["limit"] == "folder_bytes"
    assert put(client, f"{url}files/a", b"y" * 200).status_code == 422  # the old one is there until the end
    assert client.get(f"{url}usage/").json()["size_bytes"] == 900
    assert client.get(url).json()["measured_at"] is not None
