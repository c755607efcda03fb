"""An administrator looks at the portal as one of their people, in two tabs, and stops."""

from contextlib import suppress

import pytest
from playwright.sync_api import Error, expect

from tests.e2e.conftest import Browse
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]


def test_impersonation_by_a_domain_admin_mixes_no_page(
    browse: Browse, domain_admin: Person, user: Person
) -> None:
    admin = browse(domain_admin)
    admin.goto("/people/")
    admin.get_by_role("link", name=user.email).first.click()
    admin.get_by_role("link", name="Impersonate").click()
    admin.get_by_label("Password").fill(domain_admin.password)
    admin.get_by_role("button", name="Go on").click()
    admin.get_by_label("Reason").fill("A question")
    admin.get_by_role("button", name="Impersonate").click()

    banner = admin.get_by_role("complementary", name="Impersonation")
    expect(banner).to_contain_text(f"You are {domain_admin.email}")
    expect(admin.locator("body")).to_have_attribute("data-live", "open")
    admin.get_by_label("Name").fill("mine")
    admin.get_by_role("button", name="Create").click()
    expect(admin.get_by_text("Impersonation is read-only")).to_be_visible()

    admin.goto("/sessions/")
    other = admin.context.new_page()
    other.goto("/profile/security/")
    expect(other.get_by_text(f"This is for {user.email} alone")).to_be_visible()
    other.get_by_role("button", name="Stop impersonating").click()
    expect(other.get_by_text("you are yourself again")).to_be_visible()
    admin.bring_to_front()
    with suppress(Error):  # it may have asked by itself, and is on its way already
        admin.evaluate("document.body.dispatchEvent(new CustomEvent('berth:session-changed'))")
    expect(banner).to_be_hidden()  # the page of before asked, was told so, and is one's own now
