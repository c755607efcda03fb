"""Pages of one file and of deleted files: what a file may show, and that nothing of it can run."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from accounts.models import User
from tests.conftest import People
from tests.factories import actor_for
from tests.factories_folders import make_folder, make_storage_host
from vfolders.files import service
from vfolders.models import StorageHost, VFolder
from vfolders.selectors import mount_source

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


@pytest.fixture
def folder(people: People) -> VFolder:
    return make_folder(people.member, name="data")


@pytest.fixture
def inside(folder: VFolder) -> Path:
    return Path(mount_source(folder))


@pytest.fixture
def browser(people: People, browser_of: Callable[[User], Client]) -> Client:
    return browser_of(people.member)


def content_of(browser: Client, folder: VFolder, path: str) -> str:
    answer = browser.get(f"/data/{folder.pk}/file/?{urlencode({'path': path})}")
    assert answer.status_code == 200
    return answer.content.decode().partition('id="content"')[2].partition("</main>")[0]


def test_nothing_of_a_file_becomes_a_script_or_a_request_to_elsewhere(
    browser: Client, folder: VFolder, inside: Path, subtests: Any
) -> None:
    links = (
        "[a](javascript:alert) [b](data:text/html,x) [c](//evil.example) [d](../../../x) [e](sub/o.md) "
        "[f](https://ok.example) ![g](https://evil.example/x.png) ![h](pic.png) ![i](data:image/png;base64,AA)"
    )
    output = {"output_type": "display_data", "data": {"text/html": EVIL, "image/svg+xml": EVIL}}
    lying = {"output_type": "display_data", "data": {"image/png": base64.b64encode(EVIL.encode()).decode()}}
    shown = {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode()}}
    cells = [
        {"cell_type": "markdown", "source": [EVIL, links]},
        {"cell_type": "code", "source": EVIL, "outputs": [output, lying, shown, "odd", None]},
        "odd",
    ]
    texts = {
        "a.md": f"# {EVIL}\n\n{links}\n\n```{EVIL}\n{EVIL}\n```",
        "a.csv": f"h,{EVIL}\n{EVIL},2",
        "a.ipynb": json.dumps({"cells": cells, "metadata": {"kernelspec": {"display_name": EVIL}}}),
        "broken.ipynb": json.dumps({"cells": 7}),
        "a.svg": EVIL,
        "a.html": f"</textarea>{EVIL}",
    }
    for name, text in texts.items():
        with subtests.test(name):
            (inside / name).write_text(text)
            page = content_of(browser, folder, name)
            assert "<script>alert" not in page
            assert "<img src=x" not in page
            assert 'href="javascript' not in page
            assert 'src="https' not in page
            assert 'href="//' not in page
    page = content_of(browser, folder, "a.md")
    assert f"/data/{folder.pk}/file/?path=sub%2Fo.md" in page
    assert f"/data/{folder.pk}/image/?path=pic.png" in page
    assert 'href="https://ok.example"' in page
    notebook = content_of(browser, folder, "a.ipynb")
    assert notebook.count('src="data:image/png;base64,') == 1


def test_only_images_are_sent_as_images(browser: Client, folder: VFolder, inside: Path) -> None:
    (inside / "a.txt").write_bytes(PNG)
    (inside / "a.png").write_text(EVIL)

    sent = browser.get(f"/data/{folder.pk}/image/?path=a.txt")

    assert sent["Content-Type"] == "image/png"
    assert sent["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert sent["X-Content-Type-Options"] == "nosniff"
    assert b"".join(sent) == PNG  # type: ignore[arg-type]
    assert browser.get(f"/data/{folder.pk}/image/?path=a.png").status_code == 409


def test_files_that_cannot_be_shown_are_offered_for_download(
    browser: Client, folder: VFolder, inside: Path
) -> None:
    (inside / "a.bin").write_bytes(b"\0\1")
    (inside / "a.pdf").write_bytes(b"%PDF-1.7")
    for name in ("a.bin", "a.pdf"):
        assert "No preview" in content_of(browser, folder, name)
    (inside / "long.md").write_text("# A\n" * 50_001)
    texts = ("one " * 40_000, "two " * 20_000)
    cells = [{"cell_type": "markdown", "source": text} for text in texts]
    (inside / "long.ipynb").write_text(json.dumps({"cells": cells}))
    page = content_of(browser, folder, "long.ipynb")
    assert "one one" in page
    assert "two two" not in page
    assert "# A" in content_of(browser, folder, "long.md"), (
        "as text: a table would take a thousand times as much"
    )


def test_deleted_files_are_listed_and_restored(
    people: People, browser: Client, folder: VFolder, inside: Path
) -> None:
    (inside / "a “b”.txt").write_text("x")
    actor = actor_for(people.member)
    batch = service.trash_entries(actor=actor, folder_id=folder.pk, paths=["a “b”.txt"])
    url = f"/data/{folder.pk}/deleted/"

    assert "a “b”.txt" in browser.get(url).content.decode()
    browser.post(url, {"batch": batch})
    assert (inside / "a “b”.txt").exists()

    service.trash_entries(actor=actor, folder_id=folder.pk, paths=["a “b”.txt"])
    browser.post(f"{url}empty/", {"confirm": "wrong"})
    assert len(service.trashed_entries(actor=actor, folder_id=folder.pk)) == 1
    browser.post(f"{url}empty/", {"confirm": "data"})
    assert service.trashed_entries(actor=actor, folder_id=folder.pk) == []
