"""The page Data and the file browser, without scripts."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from accounts.models import User
from accounts.tenancy.service import add_member
from common.actors import SYSTEM
from tests.conftest import People
from tests.factories import actor_for, make_project
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from vfolders import usage
from vfolders.files import service
from vfolders.models import StorageHost, VFolder
from vfolders.selectors import mount_source, visible_folders

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]
BrowserOf = Callable[[User], Client]


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


@pytest.fixture
def browser(people: People, browser_of: BrowserOf) -> Client:
    return browser_of(people.member)


def names_of(browser: Client, query: str = "") -> list[str]:
    page = browser.get(f"/data/{query}").content.decode()
    return re.findall(r'class="row-name"[^>]*><svg.*?</svg> ([^<]+)<', page)


@pytest.fixture
def folder(people: People) -> VFolder:
    return make_folder(people.member, name="data")


def write(people: People, folder: VFolder, path: str, content: bytes = b"x") -> None:
    service.write_file(actor=actor_for(people.member), folder_id=folder.pk, path=path, chunks=[content])


def test_without_folders_the_page_says_what_to_do(browser: Client) -> None:
    page = browser.get("/data/")

    assert page.status_code == 200
    assert "No folder yet" in page.content.decode()


def test_the_chosen_project_narrows_the_list_to_its_folders_and_those_of_people(
    people: People, browser: Client
) -> None:
    other = make_project(people.domain)
    add_member(actor=SYSTEM, project=other, user=people.member)
    make_folder(people.member, name="mine")
    make_folder(people.member, name="ours", project=people.project)
    make_folder(people.member, name="theirs", project=other)
    browser.post("/project/", {"project": people.project.name})

    assert names_of(browser) == ["mine", "ours"]
    assert names_of(browser, "?project=*") == ["mine", "ours", "theirs"]
    assert names_of(browser, "?project=-") == ["mine"]


def test_a_folder_is_made_with_the_form(browser: Client, people: People) -> None:
    answer = browser.post("/data/", {"name": "data", "project": people.project.name}, follow=True)

    assert "is ready" in answer.content.decode()
    assert visible_folders(actor_for(people.member)).get().project == people.project


def test_a_refused_form_keeps_what_was_typed_and_says_why(browser: Client, folder: VFolder) -> None:
    for name, words in (("data", "already"), ("a b", "Use letters")):
        answer = browser.post("/data/", {"name": name, "project": "-"})

        assert answer.status_code == 422
        assert words in answer.content.decode()
        assert f'value="{name}"' in answer.content.decode()


def test_the_browser_lists_directories_files_and_the_way_back(
    browser: Client, people: People, folder: VFolder
) -> None:
    write(people, folder, "a/b/c & d?.txt", b"x" * 2048)

    page = browser.get(f"/data/{folder.pk}/?path=a/b").content.decode()

    assert "c &amp; d?.txt" in page
    assert "2 KiB" in page
    assert f'href="/data/{folder.pk}/?path=a"' in page
    assert f"/data/{folder.pk}/file/?path=a%2Fb%2Fc+%26+d%3F.txt" in page
    assert f'data-upload-url="/api/v1/folders/{folder.pk}/files/a/b/"' in page


def test_the_fragment_is_the_list_alone(browser: Client, folder: VFolder) -> None:
    fragment = browser.get(f"/data/{folder.pk}/", headers={"HX-Request": "true"}).content.decode()

    assert "Nothing here yet" in fragment
    assert "<html" not in fragment


def test_files_are_uploaded_downloaded_and_deleted_without_scripts(
    browser: Client, people: People, folder: VFolder
) -> None:
    sent = [SimpleUploadedFile("one.txt", b"1"), SimpleUploadedFile("../../two.html", b"<script>")]

    browser.post(f"/data/{folder.pk}/upload/?path=in", {"chosen": sent})
    down = browser.get(f"/data/{folder.pk}/download/?path=in/two.html")

    assert b"".join(down) == b"<script>"
    assert down["Content-Disposition"] == 'attachment; filename="two.html"'
    assert "sandbox" in down["Content-Security-Policy"]
    assert (
        "Delete “one.txt”?"
        in browser.get(f"/data/{folder.pk}/delete-entry/?path=in/one.txt").content.decode()
    )
    browser.post(f"/data/{folder.pk}/delete-entry/?path=in/one.txt")
    assert sorted(path.name for path in Path(mount_source(folder), "in").iterdir()) == ["two.html"]


@pytest.mark.parametrize("name", ["new\nline", "end\n", "tab\tab", "-rf", "'\"\\", "x" * 255])
def test_whatever_a_session_calls_a_file_can_be_opened_and_deleted(
    browser: Client, folder: VFolder, name: str
) -> None:
    place = Path(mount_source(folder))
    (place / name).mkdir()
    (place / name / name).write_bytes(b"1")
    page = browser.get(f"/data/{folder.pk}/").content.decode()
    inner = browser.get(unescape(re.findall(r'href="([^"]+\?path=[^"]+)"', page)[0])).content.decode()
    shown, gone = (
        unescape(re.search(rf'href="([^"]+/{what}/\?path=[^"]+)"', inner)[1])  # type: ignore[index]
        for what in ("file", "delete-entry")
    )
    preview = browser.get(shown).content.decode()
    down = unescape(re.search(r'href="([^"]+/download/\?path=[^"]+)"', preview)[1])  # type: ignore[index]

    assert b"".join(browser.get(down)) == b"1"
    browser.post(
        f"/data/{folder.pk}/upload/?{urlencode({'path': name})}", {"chosen": [SimpleUploadedFile("b", b"2")]}
    )
    assert browser.get(gone).status_code == 200
    assert browser.post(gone).status_code == 302
    assert [path.name for path in (place / name).iterdir()] == ["b"]


def test_a_directory_is_made_and_a_wrong_name_is_said(browser: Client, folder: VFolder) -> None:
    url = f"/data/{folder.pk}/directories/"

    browser.post(url, {"name": "images"})
    refused = browser.post(f"{url}?path=images", {"name": "../x"}, follow=True).content.decode()

    assert [path.name for path in Path(mount_source(folder)).rglob("*")] == ["images"]
    assert "must not contain" in refused


@pytest.mark.parametrize("path", ["..", "/etc", "a/../..", "a\0b", "../" * 3 + "etc/passwd"])
def test_no_path_in_the_address_leaves_the_folder(browser: Client, folder: VFolder, path: str) -> None:
    for page in ("", "download/", "delete-entry/"):
        assert browser.get(f"/data/{folder.pk}/{page}?path={quote(path)}").status_code == 400


def test_names_of_files_are_text_and_not_html(browser: Client, people: People, folder: VFolder) -> None:
    write(people, folder, "<img src=x onerror=alert(1)>")

    assert "<img" not in browser.get(f"/data/{folder.pk}/").content.decode()


def test_ten_thousand_files_are_shown_in_pages(browser: Client, folder: VFolder) -> None:
    directory = Path(mount_source(folder))
    for number in range(10_001):
        (directory / f"{number:05}").touch()

    page = browser.get(f"/data/{folder.pk}/?page=2").content.decode()

    assert "201–400 of 10000 entries" in page.replace("10,000", "10000")
    assert "more entries than are shown" in page


def test_pages_of_other_people_do_not_exist(browser_of: BrowserOf, people: People, folder: VFolder) -> None:
    for person in (people.stranger, people.outsider, people.project_admin):
        other = browser_of(person)
        assert other.get(f"/data/{folder.pk}/").status_code == 404
        assert other.post(f"/data/{folder.pk}/trash/").status_code == 404
    assert Client().get("/data/").status_code == 302


def test_an_administrator_finds_the_folders_of_the_domain(
    browser_of: BrowserOf, people: People, folder: VFolder
) -> None:
    admin = browser_of(people.domain_admin)

    assert "No folder yet" in admin.get("/data/").content.decode()
    assert people.member.email in admin.get("/data/?tab=all").content.decode()


def test_sizes_stand_in_the_list_and_at_the_folder_and_an_upload_above_the_limit_says_so(
    browser: Client, people: People, folder: VFolder
) -> None:
    assert (
        "Uploads: 0 B. What sessions write shows at the first count"
        in browser.get(f"/data/{folder.pk}/").content.decode()
    )
    write(people, folder, "a", b"x" * 3072)
    usage.measure_due_folders(folder.host_id)
    assert "3 KiB" in browser.get("/data/?sort=-size").content.decode()
    exported = b"".join(browser.get("/data/export/")).decode()
    assert "size_bytes,measured_at" in exported
    assert ",3072," in exported

    limit(people.member, max_folder_bytes=2048)
    page = browser.get(f"/data/{folder.pk}/").content.decode()
    assert "Your account uses 3 KiB for folders, 1 KiB more than its limit of 2 KiB." in page
    assert "Holds 3 KiB, counted" in page
    file = SimpleUploadedFile("b", b"y" * 2048)
    refused = browser.post(f"/data/{folder.pk}/upload/", {"chosen": file}, follow=True).content.decode()
    assert "1 KiB more than its limit" in refused
    assert "Delete files of these folders" in refused

    VFolder.objects.filter(pk=folder.pk).update(is_size_whole=False)
    assert "more than 3 KiB" in browser.get("/data/").content.decode()
