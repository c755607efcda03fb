"""axe-core finds nothing serious on any page, in light and dark; no page is wider than a telephone."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Browse
from tests.e2e.person import Person

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
TELEPHONE = {"width": 360, "height": 780}
PAGES = (
    "/",
    "/sessions/",
    "/sessions/?tab=ended",
    "/sessions/new/",
    "/data/",
    "/agents/",
    "/profile/",
    "/api/",
)


def serious_faults(page: Page) -> list[str]:
    page.add_script_tag(path=AXE)
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [
        f"{fault['id']}: {node['target']}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_fault(
    browse: Browse, user: Person, shared_session: dict[str, Any], theme: str
) -> None:
    page = browse(user, bypass_csp=True, color_scheme=theme)
    session = f"/sessions/{shared_session['id']}/"

    for address in (*PAGES, session, f"{session}terminal/"):
        page.goto(address)
        assert serious_faults(page) == [], address


def test_no_page_is_wider_than_a_telephone(
    browse: Browse, user: Person, shared_session: dict[str, Any]
) -> None:
    page = browse(user)
    page.set_viewport_size(TELEPHONE)
    session = f"/sessions/{shared_session['id']}/"

    for address in (*PAGES, session, f"{session}terminal/"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
