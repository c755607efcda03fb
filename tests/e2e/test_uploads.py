"""People upload large files and whole directories in the page of a folder, also over a bad connection."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.e2e.wire import wire_to
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

LARGE_BYTES = 100 * 2**20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "model.bin"
    piece = os.urandom(2**20)
    with path.open("wb") as file:
        for number in range(LARGE_BYTES // 2**20):
            file.write(number.to_bytes(4, "big") + piece[4:])
    return path


def choose(page: Page, *paths: Path) -> None:
    page.get_by_label("Upload files").set_input_files([str(path) for path in paths])


def row_of(page: Page, name: str) -> Locator:
    return page.locator("[data-upload-list] li").filter(has_text=name)


def wait_for_a_part(page: Page, name: str) -> None:
    """Wait until some of the file has been sent."""
    bar = row_of(page, name).locator("progress")
    wait_until(lambda: float(bar.evaluate("each => each.value")) > 0.02, interval_s=0.02)


def test_a_large_file_survives_a_cut_a_pause_and_a_reload(
    portal: RunningPortal, browse: Browse, user: Person, large: Path
) -> None:
    folder = user.make_folder("large")
    with wire_to(portal.port) as wire:
        page = browse(user, base_url=wire.url)
        page.goto(f"/data/{folder}/")
        choose(page, large)
        wait_for_a_part(page, "model.bin")
        wire.cut()
        wire.mend()
        row = row_of(page, "model.bin")
        row.get_by_role("button", name="Pause").click()
        expect(row).to_contain_text("paused")

        page.once("dialog", lambda dialog: dialog.accept())
        page.reload()
        expect(row).to_contain_text("interrupted; choose the same file again to go on")
        choose(page, large)
        expect(row).to_contain_text("done")
    assert user.read_file(folder, "model.bin") == large.read_bytes()


def test_many_files_of_a_directory_arrive_and_taken_names_are_asked_about(
    browse: Browse, user: Person, tmp_path: Path
) -> None:
    folder = user.make_folder("many")
    for number in range(600):
        place = tmp_path / "set" / f"d{number % 7}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.txt").write_text(str(number))
    user.put_file(folder, "notes.txt", "old")
    page = browse(user)
    page.goto(f"/data/{folder}/")
    page.locator("[data-uploads], .drop-zone").first.locator("input[webkitdirectory]").set_input_files(
        str(tmp_path / "set")
    )
    expect(
        page.locator("[data-upload-list] li").filter(has_text=re.compile("small files.*done"))
    ).to_have_count(3)
    assert user.read_file(folder, "set/d4/599.txt") == b"599"

    notes = tmp_path / "notes.txt"
    notes.write_text("new")
    choose(page, notes)
    row = row_of(page, "notes.txt")
    expect(row).to_contain_text("name taken")
    row.get_by_role("button", name="Keep both").click()
    expect(row).to_contain_text("done")
    assert user.read_file(folder, "notes.txt") == b"old"
    assert user.read_file(folder, "notes (2).txt") == b"new"
