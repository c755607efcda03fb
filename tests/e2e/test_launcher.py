"""The launcher in a browser: by keyboard alone, with its sliders and its summary, and without scripts."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import Browse
from tests.e2e.pages import expect_status
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]
MOST_TABS = 80


def tab_to(page: Page, control: Locator) -> None:
    """Press Tab until `control` has the focus."""
    for _ in range(MOST_TABS):
        if control.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never comes to {control}.")


def test_a_session_is_launched_by_keyboard_alone(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/sessions/new/")
    verdict = page.locator("[data-verdict]")
    expect(verdict).to_contain_text("Starts now on")

    tab_to(page, page.get_by_label("Name", exact=True))
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("by keyboard")
    expect(verdict).to_contain_text("cannot be a name")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("by-keyboard")
    tab_to(page, page.get_by_role("radio", name=re.compile("^Small")))
    for _ in range(5):  # past those that no machine has
        if not page.get_by_role("radio", name=re.compile("^Custom")).is_checked():
            page.keyboard.press("ArrowDown")
    slider = page.get_by_role("slider", name="CPU, as a slider")
    tab_to(page, slider)
    page.keyboard.press("Home")
    expect(page.get_by_label("CPU cores", exact=True)).to_have_value("0.1")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_label("CPU cores", exact=True)).to_have_value("0.5")
    tab_to(page, page.get_by_label("Memory", exact=True))
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("600m")
    expect(page.locator(".launch-totals")).to_have_text("0.5 cores, 600 MiB")
    expect(page.get_by_role("status").filter(has_text="Starts now on")).to_have_count(1)
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["name"], asked["size"], asked["cpu"], asked["mem"]) == (
        ["by-keyboard"],
        ["custom"],
        ["0.5"],
        ["600m"],
    )
    tab_to(page, page.get_by_role("button", name="Launch"))
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"/sessions/[0-9a-f-]{36}/"))
    expect_status(page, "Running")


def test_what_is_too_much_is_said_before_it_is_asked_for(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/sessions/new/?size=custom&cpu=900&mem=1g")

    expect(page.locator("[data-verdict]")).to_contain_text("No machine of “default” has 900 cores")
    page.get_by_role("link", name="CPU cores").click()
    expect(page.get_by_label("CPU cores", exact=True)).to_be_focused()
    page.get_by_label("CPU cores", exact=True).fill("0.5")
    expect(page.locator("[data-verdict]")).to_contain_text("Starts now on")


def test_what_was_refused_has_the_focus_and_nothing_typed_is_lost(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/sessions/new/?name=refused&type=batch&size=small")
    page.get_by_text("Variables, shared memory").click()
    page.get_by_label("Environment variables").fill("TOKEN=geheim")
    page.get_by_role("button", name="Launch").click()

    expect(page.get_by_text("A batch session needs a command to run.").first).to_be_visible()
    expect(page.get_by_label("Command", exact=True)).to_be_focused()
    expect(page.get_by_label("Name", exact=True)).to_have_value("refused")
    expect(page.get_by_role("radio", name=re.compile("^Small"))).to_be_checked()
    expect(page.get_by_label("Environment variables")).to_have_value("TOKEN=geheim")


def test_variables_stay_out_of_the_address_and_of_what_is_copied(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/sessions/new/")
    page.get_by_text("Variables, shared memory").click()
    page.get_by_label("Environment variables").fill("TOKEN=geheim")
    page.get_by_text("Copy as command or code").click()

    expect(page.locator("#copy-as-cli")).to_contain_text("--env TOKEN")
    page.get_by_text("YAML", exact=True).click()
    expect(page.locator("#copy-as-yaml")).to_be_visible()
    expect(page.locator("#copy-as-cli")).to_be_hidden()
    assert "geheim" not in page.url
    assert "geheim" not in page.locator(".copy-as").inner_text()


def test_without_scripts_the_form_checks_and_launches(browse: Browse, user: Person) -> None:
    page = browse(user, java_script_enabled=False)
    page.goto("/sessions/new/")
    expect(page.get_by_role("slider")).to_have_count(0)

    page.get_by_label("Name", exact=True).fill("no-script")
    page.get_by_role("button", name="Check first").click()
    expect(page.locator("[data-verdict]")).to_contain_text("Starts now on")
    expect(page.get_by_label("Name", exact=True)).to_have_value("no-script")
    page.get_by_role("button", name="Launch").click()

    expect(page.get_by_role("heading", name="no-script")).to_be_visible()
