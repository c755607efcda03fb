"""A page whose connection is lost says so, asks on, and is told what it missed."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import do_not_reload, has_not_reloaded
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.e2e.wire import wire_to
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

NOTE_NEWS = (
    "name => { window.toldTimes = 0; document.body.addEventListener(name, () => window.toldTimes++); }"
)


def expect_live(page: Page, state: str) -> None:
    expect(page.locator("body")).to_have_attribute("data-live", state)


def test_a_page_is_told_what_it_missed_while_its_connection_was_cut(
    portal: RunningPortal, browse: Browse, user: Person
) -> None:
    session_id = user.start_running_session(name="missed")["id"]
    with wire_to(portal.port) as wire:
        page = browse(user, base_url=wire.url)
        page.goto("/sessions/")
        row = page.get_by_role("row", name="missed")
        expect(row).to_contain_text("Running")
        expect_live(page, "open")
        do_not_reload(page)
        page.evaluate(NOTE_NEWS, f"berth:session-changed:{session_id}")

        wire.cut()
        expect(page.get_by_text("Connection lost, retrying")).to_be_visible()
        page.evaluate("window.toldTimes = 0")  # of how it started it may have been told until now
        user.end_session(session_id)
        assert page.evaluate("window.toldTimes") == 0

        wire.mend()
        # The page may be quicker, and hide the button.
        page.locator("[data-try-now]").dispatch_event("click")
        wait_until(lambda: page.evaluate("window.toldTimes") > 0, interval_s=0.1)
        expect(row).to_have_count(0)
        expect(page.get_by_text("Connection lost, retrying")).to_be_hidden()
        assert has_not_reloaded(page)


def test_a_page_without_a_stream_asks_every_few_seconds(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.route("**/api/v1/events/**", lambda route: route.abort())
    page.goto("/sessions/")
    expect_live(page, "lost")
    do_not_reload(page)

    user.start_session(name="asked-for")

    expect(page.get_by_role("row", name="asked-for")).to_be_visible()
    assert has_not_reloaded(page)
