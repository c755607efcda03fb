"""Accelerators in a browser: from a card of the launcher to the devices of the session, and a quarantine."""

import re
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from portal.ops.paths import CHECKOUT
from tests.e2e.conftest import Browse
from tests.e2e.pages import expect_status
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]
GROUP = "gpu"
SIMULATE = (
    "simulate",
    "--agents",
    "1",
    "--group",
    GROUP,
    "--run-seconds",
    "0",
    "--load-seconds",
    "1",
    "--keep",
)


@pytest.fixture
def simulated_group(portal: RunningPortal) -> Iterator[None]:
    """A resource group with one simulated machine that has eight devices."""
    command = [str(CHECKOUT / "bin" / "cluster"), "--data", str(portal.data)]
    subprocess.run(
        [*command, *SIMULATE], check=True, timeout=120, stdout=subprocess.DEVNULL, env=portal.environment
    )
    yield
    subprocess.run(
        [*command, "clear"], check=True, timeout=120, stdout=subprocess.DEVNULL, env=portal.environment
    )


@pytest.mark.usefixtures("simulated_group")
def test_devices_are_taken_from_a_card_shown_on_the_session_and_quarantined(
    portal: RunningPortal, browse: Browse, user: Person
) -> None:
    page = browse(user)
    page.goto("/sessions/new/?name=on-devices")
    card = page.locator(".device-cards .choice-card").filter(has_text="of 8 free")
    expect(card).to_contain_text("8 of 8 free")
    card.get_by_role("radio").check()
    expect(page.get_by_label("Resource group")).to_have_value(GROUP)
    page.get_by_label("Number of devices", exact=True).fill("2")
    expect(page.locator("[data-verdict]")).to_contain_text("Starts now on")
    page.get_by_role("button", name="Launch").click()
    expect_status(page, "Running")
    devices = page.get_by_role("region", name="Devices")
    expect(devices.get_by_role("listitem")).to_have_count(2)
    expect(devices).to_contain_text("The whole device: nobody else is on it.")

    admin = browse(portal.person("superadmin"))
    admin.goto("/accelerators/")
    machine = admin.get_by_role("link", name=re.compile(f"^{GROUP}-00001: 6 free"))
    machine.click()
    admin.get_by_role("row", name=re.compile("Free")).get_by_role("link").first.click()
    drawer = admin.get_by_role("dialog")
    drawer.get_by_label("Reason for a quarantine").fill("fan replaced on Monday")
    drawer.get_by_role("button", name="Quarantine").click()
    expect(admin.get_by_text("The device is in quarantine")).to_be_visible()

    page.goto("/sessions/new/?name=another")
    expect(page.locator(".device-cards .choice-card").filter(has_text="of 8 free")).to_contain_text(
        "5 of 8 free"
    )
