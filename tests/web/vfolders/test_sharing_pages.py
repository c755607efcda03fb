"""Pages of sharing: drawer, invitations, public links."""

import io
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client

from accounts.models import User
from common import clock
from tests.conftest import People
from tests.factories import actor_for
from tests.factories_folders import make_folder, make_share, make_storage_host
from vfolders.core.permissions import Right
from vfolders.files import service as files
from vfolders.models import FolderLink, FolderShare
from vfolders.selectors import visible_folders

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

BrowserOf = Callable[[User], Client]


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> None:
    make_storage_host(tmp_path)


def test_a_person_is_invited_accepts_and_leaves_in_pages(people: People, browser_of: BrowserOf) -> None:
    folder = make_folder(people.member, name="data")
    owner = browser_of(people.member)
    url = f"/data/{folder.pk}/sharing/"
    assert f'href="{url}" data-drawer="sharing"' in owner.get(f"/data/{folder.pk}/").text

    answer = owner.post(url, {"person": people.outsider.email, "right": "write", "in_drawer": "1"})
    assert answer.headers["Location"] == f"/data/{folder.pk}/?open=sharing"
    assert "Invited (Read and write)" in owner.get(url, headers={"HX-Request": "true"}).text
    invited = browser_of(people.outsider)
    assert "invites you to the folder" in invited.get("/data/").text
    share = FolderShare.objects.get()
    answer = invited.post(f"/data/invitations/{share.pk}/")
    assert answer.headers["Location"] == f"/data/{folder.pk}/"
    assert "Leave folder" in invited.get(f"/data/{folder.pk}/").text
    owner.post(f"{url}{share.pk}/", {"right": "read"})
    share.refresh_from_db()
    assert share.right == Right.READ
    invited.post(f"/data/{folder.pk}/leave/")
    assert not visible_folders(actor_for(people.outsider)).exists()


def test_what_is_wrong_is_marked_at_its_field(people: People, browser_of: BrowserOf) -> None:
    folder = make_folder(people.member)
    browser = browser_of(people.member)

    answer = browser.post(f"/data/{folder.pk}/sharing/", {"person": people.stranger.email, "right": "read"})
    assert answer.status_code == 422
    assert answer.context["share_form"].errors["person"]
    answer = browser.post(f"/data/{folder.pk}/sharing/links/", {"path": "absent", "days": "3"})
    assert answer.status_code == 422


def test_a_public_link_downloads_a_file_without_signing_in(people: People, browser_of: BrowserOf) -> None:
    folder = make_folder(people.member, name="data")
    actor = actor_for(people.member)
    files.write_file(actor=actor, folder_id=folder.pk, path="in/<b>.html", chunks=[b"<script>"])
    owner, visitor = browser_of(people.member), Client()
    links = f"/data/{folder.pk}/sharing/links/"
    body = {"path": "in/<b>.html", "days": "1", "max_downloads": "2"}
    url = owner.post(links, body).context["new_link"]["url"].removeprefix("http://localhost:8080")

    page = visitor.get(url)
    assert "&lt;b&gt;.html" in page.text
    assert page.headers["X-Robots-Tag"] == "noindex"
    answer = visitor.get(f"{url}download/")
    assert b"".join(answer) == b"<script>"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert visitor.head(f"{url}download/").status_code == 200
    assert visitor.get(f"{url}download/").status_code == 200
    assert visitor.get(f"{url}download/").status_code == 409
    assert FolderLink.objects.get().downloads == 2


def test_a_link_to_a_directory_sends_an_archive(people: People, browser_of: BrowserOf) -> None:
    folder = make_folder(people.member, name="data")
    files.write_file(actor=actor_for(people.member), folder_id=folder.pk, path="in/a", chunks=[b"x"])
    body = {"path": "in", "days": "1"}
    answer = browser_of(people.member).post(f"/data/{folder.pk}/sharing/links/", body)
    url = answer.context["new_link"]["url"].removeprefix("http://localhost:8080")

    assert "ZIP" in Client().get(url).text
    packed = io.BytesIO(b"".join(Client().get(f"{url}download/")))
    assert zipfile.ZipFile(packed).read("in/a") == b"x"


def test_a_link_that_ended_says_so(people: People, browser_of: BrowserOf, settings: object) -> None:
    folder = make_folder(people.member, name="data")
    files.write_file(actor=actor_for(people.member), folder_id=folder.pk, path="a", chunks=[b"x"])
    owner, visitor = browser_of(people.member), Client()
    links = f"/data/{folder.pk}/sharing/links/"
    answer = owner.post(links, {"path": "a", "days": "1"})
    url = answer.context["new_link"]["url"].removeprefix("http://localhost:8080")
    link = FolderLink.objects.get()

    with clock.frozen_at(clock.now() + timedelta(days=1)):
        assert "expired" in visitor.get(url).text
    settings.BERTH_PUBLIC_LINKS = False  # type: ignore[attr-defined]
    assert visitor.get(url).status_code == 404
    assert "switched off" in owner.post(links, {"path": "a", "days": "1"}).text
    settings.BERTH_PUBLIC_LINKS = True  # type: ignore[attr-defined]
    people.member.is_active = False
    people.member.save()
    assert visitor.get(url).status_code == 404
    people.member.is_active = True
    people.member.save()
    assert visitor.get(url).status_code == 200
    browser_of(people.member).post(f"{links}{link.pk}/")
    assert visitor.get(url).status_code == 404
    assert visitor.get("/links/unknown/").status_code == 404


def test_who_is_given_a_folder_sees_no_drawer(people: People, browser_of: BrowserOf) -> None:
    folder = make_folder(people.member)
    make_share(folder, people.outsider, right=Right.DELETE)
    browser = browser_of(people.outsider)

    assert 'data-drawer="sharing"' not in browser.get(f"/data/{folder.pk}/").text
    assert browser.get(f"/data/{folder.pk}/sharing/").status_code == 403
