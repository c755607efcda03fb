"""Names that look alike are equal, in any script and Unicode form, over REST and on pages."""

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.models import Project
from accounts.tenancy.service import create_project
from common.actors import SYSTEM
from common.errors import InvalidInput
from tests.conftest import People
from tests.factories import api_client
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import make_place
from vfolders.models import VFolder
from vfolders.selectors import mount_source
from vfolders.storage.files import FolderFiles

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]
NAMES = ("café", "한글", "ข้อมูล", "हिन्दी")
CAFE, APART = "café", unicodedata.normalize("NFD", "café")


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> None:
    make_storage_host(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_has_one_name_in_all_its_forms(people: People, name: str, browser_of: Any) -> None:
    api, apart = api_client(people.member), unicodedata.normalize("NFD", name)
    assert api.post("/api/v1/folders/", {"name": apart}).json()["name"] == unicodedata.normalize("NFC", name)
    assert api.post("/api/v1/folders/", {"name": name}).status_code == 409
    folder = VFolder.objects.get(name=apart)
    assert folder == VFolder.objects.get(name=name)

    browser: Client = browser_of(people.member)
    for typed in (name, apart):
        assert api.get("/api/v1/folders/", {"name": typed}).json()["count"] == 1
        for address in ("/search/", "/data/"):
            assert str(folder.pk) in browser.get(address, {"q": typed}).content.decode()


@pytest.mark.parametrize("name", NAMES)
def test_a_session_has_one_name_in_all_its_forms(name: str) -> None:
    place = make_place()
    api, apart = api_client(place.owner), unicodedata.normalize("NFD", name)
    made = api.post("/api/v1/sessions/", place.request(name=apart))
    assert made.json()["name"] == unicodedata.normalize("NFC", name)
    assert api.post("/api/v1/sessions/", place.request(name=name)).status_code == 409
    assert api.get("/api/v1/sessions/", {"name": apart}).json()["count"] == 1


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("session-templates/", {"body": {"image": "python", "resources": {"cpu": 1, "mem": "1g"}}}),
        ("presets/", {"sharing": "own", "resources": {"cpu": 1, "mem": "1g"}}),
    ],
)
def test_what_people_keep_under_a_name_has_one(people: People, address: str, body: dict[str, Any]) -> None:
    api = api_client(people.member)
    first = api.post(f"/api/v1/{address}", {"name": APART, **body})
    assert (first.status_code, first.json().get("name")) == (201, CAFE), first.json()
    assert api.post(f"/api/v1/{address}", {"name": CAFE, **body}).status_code == 409


def test_titles_are_shown_as_they_are_kept(people: People) -> None:
    made = create_project(actor=SYSTEM, domain=people.domain, name="vision", title=APART)
    assert made.title == CAFE
    assert Project.objects.filter(title=APART).exists()
    with pytest.raises(InvalidInput, match="do not show"):
        create_project(actor=SYSTEM, domain=people.domain, name="other", title="a\u202eb")


def test_a_file_is_found_by_a_name_in_another_form(people: People) -> None:
    folder, api = make_folder(people.member), api_client(people.member)
    root, files = Path(mount_source(folder)), f"/api/v1/folders/{folder.pk}/files/"
    (root / APART).mkdir()
    (root / APART / APART).write_bytes(b"from a session")
    put = {"content_type": "application/octet-stream"}

    assert b"".join(api.get(f"{files}{CAFE}/{CAFE}")) == b"from a session"
    assert api.put(f"{files}{CAFE}/{CAFE}", b"new", **put).status_code == 200
    assert [(entry.name, entry.read_bytes()) for entry in (root / APART).iterdir()] == [(APART, b"new")]
    api.put(f"{files}new/{APART}", b"x", **put)
    assert [entry.name for entry in (root / "new").iterdir()] == [CAFE]

    (root / APART / CAFE).write_bytes(b"both are there")
    assert b"".join(api.get(f"{files}{CAFE}/{CAFE}")) == b"both are there"


def test_a_file_is_deleted_by_its_exact_name_alone(people: People) -> None:
    folder, api = make_folder(people.member), api_client(people.member)
    root, files = Path(mount_source(folder)), f"/api/v1/folders/{folder.pk}/files/"
    (root / CAFE).write_bytes(b"x")
    (root / APART).write_bytes(b"y")

    assert api.delete(f"{files}{CAFE}").status_code == 204
    again = api.delete(f"{files}{CAFE}")
    assert (again.status_code, "looks the same" in again.json()["hint"]) == (404, True)
    assert [entry.name for entry in root.iterdir()] == [APART]
    (root / "d" / APART).mkdir(parents=True)
    (root / "d" / APART / "a").write_bytes(b"z")
    assert api.delete(f"{files}d/{CAFE}/a").status_code == 404
    assert "hint" in api.delete(f"{files}absent").json()
    assert api.delete(f"{files}d/{APART}/a").status_code == 204
    assert api.delete(f"{files}{APART}").status_code == 204


def test_a_new_name_is_looked_for_without_reading_the_directory(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, api = make_folder(people.member), api_client(people.member)
    monkeypatch.setattr(FolderFiles, "list_directory", None)
    put = {"content_type": "application/octet-stream"}
    long = "\u0958" * 60  # 180 bytes that form C makes 360 of
    for name in (*NAMES, APART):
        assert api.put(f"/api/v1/folders/{folder.pk}/files/{name}", b"x", **put).status_code == 200
    assert api.get(f"/api/v1/folders/{folder.pk}/files/{long}").status_code == 404
    assert api.put(f"/api/v1/folders/{folder.pk}/files/{long}", b"x", **put).status_code == 400


def test_a_new_file_has_no_hidden_characters_and_an_old_one_may(people: People) -> None:
    folder, api = make_folder(people.member), api_client(people.member)
    root, files = Path(mount_source(folder)), f"/api/v1/folders/{folder.pk}/files/"
    (root / "a\u202eb").write_bytes(b"x")

    refused = api.put(f"{files}c\u202ed", b"x", content_type="application/octet-stream")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["path"])
    assert api.get(f"{files}a\u202eb").status_code == 200
    assert api.delete(f"{files}a\u202eb").status_code == 204
