"""The frame by keyboard: search and commands, single keys, notifications beside the page, the way back."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#palette").get_by_role("option").first).to_be_visible()


def test_everything_is_found_by_keyboard(browse: Browse, user: Person) -> None:
    user.make_folder("harbour-charts")
    page = browse(user)
    page.goto("/")
    open_palette(page)
    expect(page.get_by_role("combobox")).to_be_focused()

    page.keyboard.type("harbour")
    found = page.get_by_role("option", name="harbour-charts")
    expect(found).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="harbour-charts")).to_be_visible()


def test_a_session_is_stopped_from_anywhere(browse: Browse, user: Person) -> None:
    session_id = user.start_session(name="unwanted")
    page = browse(user)
    page.goto("/data/")
    open_palette(page)
    page.keyboard.type("stop unwanted")
    stop = page.get_by_role("option", name="Stop “unwanted”")
    expect(stop).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.locator("#palette")).to_be_hidden()

    user.wait_for_status(session_id, "TERMINATED", "CANCELLED")


def test_keys_open_pages_but_never_while_somebody_types(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page).to_have_url(re.compile("/data/$"))

    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    page.get_by_role("checkbox", name="Single keys").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_hidden()

    page.goto("/search/")
    page.get_by_role("searchbox").fill("")
    page.keyboard.type("n?")
    expect(page.get_by_role("searchbox")).to_have_value("n?")


def test_a_notification_comes_by_itself_and_opens_beside_the_page(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/data/")
    expect(page.locator("body")).to_have_attribute("data-live", "open")

    page.get_by_role("link", name="Notifications").click()
    drawer = page.get_by_role("dialog")
    user.start_session(name="told-of", type="batch", command="exit 3")
    expect(drawer.get_by_text("“told-of” failed with exit code 3.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/data/\?open=notifications$"))

    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page.get_by_role("link", name=re.compile(r"Notifications, \d+ unread"))).to_be_visible()
    expect(page).to_have_url(re.compile("/data/$"))


def test_what_was_done_can_be_undone_from_its_toast(browse: Browse, portal_admin: Person) -> None:
    page = browse(portal_admin)
    page.goto("/styleguide/")
    page.get_by_role("button", name="Show one with its way back").click()
    toast = page.locator("#toasts [data-toast]")
    expect(toast).to_contain_text("Session “train” is stopped.")
    toast.hover()
    toast.get_by_role("button", name="Undo").click()

    expect(page.get_by_text("Taken back.")).to_be_visible()


@pytest.fixture
def portal_admin(portal: object) -> Person:
    return portal.person("superadmin")  # type: ignore[attr-defined]
