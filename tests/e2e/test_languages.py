"""In Korean and Japanese no page has an English sentence left, and pages are no wider than the window."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Browse
from tests.e2e.every_page import (
    OF_SUPERADMINS,
    PAGES,
    page_of_limit,
    page_of_reservation,
    page_of_tick,
    pages_of_folder,
    pages_of_session,
)
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.e2e.test_accessibility import HEIGHT, width_faults

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

# Three words and more, the second and third in lower case: names of people, images and commands are not like that.
SENTENCE = re.compile(r"\b[A-Za-z’']{2,} [a-z’']{2,} [a-z’']{2,}\b")
COMMAND = re.compile(r"berth login \S+")
# What is not said by us, or to be typed as it is.
OF_OTHERS = "pre, code, kbd, textarea, .xterm, [data-log], [lang=en], #berth-styleguide"
SEEN_TEXT = """(others) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const said = [];
  while (walker.nextNode()) {
    const { parentElement, data } = walker.currentNode;
    if (data.trim() && !parentElement.closest(`script, style, template, ${others}`)) said.push(data.trim());
  }
  for (const element of document.querySelectorAll("[aria-label], [title], [placeholder]")) {
    if (element.closest(others)) continue;
    for (const name of ["aria-label", "title", "placeholder"]) said.push(element.getAttribute(name) ?? "");
  }
  return said;
}"""


def english_here(page: Page, of_images: set[str]) -> list[str]:
    """What is still said in English, less what images say of themselves."""
    said = set(page.evaluate(SEEN_TEXT, OF_OTHERS)) - of_images
    return sorted(text for text in said if SENTENCE.search(COMMAND.sub("", text)))


def descriptions(reader: Person) -> set[str]:
    return {image["description"] for image in reader.images()}


@pytest.mark.parametrize(("locale", "language"), [("ko-KR", "ko"), ("ja-JP", "ja")])
def test_no_english_is_left_and_pages_fit_a_telephone(
    browse: Browse, user: Person, shared_session: dict[str, Any], locale: str, language: str
) -> None:
    page, of_images = browse(user, locale=locale), descriptions(user)
    folder = user.make_folder(f"read-{language}", **{"train.py": "print(1)\n"})
    page.set_viewport_size({"width": 360, "height": HEIGHT})
    english: dict[str, list[str]] = {}
    faults: dict[str, list[str]] = {}
    for address in (*PAGES, *pages_of_session(shared_session), *pages_of_folder(folder, "train.py")):
        page.goto(address)
        assert page.locator("html").get_attribute("lang") == language
        english[address] = english_here(page, of_images)
        faults[address] = width_faults(page)
    assert {address: said for address, said in english.items() if said} == {}
    assert {address: wide for address, wide in faults.items() if wide} == {}


def test_no_english_is_left_for_administrators(browse: Browse, portal: RunningPortal) -> None:
    superadmin = portal.person("superadmin")
    page = browse(superadmin, locale="ko-KR")
    pages = tuple(page for page in OF_SUPERADMINS if page != "/styleguide/")  # for developers, in English
    english = {}
    with superadmin.reservation() as reservation, superadmin.limit() as limit:
        pages += (
            page_of_tick(superadmin.make_tick()),
            page_of_reservation(reservation),
            page_of_limit(limit),
        )
        for address in pages:
            page.goto(address)
            assert page.locator("html").get_attribute("lang") == "ko"
            if said := english_here(page, descriptions(superadmin)):
                english[address] = said
    assert english == {}


def test_chosen_language_is_kept(browse: Browse, user: Person) -> None:
    page = browse(user)
    page.goto("/")

    page.locator(f'summary[aria-label*="{user.email}"]').click()
    page.get_by_role("button", name="日本語").click()

    page.wait_for_selector('html[lang="ja"]')
    page.goto("/data/")
    assert page.locator("html").get_attribute("lang") == "ja"
    page.locator(f'summary[aria-label*="{user.email}"]').click()
    page.get_by_role("button", name="English").click()
    page.wait_for_selector('html[lang="en"]')
