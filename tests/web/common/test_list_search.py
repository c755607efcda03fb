"""Searched lists have the same rows and counts in every order."""

import re
from collections.abc import Callable
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.core.roles import Role
from accounts.models import User
from common.db import pagination
from tests.factories import make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]
LISTS = (
    "/sessions/", "/agents/", "/images/", "/data/", "/people/", "/projects/", "/domains/", "/policies/", "/budgets/",
    "/budgets/prices/", "/people/invitations/", "/audit/", "/profile/activity/",
)  # fmt: skip


@pytest.fixture
def superadmin(browser_of: BrowserOf) -> Client:
    return browser_of(make_user(role=Role.SUPERADMIN))


def text_of(browser: Client, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def shown(page: str) -> tuple[list[str], list[str]]:
    """Names of the rows, numbers of the tabs."""
    names = re.findall(r'class="row-name"[^>]*>([^<]+)<', page)
    return names, re.findall(r'id="tab-\w+-count">(\d+)<', page)


@pytest.mark.parametrize(
    ("query", "names", "counts"),
    [
        ("", ["train-a", "train-b"], ["3", "1"]),
        ("&page=1", ["train-a", "train-b"], ["3", "1"]),
        ("&page=2", ["train-c"], ["3", "1"]),
        ("&page=9", ["train-c"], ["3", "1"]),
        ("&page=x", ["train-a", "train-b"], ["3", "1"]),
        ("&tab=ended", ["train-d"], ["3", "1"]),
        ("-nothing", [], ["0", "0"]),
        ("-d", [], ["0", "1"]),
    ],
)
def test_a_search_in_another_order_has_the_rows_of_its_tab_and_counts_all_tabs(
    place: Place,
    browser_of: BrowserOf,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    names: list[str],
    counts: list[str],
) -> None:
    monkeypatch.setattr(pagination, "ROWS_PER_PAGE", 2)
    for name in ("train-b", "other", "train-c", "train-a"):
        place.enqueue(name=name)
    place.end(place.run(name="train-d"))

    assert shown(text_of(browser_of(place.owner), f"/sessions/?sort=name&q=train{query}")) == (names, counts)


def test_a_search_in_another_order_reads_the_rows_once(place: Place, browser_of: BrowserOf) -> None:
    place.enqueue(name="train")
    browser = browser_of(place.owner)

    def queries(address: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(browser, address)
        return len(captured)

    queries("/sessions/")  # the first visit notes something of the browser
    assert queries("/sessions/?q=train&sort=name") == queries("/sessions/?q=train") - 1


@pytest.mark.parametrize("address", LISTS)
def test_every_list_is_searched_in_each_of_its_orders(superadmin: Client, address: str) -> None:
    searched = f"{address}?q={make_place().owner.email[0]}"
    for order in re.findall(r'href="(\?[^"]*sort=[^"]*)"', text_of(superadmin, searched)):
        text_of(superadmin, address + unescape(order))
