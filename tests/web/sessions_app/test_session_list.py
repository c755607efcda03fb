"""The list of sessions: filters, order and columns."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from accounts.tenancy import service
from common import clock
from common.actors import SYSTEM
from common.pages.tables import MOST_BOXES
from scheduler.tick import run_tick
from sessions_app.metrics.collector import SAMPLE_S
from sessions_app.models import ComputeSession, KernelMetric
from tests.factories import make_project, make_user
from tests.factories_sessions import Place

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]
BrowserOf = Callable[[User], Client]
GAP = "\N{NO-BREAK SPACE}"  # between a number and its unit


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def text_of(browser: Client, query: str = "") -> str:
    answer = browser.get(f"/sessions/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def names_in(page: str) -> list[str]:
    return re.findall(r'class="row-name"[^>]*>([^<]+)<', page)


def heads_of(page: str) -> list[str]:
    return [
        re.sub(r"<[^>]*>", "", head).strip() for head in re.findall(r"<th [^>]*>(.*?)</th>", page, re.DOTALL)
    ]


# What is shown, in which order


def test_each_filter_narrows_the_list_and_the_counts_of_the_tabs(place: Place, browser: Client) -> None:
    place.run(name="book")
    place.run(name="job", type="batch", command="true")
    place.enqueue(name="waits")

    for query, found in {
        "?status=running": ["job", "book"],
        "?status=pending": ["waits"],
        "?type=batch": ["job"],
        "?type=interactive&status=running": ["book"],
        f"?project={place.project.name}": ["waits", "job", "book"],
        f"?image={place.image.reference}&q=o": ["job", "book"],
        f"?group={place.group.name}": ["waits", "job", "book"],
        "?project=elsewhere": [],
        "?status=running&status=pending": ["waits", "job", "book"],
        "?status=pending&type=batch": [],
        "?status=running&status=pending&type=batch&type=": ["job"],
        "?status=nonsense": [],
    }.items():
        page = text_of(browser, query)
        assert names_in(page) == found, query
        assert re.findall(r'class="count" [^>]*>(\d+)<', page) == [str(len(found)), "0"], query


def test_a_filter_in_use_is_a_chip_that_takes_it_away(place: Place, browser: Client) -> None:
    page = text_of(browser, "?tab=live&status=running&q=x&sort=name&page=3")

    chips = dict(re.findall(r'<a href="([^"]*)" title="Remove this filter">.*?</span> (.*?)<span', page))
    assert chips == {
        "?tab=live&amp;q=x&amp;sort=name": "Running",
        "?tab=live&amp;status=running&amp;sort=name": "x",
    }
    assert 'href="?tab=live&amp;sort=name">Clear filters' in page
    assert 'href="?tab=ended&amp;status=running&amp;q=x&amp;sort=name"' in page
    assert "No session matches" in page


def test_each_value_of_a_filter_is_a_chip(place: Place, browser: Client) -> None:
    page = text_of(browser, "?status=running&status=error&type=batch")

    chips = dict(re.findall(r'<a href="([^"]*)" title="Remove this filter">.*?</span> (.*?)<span', page))
    assert chips == {
        "?status=error&amp;type=batch": "Running",
        "?status=running&amp;type=batch": "Error",
        "?status=running&amp;status=error": "Batch",
    }
    assert page.count('name="status" value="running" checked') == 1
    assert 'name="status" value="pending">' in page


def test_a_value_that_is_not_offered_stays_in_the_form(browser: Client) -> None:
    assert 'type="checkbox" name="image" value="gone" checked>' in text_of(browser, "?image=gone")


def test_where_there_is_much_to_choose_one_types_and_what_is_chosen_has_a_box(
    place: Place, browser_of: BrowserOf
) -> None:
    for number in range(MOST_BOXES + 1):
        make_project(place.owner.domain, f"lab-{number}")

    page = text_of(browser_of(make_user(role=Role.SUPERADMIN)), "?project=lab-7")

    assert re.findall(r'type="checkbox" name="project" value="([^"]+)"( checked)?', page) == [
        ("lab-7", " checked")
    ]
    assert 'name="project" list="completions-project"' in page
    assert '<option value="lab-30">lab-30</option>' in page


def test_the_project_that_was_chosen_in_the_bar_narrows_the_list_until_it_is_taken_away(
    place: Place, browser: Client
) -> None:
    other = make_project(place.project.domain)
    service.add_member(actor=SYSTEM, project=other, user=place.owner)
    place.run(name="here")
    place.enqueue(name="there", project=other.name)
    browser.post("/project/", {"project": place.project.name})

    page = text_of(browser)

    assert names_in(page) == ["here"]
    assert 'href="?project=*" title="Remove this filter"' in page
    assert f'href="?project={place.project.name}&amp;sort=name"' in page
    assert names_in(text_of(browser, "?project=*")) == ["there", "here"]
    assert names_in(text_of(browser, f"?project=*&project={other.name}")) == ["there"]
    assert "Remove this filter" not in text_of(browser, "?project=*")


def test_heads_sort_by_their_column_and_back(place: Place, browser: Client) -> None:
    for name, cpu in (("b", 2), ("c", 1), ("a", 3)):
        place.enqueue(name=name, resources={"cpu": cpu, "mem": "1g"})

    assert names_in(text_of(browser)) == ["a", "c", "b"]
    assert names_in(text_of(browser, "?sort=name")) == ["a", "b", "c"]
    assert names_in(text_of(browser, "?sort=-name")) == ["c", "b", "a"]
    assert names_in(text_of(browser, "?sort=resources")) == ["c", "b", "a"]
    assert names_in(text_of(browser, "?sort=started")) == ["b", "c", "a"]
    assert names_in(text_of(browser, "?sort=machine")) == ["a", "c", "b"]
    ascending = text_of(browser, "?sort=name")
    assert re.search(r'aria-sort="ascending">\s*<a href="\?sort=-name">', ascending)
    assert 'href="?sort=-started"' in ascending


def test_only_who_looks_after_others_filters_by_owner(
    place: Place, browser: Client, browser_of: BrowserOf
) -> None:
    place.run(name="theirs")
    for admin in (
        make_user(admin_of=place.project),
        make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN),
        make_user(role=Role.SUPERADMIN),
    ):
        of_admin = browser_of(admin)
        assert 'name="owner"' in text_of(of_admin)
        assert names_in(text_of(of_admin, f"?owner={place.owner.email.upper()}")) == ["theirs"]
        assert names_in(text_of(of_admin, "?owner=nobody")) == []

    assert 'name="owner"' not in text_of(browser)
    assert names_in(text_of(browser, "?owner=nobody")) == ["theirs"]


# What rows show


def measured(session: ComputeSession, *, ago_s: float, cpu_milli: int | None, mem_bytes: int | None) -> None:
    KernelMetric.objects.create(
        kernel=session.kernels.get(),
        span_s=SAMPLE_S,
        at=clock.now() - timedelta(seconds=ago_s),
        cpu_milli=cpu_milli,
        mem_bytes=mem_bytes,
    )


def test_a_row_says_in_a_few_words_why_its_session_waits(place: Place, browser: Client) -> None:
    place.run(resources={"cpu": 7, "mem": "1g"})
    place.enqueue(name="waits", resources={"cpu": 2, "mem": "1g"})
    run_tick(place.group.pk)

    [(whole, short)] = re.findall(r'class="row-note" title="([^"]*)">([^<]*)<', text_of(browser))

    assert whole.startswith("Number 1 in the queue. Waits for 2 cores: the agent of resource group")
    assert short == f"No. 1 · No room: 2{GAP}cores requested, 1{GAP}core free"


def amounts_in(page: str) -> list[str]:
    return re.findall(r'class="meter-amount">([^<]+)<', page)


def test_rows_of_running_sessions_say_what_they_use_now(place: Place, browser: Client) -> None:
    session = place.run(resources={"cpu": 2, "mem": "1g"})
    measured(session, ago_s=20, cpu_milli=100, mem_bytes=2**20)
    measured(session, ago_s=9, cpu_milli=521, mem_bytes=2**29)

    assert amounts_in(text_of(browser)) == [f"0.5 of 2{GAP}cores", f"512{GAP}MiB of 1{GAP}GiB"]
    place.end(session)
    assert amounts_in(text_of(browser, "?tab=ended")) == []


def test_what_was_not_measured_is_not_said(place: Place, browser: Client) -> None:
    measured(place.run(name="long-ago"), ago_s=90, cpu_milli=1, mem_bytes=1)
    assert amounts_in(text_of(browser)) == []
    measured(place.run(name="just-begun"), ago_s=1, cpu_milli=None, mem_bytes=2**29)

    page = text_of(browser)
    assert amounts_in(page) == []
    assert page.count(f"1{GAP}core, 1{GAP}GiB") == 2


def test_a_row_is_drawn_for_its_reader_and_for_how_it_is_now(
    place: Place, browser: Client, browser_of: BrowserOf
) -> None:
    session = place.run(name="train")
    stop, terminal = f'formaction="/sessions/{session.pk}/stop/"', f'href="/sessions/{session.pk}/terminal/"'
    of_admin = browser_of(make_user(admin_of=place.project))

    for _ in range(2):
        assert stop in text_of(browser)
        assert terminal in text_of(browser)
        assert stop in text_of(of_admin)
        assert terminal not in text_of(of_admin)

    browser.post(f"/sessions/{session.pk}/stop/")
    assert stop not in text_of(browser)
    assert "It will be stopped in a moment." in text_of(browser)


# Columns


def test_columns_are_chosen_once_for_all_browsers(
    place: Place, browser: Client, browser_of: BrowserOf
) -> None:
    place.run()
    usual = heads_of(text_of(browser))

    answer = browser.post(
        "/profile/columns/",
        {
            "table": "sessions",
            "offered": ["status", "project", "image", "resources", "machine", "started", "absent"],
            "column": ["image", "status", "owner", "absent"],
            "back": "/sessions/?q=",
        },
    )

    assert answer["Location"] == "/sessions/?q="
    assert usual == ["Choose", "Name", "Status", "Resources", "Machine", "Requested", "Actions"]
    assert heads_of(text_of(browser_of(place.owner))) == ["Choose", "Name", "Status", "Image", "Actions"]
    assert heads_of(text_of(browser_of(make_user(admin_of=place.project)))) == usual


def test_all_columns_can_be_shown(place: Place, browser_of: BrowserOf) -> None:
    place.end(place.run(name="past"))
    of_admin = browser_of(make_user(admin_of=place.project))
    every = [
        "status",
        "type",
        "project",
        "owner",
        "image",
        "resources",
        "group",
        "machine",
        "started",
        "ended",
    ]

    sent = {"table": "sessions", "offered": every, "column": every, "back": "/sessions/"}
    of_admin.post("/profile/columns/", sent)

    page = text_of(of_admin, "?tab=ended")
    assert heads_of(page)[1:-1] == [{"started": "Requested"}.get(name, name.capitalize()) for name in every]
    assert page.count("data-label=") == len(every) + 1


def test_a_tab_has_columns_and_an_order_of_its_own(place: Place, browser: Client) -> None:
    first, second = place.run(name="asked-first"), place.run(name="asked-second")
    place.end(second)
    place.end(first)

    page = text_of(browser, "?tab=ended")

    assert names_in(page) == ["asked-first", "asked-second"]
    assert heads_of(page)[-2:] == ["Ended", "Actions"]
    assert "Ended" not in heads_of(text_of(browser))
    browser.post("/profile/columns/", {"table": "sessions", "offered": ["started"], "back": "/"})
    assert heads_of(text_of(browser, "?tab=ended"))[-2:] == ["Ended", "Actions"]


def test_the_fragment_brings_the_numbers_of_the_tabs_without_the_tabs(place: Place, browser: Client) -> None:
    place.run()

    fragment = browser.get("/sessions/", headers={"HX-Request": "true"}).content.decode()

    assert '<span class="count" id="tab-live-count" hx-swap-oob="true">1</span>' in fragment
    assert 'class="tabs"' not in fragment
    assert "hx-swap-oob" not in text_of(browser)


def test_the_way_back_from_columns_stays_in_the_portal_and_a_list_must_exist(browser: Client) -> None:
    assert (
        browser.post("/profile/columns/", {"table": "sessions", "back": "https://evil.example/"})["Location"]
        == "/"
    )
    assert browser.post("/profile/columns/", {"table": "absent"}).status_code == 404
