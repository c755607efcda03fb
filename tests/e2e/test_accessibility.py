"""axe-core finds nothing serious on any page, in light and dark; no page is wider than a telephone."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.e2e.conftest import Browse
from tests.e2e.every_page import OF_SUPERADMINS, PAGES, pages_of_session
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
TELEPHONE: ViewportSize = {"width": 360, "height": 780}


def faults_on(page: Page, addresses: Iterable[str]) -> dict[str, list[str]]:
    """By address, what axe finds serious there, and pages that are wider than the window."""
    found = {}
    for address in addresses:
        page.goto(address)
        if faults := [*serious_faults(page), *width_faults(page)]:
            found[address] = faults
    return found


def serious_faults(page: Page) -> list[str]:
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [
        f"{fault['id']}: {node['target']}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


def width_faults(page: Page) -> list[str]:
    width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"{width} px wide, on {window}"] if width > window else []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_fault(
    browse: Browse, user: Person, shared_session: dict[str, Any], theme: str
) -> None:
    page = browse(user, bypass_csp=True, color_scheme=theme)
    assert faults_on(page, (*PAGES, *pages_of_session(shared_session))) == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_of_an_administrator_has_a_serious_fault(
    browse: Browse, portal: RunningPortal, shared_session: dict[str, Any], theme: str
) -> None:
    page = browse(portal.person("superadmin"), bypass_csp=True, color_scheme=theme)
    assert faults_on(page, OF_SUPERADMINS) == {}


def test_pages_fit_a_telephone_and_have_no_serious_fault_there(
    browse: Browse, user: Person, shared_session: dict[str, Any]
) -> None:
    page = browse(user, bypass_csp=True)
    page.set_viewport_size(TELEPHONE)
    assert faults_on(page, (*PAGES, *pages_of_session(shared_session))) == {}
