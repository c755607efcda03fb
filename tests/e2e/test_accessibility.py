"""axe-core finds nothing serious on any page, in light and dark; no page is wider than its window.

The usual run looks at a page once per kind of fault; `bin/test --all` in each theme and width, for each role.
"""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Browse
from tests.e2e.every_page import (
    NOT_THERE,
    OF_DOMAIN_ADMINS,
    OF_SUPERADMINS,
    PAGES,
    page_of_limit,
    page_of_reservation,
    page_of_tick,
    pages_of_folder,
    pages_of_people,
    pages_of_session,
)
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.width import IS_WIDE

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
Theme = Literal["light", "dark"]
Look = tuple[int, Theme, tuple[str, ...] | None]  # width, theme, rules of axe: () is all, None no run
RULES_OF_COLOURS = ("color-contrast", "link-in-text-block")
USUAL_LOOKS: tuple[Look, ...] = (
    (360, "light", ()),
    (768, "light", None),
    (1440, "dark", RULES_OF_COLOURS),
)
# A theme has colours of its own and nothing else.
EVERY_LOOK: tuple[Look, ...] = tuple(
    (width, theme, rules)
    for width in (360, 768, 1440)
    for theme, rules in (("light", ()), ("dark", RULES_OF_COLOURS))
)
HEIGHT = 800
PARTS = 3  # of the pages of a role: each is looked at several times, which takes seconds on a slow machine


def faults_on(page: Page, addresses: Iterable[str]) -> dict[str, list[str]]:
    """Return by address, width and theme what axe finds serious, and how far the page is wider than the window."""
    found: dict[str, list[str]] = {}
    for address in addresses:
        answer = page.goto(address)
        assert answer is not None
        if (answer.status == HTTPStatus.OK) is (address == NOT_THERE):
            found[address] = [f"answers {answer.status}"]
        found |= faults_here(page, address)
    return found


def faults_here(page: Page, address: str) -> dict[str, list[str]]:
    """Return the faults of the page that is shown, as `faults_on` does."""
    found = {}
    page.add_script_tag(path=AXE)
    for width, theme, rules in EVERY_LOOK if IS_WIDE else USUAL_LOOKS:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        serious = [] if rules is None else serious_faults(page, rules)
        if faults := [*serious, *width_faults(page)]:
            found[f"{address} {width} px {theme}"] = faults
    return found


def serious_faults(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Return what axe finds serious by these rules; by all of its usual ones where none is named."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("(options) => axe.run(options).then(({ violations }) => violations)", options)
    return [
        f"{fault['id']}: {node['target']}"
        for fault in found
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]


def width_faults(page: Page) -> list[str]:
    width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"{width} px wide, on {window}"] if width > window else []


@pytest.mark.parametrize("part", range(PARTS))
def test_no_page_has_a_serious_fault(browse: Browse, user: Person, part: int) -> None:
    assert faults_on(browse(user, bypass_csp=True), PAGES[part::PARTS]) == {}


def test_no_page_of_a_session_has_a_serious_fault(
    browse: Browse, user: Person, shared_session: dict[str, Any]
) -> None:
    assert faults_on(browse(user, bypass_csp=True), pages_of_session(shared_session)) == {}


def test_no_page_of_a_folder_has_a_serious_fault(browse: Browse, portal: RunningPortal, user: Person) -> None:
    folder = user.make_folder("looked-at", **{"notes.md": "# Notes\n", "train.py": "print(1)\n"})
    user.share_folder(folder, friend=portal.person("domain_admin").email, file="train.py")
    assert faults_on(browse(user, bypass_csp=True), pages_of_folder(folder, "train.py")) == {}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("role", ["domain_admin", "superadmin"])
def test_no_page_of_an_administrator_has_a_serious_fault(
    browse: Browse, portal: RunningPortal, shared_session: dict[str, Any], role: str, part: int
) -> None:
    person = portal.person(role)
    page = browse(person, bypass_csp=True)
    pages = OF_SUPERADMINS if role == "superadmin" else OF_DOMAIN_ADMINS
    if role == "superadmin" or IS_WIDE:
        pages += pages_of_people(person.users(), person.projects())
        pages += (f"/sessions/{shared_session['id']}/",)
    else:  # what a superadmin is shown as well is looked at there
        pages = tuple(page for page in pages if page not in OF_SUPERADMINS)
    assert faults_on(page, pages[part::PARTS]) == {}


def test_no_page_of_what_is_not_always_there_has_a_serious_fault(
    browse: Browse, portal: RunningPortal
) -> None:
    superadmin = portal.person("superadmin")
    page = browse(superadmin, bypass_csp=True)
    with superadmin.reservation() as reservation, superadmin.limit() as limit:
        pages = (page_of_tick(superadmin.make_tick()), page_of_reservation(reservation), page_of_limit(limit))
        lists = ("/resource-groups/1/reservations/", "/resource-groups/1/limits/")
        assert faults_on(page, (*pages, *lists)) == {}


def test_what_people_see_before_they_sign_in_has_no_serious_fault(browse: Browse) -> None:
    assert faults_on(browse(bypass_csp=True), ("/account/login/",)) == {}
