"""A person renames, clones, trashes and restores folders in the page Data."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(400)]


def test_folders_are_renamed_cloned_trashed_and_restored(browse: Browse, user: Person) -> None:
    user.make_folder("raw")
    page = browse(user)
    page.goto("/data/")
    page.get_by_label("Rename, clone or remove raw").click()
    drawer = page.get_by_role("dialog")
    expect(drawer).to_contain_text("Sessions that run keep the path")
    expect(page).to_have_url(re.compile(r"\?open=folder-"))
    page.reload()
    drawer.get_by_label("Name").first.fill("images")
    drawer.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("link", name="images", exact=True)).to_be_visible()

    page.get_by_label("Rename, clone or remove images").click()
    drawer.get_by_role("button", name="Clone").click()
    expect(page.get_by_role("link", name="images-copy", exact=True)).to_be_visible(timeout=30_000)

    page.get_by_label("Rename, clone or remove images-copy").click()
    drawer.get_by_role("button", name="Move to the trash").click()
    expect(page.get_by_text("is in the trash, removed for ever in 7 days")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("link", name="images-copy", exact=True)).to_be_visible()

    for name in ("images", "images-copy"):
        page.get_by_label(f"Choose {name}", exact=True).check()
    page.get_by_role("button", name="Move to the trash").click()
    page.get_by_role("link", name="Trash").click()
    expect(page.get_by_text("still count against limits")).to_be_visible()
    page.get_by_label("Rename, clone or remove images-copy").click()
    expect(drawer).to_contain_text("This cannot be undone.")
    drawer.get_by_label("Type images-copy to go on").fill("images-copy")
    drawer.get_by_role("button", name="Remove for ever").click()
    page.get_by_label("Choose images", exact=True).check()
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("1 folder is back.")).to_be_visible()
