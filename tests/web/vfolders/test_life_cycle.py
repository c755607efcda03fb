"""Pages of a folder's life: drawer, trash with undo, tabs."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client

from accounts.models import User
from tests.conftest import People
from tests.factories_folders import make_folder, make_storage_host
from vfolders import clones
from vfolders.core.states import FolderState
from vfolders.models import VFolder
from vfolders.ports import FolderUse, folder_deletion_guards

BrowserOf = Callable[[User], Client]
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> None:
    make_storage_host(tmp_path)


@pytest.fixture
def browser(people: People, browser_of: BrowserOf) -> Client:
    return browser_of(people.member)


@pytest.fixture
def folder(people: People) -> VFolder:
    return make_folder(people.member, name="data")


@pytest.fixture
def is_mounted() -> Iterator[None]:
    with folder_deletion_guards.replaced(lambda folder_id: [FolderUse("7", "night", "/sessions/7/")]):
        yield


def counts(browser: Client, tab: str = "mine") -> dict[str, str]:
    page = browser.get(f"/data/?tab={tab}").content.decode()
    return dict(re.findall(r'id="tab-(\w+)-count">(\d+)<', page))


def test_a_folder_goes_to_the_trash_and_back(browser: Client, folder: VFolder) -> None:
    answer = browser.post(f"/data/{folder.pk}/trash/", follow=True).content.decode()
    assert "“data” is in the trash, removed for ever in 7 days." in answer
    assert f"/data/{folder.pk}/restore/" in answer  # of the toast
    assert counts(browser) == {"mine": "0", "shared": "0", "trash": "1"}
    page = browser.get("/data/?tab=trash").content.decode()
    assert "still counts against limits" in page
    assert "removed for ever in 7 days" in page

    browser.post(f"/data/{folder.pk}/restore/", follow=True)
    assert counts(browser)["mine"] == "1"


def test_a_mounted_folder_stays_and_the_page_links_to_its_sessions(
    browser: Client, folder: VFolder, is_mounted: None
) -> None:
    answer = browser.post(f"/data/{folder.pk}/trash/")
    assert answer.status_code == 422
    assert '<a href="/sessions/7/">night</a>' in answer.content.decode()

    many = browser.post("/data/trash/", {"folder": [str(folder.pk)]}).content.decode()
    assert "0 of 1 in the trash" in many
    assert f"/data/{folder.pk}/life/" in many


def test_many_folders_are_moved_restored_and_removed(
    browser: Client, people: People, folder: VFolder
) -> None:
    ids = [str(folder.pk), str(make_folder(people.member, name="more").pk)]
    browser.post("/data/trash/", {"folder": ids})
    assert counts(browser)["trash"] == "2"
    browser.post("/data/restore/", {"folder": ids})
    assert counts(browser) == {"mine": "2", "shared": "0", "trash": "0"}

    browser.post("/data/trash/", {"folder": ids})
    asked = browser.post("/data/purge/", {"folder": ids}).content.decode()
    assert "delete 2" in asked
    assert browser.post("/data/purge/", {"folder": ids, "confirm": "delete"}).status_code == 422
    done = browser.post("/data/purge/", {"folder": ids, "confirm": "delete 2"}).content.decode()
    assert "2 of 2 removed for ever" in done
    assert not VFolder.objects.exclude(state=FolderState.DELETING.value).exists()


def test_the_drawer_renames_clones_and_keeps_what_was_refused(
    browser: Client, people: People, folder: VFolder
) -> None:
    make_folder(people.member, name="taken")
    drawer = browser.get(f"/data/{folder.pk}/life/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in drawer

    refused = browser.post(f"/data/{folder.pk}/rename/", {"name": "taken"})
    assert refused.status_code == 422
    assert "already" in refused.content.decode()
    browser.post(f"/data/{folder.pk}/rename/", {"name": "better"})
    browser.post(f"/data/{folder.pk}/mode/", {"mode": "model"})
    page = browser.post(
        f"/data/{folder.pk}/clone/", {"name": "copy", "project": "-"}, follow=True
    ).content.decode()
    assert ">Models<" in page
    assert "0 B of 0 B, 0 files" in page

    clone = VFolder.objects.get(name="copy")
    clones.run_clone(clone.pk)
    clone.refresh_from_db()
    assert (clone.state, clone.mode) == (FolderState.READY, "model")


def test_a_taken_name_is_said_at_the_restore_form(browser: Client, people: People, folder: VFolder) -> None:
    browser.post(f"/data/{folder.pk}/trash/")
    make_folder(people.member, name="data")

    refused = browser.post(f"/data/{folder.pk}/restore/")
    assert refused.status_code == 422
    assert "Choose another name" in refused.content.decode()
    browser.post(f"/data/{folder.pk}/restore/", {"name": "old"})
    assert VFolder.objects.get(pk=folder.pk).name == "old"


def test_folders_are_filtered_by_what_they_are_for(browser: Client, folder: VFolder) -> None:
    browser.post("/data/", {"name": ".cache", "project": "-", "mode": "auto_mount"})
    page = browser.get("/data/?mode=auto_mount").content.decode()
    assert ".cache" in page
    assert f"/data/{folder.pk}/" not in page
