"""The list of pending sessions that every user may read."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.core.roles import Role
from accounts.models import User
from agents.resource_groups import service
from common import clock
from common.actors import SYSTEM
from scheduler.engine.values import ReasonCode
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession
from sessions_app.queue.holds import release_due_starts
from sessions_app.queue.listing import queue_places, queued_sessions, visible_queues, visible_reason
from tests.factories import actor_for, api_client, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]


@pytest.fixture
def place() -> Place:
    """Four cores' worth runs; the others wait, the last of them somebody else's."""
    return make_place(cpu_milli=2000)


@pytest.fixture
def other(place: Place) -> User:
    return make_user(member_of=place.project)


def fill(place: Place, other: User) -> None:
    place.run(resources={"cpu": 2, "mem": "1g"})
    place.enqueue(name="mine")
    place.enqueue(by=other, name="secret-plan")
    run_tick(place.group.pk)


def test_own_sessions_are_named_and_others_are_someone(place: Place, other: User) -> None:
    fill(place, other)
    rows = list(queued_sessions([place.group.pk]))
    mine, theirs = queue_places(actor_for(place.owner), rows)
    assert (mine.position, mine.name, mine.is_own, mine.owner) == (1, "mine", True, place.owner.email)
    assert "Waits for 1 core" in mine.why
    assert (theirs.position, theirs.id, theirs.name, theirs.owner, theirs.is_own) == (2, None, "", "", False)
    assert (theirs.slots["cpu"], theirs.why, theirs.reason) == (1000, "More than is free.", "no_capacity")

    admin = actor_for(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))
    assert [(each.name, each.is_own) for each in queue_places(admin, rows)] == [
        ("mine", False),
        ("secret-plan", False),
    ]
    assert visible_queues(actor_for(other))[place.group.pk].why == "More than is free."


def test_why_others_wait_names_no_project_person_or_limit(place: Place, other: User) -> None:
    fill(place, other)
    place.group.sessions.filter(name="secret-plan").update(
        status_reason="limit_reached", status_message={"text": "The secret project", "arguments": {}}
    )
    _mine, theirs = queue_places(actor_for(place.owner), list(queued_sessions([place.group.pk])))
    assert (theirs.why, theirs.reason) == ("Waits for a limit or a time of its own.", "")


def test_the_page_and_rest_tell_the_same_and_hide_names(
    place: Place, other: User, browser_of: Browser
) -> None:
    fill(place, other)
    page = browser_of(place.owner).get("/queue/", {"group": place.group.name}).content.decode()
    assert "someone" in page
    assert "secret-plan" not in page
    assert ">mine</a>" in page
    answer = api_client(place.owner).get("/api/v1/queue/", {"resource_group": place.group.name}).json()
    assert [(row["position"], row["name"]) for row in answer["results"]] == [(1, "mine"), (2, "")]
    assert "secret" not in str(answer)


def test_hidden_groups_are_absent(place: Place, other: User, browser_of: Browser) -> None:
    fill(place, other)
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_public": False})
    browser, api = browser_of(place.owner), api_client(place.owner)
    for name in (place.group.name, "absent"):
        assert "No such resource group" in browser.get("/queue/", {"group": name}).content.decode()
        assert api.get("/api/v1/queue/", {"resource_group": name}).status_code == 404
    assert "You may use none yet." in browser.get("/queue/").content.decode()


def test_a_long_queue_takes_as_many_queries_and_goes_on_over_pages(
    place: Place, other: User, browser_of: Browser, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    fill(place, other)
    for _number in range(59):
        place.enqueue(resources={"cpu": 0.1, "mem": "128m"})
    api = api_client(place.owner)
    with django_assert_max_num_queries(9):
        second = api.get("/api/v1/queue/", {"page": 2}).json()
    assert second["results"][0]["position"] == 51
    browser = browser_of(place.owner)
    browser.get("/queue/")
    with django_assert_max_num_queries(20):
        assert "51–61 of 61" in browser.get("/queue/", {"page": "2"}).content.decode()


def test_others_tell_no_priority_and_only_the_minute_since_when_they_wait(place: Place, other: User) -> None:
    fill(place, other)
    since = clock.now().replace(second=41, microsecond=123456) - timedelta(hours=1)
    place.group.sessions.update(created_at=since, priority=7)
    api = api_client(place.owner)
    mine, theirs = api.get("/api/v1/queue/", {"resource_group": place.group.name}).json()["results"]
    assert (mine["priority"], datetime.fromisoformat(mine["since"])) == (7, since)
    minute = since.replace(second=0, microsecond=0)
    assert (theirs["priority"], datetime.fromisoformat(theirs["since"])) == (None, minute)
    assert visible_queues(actor_for(other))[place.group.pk].since == minute


def test_waiting_counts_from_when_a_session_was_let_into_the_queue(place: Place) -> None:
    place.enqueue(start_at=(clock.now() + timedelta(days=7)).isoformat())
    with clock.frozen_at(clock.now() + timedelta(days=7, minutes=1)):
        release_due_starts()
        [row] = queue_places(actor_for(place.owner), list(queued_sessions([place.group.pk])))
        assert row.since == visible_queues(actor_for(place.owner))[place.group.pk].since == clock.now()


def test_queue_position_is_the_order_of_the_last_tick(place: Place) -> None:
    """By LIFO, say: neither the oldest nor the one with the highest priority."""
    for name, position in (("old", 2), ("young", 1)):
        session = place.enqueue(name=name, priority=0)
        ComputeSession.objects.filter(pk=session.pk).update(queue_position=position)
    assert visible_queues(actor_for(place.owner))[place.group.pk].first_name == "young"
    assert [
        row.name for row in queue_places(actor_for(place.owner), list(queued_sessions([place.group.pk])))
    ] == [
        "young",
        "old",
    ]


def test_held_sessions_are_not_listed(place: Place) -> None:
    place.enqueue(start_at=(clock.now() + timedelta(days=1)).isoformat())
    assert not queued_sessions([place.group.pk]).exists()


def test_preemption_for_a_session_is_shown_to_everybody(place: Place, other: User) -> None:
    waits = place.enqueue(resources={"cpu": 2, "mem": "1g"})
    ComputeSession.objects.filter(pk=waits.pk).update(status_reason=ReasonCode.MAKING_ROOM)
    assert visible_reason(place.fresh(waits), is_seen=False) == "Preemption is in progress for it."
