"""The portal under a name below which no app can have a host."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import TerminalPage, sign_in
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(90)]


def test_opened_by_number_the_start_page_says_why_apps_cannot_open_and_terminals_work(
    browse: Browse, portal: RunningPortal, user: Person, shared_session: dict[str, Any]
) -> None:
    page = browse(base_url=f"http://127.0.0.1:{portal.port}")
    page.goto("/")
    sign_in(page, user)

    expect(page.get_by_text("Apps cannot open under this address.")).to_be_visible()
    expect(page.get_by_role("link", name="open this page as localhost")).to_be_visible()
    expect(page.get_by_role("link", name="Open", exact=True)).to_have_count(0)

    page.get_by_role("row", name="shared").get_by_role("link", name="Terminal").click()
    terminal = TerminalPage(page)
    terminal.run("echo $((6 * 7))")
    terminal.expect_line("^42$")


def test_opened_by_its_name_the_start_page_says_nothing_of_it(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/")

    expect(page.get_by_role("heading", name="Start", exact=True)).to_be_visible()
    expect(page.get_by_text("Apps cannot open under this address.")).to_have_count(0)
