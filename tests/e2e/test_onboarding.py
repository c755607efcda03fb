"""A user joins by a link and is off-boarded, by a domain admin alone."""

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import expect_status
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

EMAIL = "ada@berth.example"
SETTLED_MS = 60_000


def test_a_person_joins_by_a_link_works_and_is_off_boarded(browse: Browse, domain_admin: Person) -> None:
    admin = browse(domain_admin)
    admin.goto("/people/")
    admin.get_by_role("link", name="Add a person").click()
    admin.get_by_label("E-mail").fill(EMAIL)
    admin.get_by_label("First project").select_option("demo")
    admin.get_by_role("button", name="Add the person").click()
    link = admin.locator("#sign-in-link").inner_text()

    person = browse()
    person.goto(link)
    person.get_by_role("button", name="Sign in", exact=True).click()
    person.get_by_role("button", name="Start", exact=True).click()
    expect_status(person, "Running")

    admin.get_by_role("link", name="To the person").click()
    admin.get_by_role("link", name="Close the account").click()
    expect(admin.get_by_role("listitem").filter(has_text="session “")).to_have_count(1)
    admin.get_by_label("to go on").fill(EMAIL)
    admin.get_by_role("button", name="Close the account").click()
    expect(admin.get_by_text("Signed out everywhere")).to_be_visible()
    settled = admin.get_by_role("heading", name="Offboarding report")
    while not settled.is_visible():
        admin.get_by_role("link", name="Look again").click(timeout=SETTLED_MS)
    expect(admin.get_by_role("row").filter(has_text="session “")).to_contain_text("Has ended.")
    person.goto("/")
    expect(person.get_by_role("heading", name="Sign in")).to_be_visible()
