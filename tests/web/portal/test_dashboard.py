"""The dashboard: own sessions and usage, free capacity, and the queue."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.core.roles import Role
from accounts.models import User
from agents.core.states import AgentState
from agents.machines.lifecycle import transition
from common import clock
from common.actors import SYSTEM
from scheduler.tick import run_tick
from sessions_app.metrics.collector import SAMPLE_S
from sessions_app.models import Kernel, KernelMetric
from tests.factories import make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
BrowserOf = Callable[[User], Client]
DASHBOARD = "/dashboard/"


@pytest.fixture
def browser(place: Place, browser_of: BrowserOf) -> Client:
    return browser_of(place.owner)


def notification_text(browser: Client) -> str:
    return " ".join(browser.get(DASHBOARD).content.decode().split())


def test_a_new_person_reads_what_to_do_first(place: Place, browser: Client) -> None:
    page = notification_text(browser)

    assert "Nothing of yours is running" in page
    assert "Nothing is allocated to your sessions now." in page
    assert "0 of 200" in page
    assert "No limit is set on cores, memory and devices" in page
    assert "up to 8 cores, 30.4 GiB" in page
    assert "Agents by state" not in page


def test_a_portal_without_groups_says_so(browser_of: BrowserOf) -> None:
    assert "No resource group yet" in notification_text(browser_of(make_user()))


def test_what_runs_can_be_opened_and_counts(place: Place, browser: Client) -> None:
    session = place.run(name="train")
    place.enqueue(name="huge", resources={"cpu": 8, "mem": "1g"})
    run_tick(place.group.pk)

    page = notification_text(browser)

    assert f'/sessions/{session.pk}/terminal/"' in page
    assert "Allocated to your sessions: 1 core, 1 GiB." in page
    assert "How much of it they use has not been measured" in page
    assert "2 of 200" in page
    assert page.index(">train<") < page.index(">huge<")


def test_use_is_told_with_its_age_and_only_of_what_was_measured_lately(place: Place, browser: Client) -> None:
    session = place.run()
    kernel = Kernel.objects.get(session=session)
    for age_s, cpu_milli in ((600, 900), (20, 400), (10, 500)):
        at = clock.now() - timedelta(seconds=age_s)
        KernelMetric.objects.create(
            kernel=kernel, span_s=SAMPLE_S, at=at, cpu_milli=cpu_milli, mem_bytes=2**29
        )

    page = notification_text(browser)

    assert "0.5 of 1 core" in page
    assert "512 MiB of 1 GiB" in page
    assert "What runs in them uses this much of it, measured" in page


def test_room_names_what_is_mine_and_the_largest_that_starts_now(place: Place, browser: Client) -> None:
    place.run(resources={"cpu": 2, "mem": "4g"})
    other = make_user(member_of=place.project)
    place.enqueue(by=other, resources={"cpu": 3, "mem": "4g"})
    run_tick(place.group.pk)

    page = notification_text(browser)

    assert "5 of 8 cores, 2 cores yours" in page
    assert f"up to 3 cores, 22.4 GiB, on {place.agent.name}" in page


def test_the_head_of_the_queue_is_named_to_its_owner_alone(place: Place, browser_of: BrowserOf) -> None:
    place.run(resources={"cpu": 7, "mem": "1g"})
    place.enqueue(name="first-in-line", resources={"cpu": 2, "mem": "1g"})
    place.enqueue(name="second", resources={"cpu": 2, "mem": "1g"})
    run_tick(place.group.pk)

    own, foreign = notification_text(browser_of(place.owner)), notification_text(browser_of(make_user()))

    assert "2 sessions, the first for" in own
    assert "Waits for 2 cores" in own
    assert "More than is free." in foreign
    assert "Waits for 2 cores" not in foreign
    assert "first-in-line" in own
    assert "first-in-line" not in foreign


def test_a_full_group_says_that_nothing_starts_now(place: Place, browser: Client) -> None:
    place.run(resources={"cpu": 8, "mem": "1g"})

    assert "nothing: every agent is full" in notification_text(browser)


def test_machines_that_take_no_sessions_are_not_counted_as_room(place: Place, browser: Client) -> None:
    place.run()
    transition(place.agent.pk, to=AgentState.DRAINING, actor=SYSTEM)
    place.enqueue()

    page = notification_text(browser)

    assert "No agent of this group takes sessions now" in page
    assert "1 session waits." in page
    assert "1 agent is lost, draining or in maintenance" in page


def test_superadmins_see_the_machines_that_are_unwell(place: Place, browser_of: BrowserOf) -> None:
    browser = browser_of(make_user(role=Role.SUPERADMIN))
    assert "Agents by state" in notification_text(browser)
    transition(place.agent.pk, to=AgentState.LOST, actor=SYSTEM)

    page = notification_text(browser)

    assert f'href="/agents/?q={place.agent.name}"' in page
    assert 'href="/agents/?state=lost"' in page


def test_a_fragment_is_the_page_without_its_frame(browser: Client) -> None:
    fragment = browser.get(DASHBOARD, headers={"HX-Request": "true"}).content.decode()

    assert "<html" not in fragment
    assert "My sessions" in fragment


def test_much_takes_no_more_queries_than_little(place: Place, browser: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            browser.get(DASHBOARD)
        return len(captured.captured_queries)

    place.run()
    browser.get(DASHBOARD)
    few = queries()
    for _ in range(3):
        place.run()
    make_place()
    place.enqueue()

    assert queries() == few
