"""A form opened before a new sign-in comes back filled in, in a browser."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import sign_in
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]


def test_a_form_of_before_the_sign_in_comes_back_and_is_sent_by_one_more_press(
    browse: Browse, user: Person
) -> None:
    first = browse(java_script_enabled=False)  # with scripts the launcher renews its token by itself
    second = first.context.new_page()
    first.goto("/account/login/?next=/sessions/")
    second.goto("/account/login/?next=/data/")
    sign_in(first, user)
    sign_in(second, user)
    expect(first).to_have_url(re.compile("/sessions/"))
    expect(second).to_have_url(re.compile("/data/"))

    first.goto("/sessions/new/")
    first.get_by_label("Name", exact=True).fill("typed-before")
    second.goto("/account/logout/")
    second.get_by_role("button", name="Sign out").click()
    second.goto("/account/login/")
    sign_in(second, user)
    first.get_by_role("button", name="Launch").click()
    expect(first.get_by_text("Your sign-in changed since this page was opened.")).to_be_visible()
    first.reload()
    expect(first.get_by_label("Name", exact=True)).to_have_value("typed-before")
    first.get_by_role("button", name="Send again").click()

    expect(first).to_have_url(re.compile(r"/sessions/[0-9a-f-]{36}/"))
    expect(first.get_by_role("heading", name="typed-before")).to_be_visible()
