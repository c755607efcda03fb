"""The whole way with an authenticator app and with a passkey, in a browser."""

import secrets
import time

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import sign_in
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]
REFUSED = "This code is not right"
PERIOD_S = 30


@pytest.fixture
def newcomer(portal: RunningPortal) -> Person:
    """Somebody whose second factors are in nobody's way."""
    return portal.person("superadmin").add_person(f"factor-{secrets.token_hex(3)}@berth.example")


def test_an_app_is_set_up_and_opens_with_its_code_and_with_a_recovery_code(
    browse: Browse, newcomer: Person
) -> None:
    page = browse()
    page.goto("/profile/security/")
    sign_in(page, newcomer)
    page.get_by_role("link", name="Set up an app").click()
    confirm_password(page, newcomer)
    secret = page.locator("#totp-secret").inner_text().strip()
    give_code(page, "000000", "Switch it on")
    expect(page.get_by_text(REFUSED)).to_be_visible()
    give_code_of(page, secret, "Switch it on")
    recovery = page.locator("#recovery-codes").inner_text().split()

    sign_out(page)
    sign_in(page, newcomer)
    give_code(page, "000000", "Sign in")
    expect(page.get_by_text(REFUSED)).to_be_visible()
    give_code_of(page, secret, "Sign in")
    expect(page.get_by_role("heading", name="Security")).to_be_visible()

    sign_out(page)
    sign_in(page, newcomer)
    give_code(page, recovery[0], "Sign in")
    expect(page.get_by_text(f"{len(recovery) - 1} left")).to_be_visible()


def test_a_passkey_signs_in_alone(browse: Browse, newcomer: Person) -> None:
    page = browse()
    add_authenticator(page)
    page.goto("/profile/security/")
    sign_in(page, newcomer)
    page.get_by_role("link", name="New passkey").click()
    confirm_password(page, newcomer)
    page.get_by_role("textbox", name="Name").fill("Blue key")
    page.get_by_role("button", name="Create the passkey").click()
    expect(page.locator("#recovery-codes")).to_be_visible()
    page.goto("/profile/security/")
    expect(page.get_by_role("row", name="Blue key")).to_contain_text("without the password")

    sign_out(page)
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", name="Security")).to_be_visible()


def confirm_password(page: Page, person: Person) -> None:
    """Before something about the account changes."""
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Go on").click()


def add_authenticator(page: Page) -> None:
    """A device that keeps passkeys, and says yes whenever it is asked."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def give_code_of(page: Page, secret: str, button: str) -> None:
    """What an authenticator app shows; once more where the half minute of the code ended on the way."""
    for _attempt in range(3):
        give_code(page, format_hotp_value(hotp_value(secret, int(time.time()) // PERIOD_S)), button)
        if not page.get_by_text(REFUSED).is_visible():
            return


def give_code(page: Page, code: str, button: str) -> None:
    page.get_by_role("textbox", name="Code").fill(code)
    with page.expect_navigation():
        page.get_by_role("button", name=button, exact=True).click()


def sign_out(page: Page) -> None:
    """And back to the sign-in page, which leads to the security page."""
    page.goto("/account/logout/")
    with page.expect_navigation():
        page.get_by_role("main").get_by_role("button", name="Sign out").click()
    page.goto("/profile/security/")
