"""The portal under other addresses than its own name."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import compute, expect_launcher, follow, sign_in
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal, local_url

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]


def test_opened_by_a_plain_address_apps_open_at_ports_and_the_page_says_what_that_weakens(
    browse: Browse, portal: RunningPortal, user: Person, shared_session: dict[str, Any]
) -> None:
    page = browse(base_url=f"http://{local_url()}:{portal.port}")
    page.goto(f"/sessions/{shared_session['id']}/")
    sign_in(page, user)
    expect(page.get_by_text("Under this address, apps are kept apart less well.")).to_be_visible()

    lab = follow(page.get_by_role("link", name="Open JupyterLab"))

    lab.wait_for_url(f"http://{local_url()}:*/lab**")
    expect_launcher(lab)
    assert compute(lab, "6 * 7") == "42"


def test_opened_by_the_number_of_the_own_computer_it_leads_to_localhost(
    browse: Browse, portal: RunningPortal
) -> None:
    page = browse(base_url=f"http://127.0.0.1:{portal.port}")

    page.goto("/sessions/?tab=ended")

    page.wait_for_url(f"http://localhost:{portal.port}/account/login/**")


def test_opened_by_its_name_the_page_of_a_session_says_nothing_of_it(
    browse: Browse, user: Person, shared_session: dict[str, Any]
) -> None:
    page = browse(user)
    page.goto(f"/sessions/{shared_session['id']}/")

    expect(page.get_by_role("link", name="Open JupyterLab")).to_be_visible()
    expect(page.get_by_text("kept apart less well")).to_have_count(0)
