"""Sign-up by invitation and by an identity provider, in a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.doubles.identity_provider import IdentityProvider
from tests.e2e.conftest import Browse
from tests.e2e.pages import expect_status
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]
PASSWORD = "a quiet harbour at dusk"


def test_invited_user_signs_up_and_starts_a_session(
    browse: Browse, portal: RunningPortal, domain_admin: Person
) -> None:
    operator = browse(portal.person("superadmin"))
    operator.goto("/domains/")
    operator.get_by_role("row").filter(has_text="default").get_by_role("link").first.click()
    sign_up = operator.locator("#sign-up")
    sign_up.get_by_role("combobox").select_option("invitation")
    sign_up.get_by_role("button").click()

    admin = browse(domain_admin)
    admin.goto("/people/invitations/")
    admin.get_by_role("listbox", name="Projects").select_option("demo")
    admin.get_by_role("button", name="Create the invitation").click()
    link = admin.locator("#invitation-link").inner_text().strip()

    person = browse()
    person.goto(link)
    expect(person.get_by_text("Your project: demo.")).to_be_visible()
    person.get_by_label("E-mail").fill("grace@berth.example")
    person.get_by_label("Name").fill("Grace")
    person.get_by_label("Password").fill(PASSWORD)
    person.get_by_role("button", name="Create my account").click()
    person.goto("/sessions/new/")
    person.get_by_role("button", name="Launch").click()
    expect_status(person, "Running")

    other = browse()
    other.goto(link)
    expect(other.get_by_text("was used")).to_be_visible()


def test_user_of_a_provider_gets_an_account_and_returns_to_it(
    browse: Browse, identity_provider: IdentityProvider
) -> None:
    identity_provider.person = {
        "sub": "7",
        "email": "ada@harbour.example",
        "email_verified": True,
        "name": "Ada of the Harbour",
    }
    for _visit in range(2):
        page = browse()
        page.goto("/profile/")
        come_in(page)
        expect(page.get_by_role("heading", name="Profile")).to_be_visible()
        you = page.get_by_role("region", name="You", exact=True)
        expect(you).to_contain_text("ada@harbour.example")
        expect(you).to_contain_text("Ada of the Harbour")
        expect(you).to_contain_text("Demo")


def come_in(page: Page) -> None:
    """By the provider, from the sign-in page, which must be shown, and back to where that was going to lead."""
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_role("button", name="Sign in by Harbour ID").click()
