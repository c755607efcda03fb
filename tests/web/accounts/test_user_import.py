"""Import of users on pages and over REST."""

from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from accounts.models import PeopleImport, User
from tests.conftest import People
from tests.factories import api_client

pytestmark = pytest.mark.django_db

BrowserOf = Callable[[User], Client]
FILE = "email,name\nnew@berth.example,=cmd()\nbad,\n"


def upload(browser: Client, content: bytes) -> object:
    return browser.post("/people/import/", {"file": SimpleUploadedFile("people.csv", content)})


def test_a_file_is_checked_taken_in_and_reported(
    people: People, browser_of: BrowserOf, django_capture_on_commit_callbacks: object
) -> None:
    browser = browser_of(people.domain_admin)
    assert "/people/import/" in browser.get("/people/").content.decode()
    assert browser.get("/people/import/template.csv").content.startswith(b"\xef\xbb\xbfemail,name,role")
    answer = upload(browser, FILE.encode())
    page = browser.get(answer["Location"]).content.decode()  # type: ignore[index]
    assert "Import 1 good row" in page
    assert "Nobody is changed yet" in page
    address = answer["Location"]  # type: ignore[index]
    after = browser.post(f"{address}start/", follow=True).content.decode()
    assert "What came of each row." in after
    assert User.objects.filter(email="new@berth.example").exists()
    assert "1 good row" not in after
    report = browser.get(f"{address}report.csv").content.decode()
    assert "'=cmd()" in report
    assert "refused" in report
    links = browser.post(f"{address}links.csv").content.decode()
    assert "new@berth.example,http" in links
    assert "bad" in browser.get(f"{address}?outcome=refused").content.decode()
    assert "No such row" in browser.get(f"{address}?outcome=unchanged").content.decode()
    assert "taken in" in browser.get("/people/import/").content.decode()


def test_a_file_that_cannot_be_read_says_why_at_the_field(people: People, browser_of: BrowserOf) -> None:
    browser = browser_of(people.superadmin)
    answer = upload(browser, "email,name\na@b.example,André\n".encode("latin-1"))
    assert answer.status_code == 422  # type: ignore[attr-defined]
    assert "is not UTF-8" in answer.content.decode()  # type: ignore[attr-defined]
    assert browser.post("/people/import/", {}).status_code == 422
    assert not PeopleImport.objects.exists()


def test_programs_check_start_and_read_an_import(people: People) -> None:
    api = api_client(people.domain_admin)
    made = api.post("/api/v1/user-imports/", {"content": FILE}, format="json")
    assert made.status_code == 201, made.content
    assert made.json()["counts"] == {"new": 1, "refused": 1}
    assert made.json()["started_at"] is None
    address = f"/api/v1/user-imports/{made.json()['id']}/"
    assert api.post(address).status_code == 202
    assert api.get(address).json()["finished_at"] is not None
    rows = api.get(f"{address}rows/", {"outcome": "new"}).json()["results"]
    assert [(row["number"], row["is_done"]) for row in rows] == [(2, True)]
    at_once = api.post("/api/v1/user-imports/", {"content": FILE, "is_dry_run": False}, format="json").json()
    assert at_once["counts"] == {"unchanged": 1, "refused": 1}
    assert at_once["finished_at"]
