"""A check answers what creating the session would, without creating it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from accounts.core.roles import Role
from accounts.models import DEFAULT_LIMITS, User
from agents.core.states import AgentState
from agents.models import Agent, GroupGrant, ResourceGroup
from sessions_app.models import ComputeSession
from tests.bad_input import UNREADABLE
from tests.db.scheduler.forecast.test_expected_starts import has_image
from tests.factories import api_client, make_user
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import GIB, Place, make_place

pytestmark = pytest.mark.django_db
SESSIONS, CHECK = "/api/v1/sessions/", "/api/v1/sessions/check/"
MOST_QUERIES = 19
ALL = {"cpu": 8, "mem": "1g"}  # of the agent


@pytest.fixture
def api(place: Place) -> APIClient:
    return api_client(place.owner)


def test_a_request_with_room_starts_now_and_says_where(place: Place, api: APIClient) -> None:
    place.run(resources={"cpu": 2, "mem": "4g"})
    memory = place.agent.capacity["mem"]

    answer = api.post(CHECK, place.request())

    assert answer.status_code == 200
    assert answer.json() == {
        "starts_now": True,
        "agent": place.agent.name,
        "reason": "starts_now",
        "message": f"Starts now on {place.agent.name}.",
        "queue_position": None,
        "expected_start": {
            "earliest_s": 0,
            "latest_s": 10,
            "message": "It will probably start within 1 min.",
        },
        "best_room": {},
        "who_may_raise": "",
        "other_groups": [],
        "resources": {"cpu": 1000, "mem": GIB},
        "resource_group": place.group.name,
        "room": {
            "cpu": {"largest": 8000, "most_free": 6000, "capacity": 8000, "occupied": 2000},
            "mem": {
                "largest": memory,
                "most_free": memory - 4 * GIB,
                "capacity": memory,
                "occupied": 4 * GIB,
            },
        },
        "live_sessions": 1,
        "live_limit": DEFAULT_LIMITS["max_sessions"],
    }
    assert ComputeSession.objects.count() == 1


def test_a_request_without_room_says_why_it_would_wait_and_behind_whom(place: Place, api: APIClient) -> None:
    place.run(resources={"cpu": 7, "mem": "1g"})
    place.enqueue(resources={"cpu": 4, "mem": "1g"})

    body = api.post(CHECK, place.request(resources={"cpu": 2, "mem": "1g"})).json()

    assert (body["starts_now"], body["agent"], body["reason"]) == (False, "", "no_capacity")
    assert body["queue_position"] == 2
    assert "2 cores" in body["message"]
    assert "1 core free" in body["message"]


def test_a_group_whose_machines_take_none_makes_it_wait(place: Place, api: APIClient) -> None:
    Agent.objects.update(state=AgentState.DRAINING.value)

    body = api.post(CHECK, place.request()).json()

    assert (body["starts_now"], body["reason"]) == (False, "no_agents")
    assert body["room"]["cpu"]["most_free"] == 0


def test_what_is_foreseen_comes_true(place: Place, api: APIClient) -> None:
    small = make_place(cpu_milli=2000)
    Agent.objects.update(resource_group=place.group)
    for cores in (1, 2, 6, 5, 2, 1):
        request = place.request(resources={"cpu": cores, "mem": "1g"})
        foreseen = api.post(CHECK, request).json()
        session = place.place(**request)
        agent = session.kernels.get().agent
        assert foreseen["agent"] == (agent.name if agent else "")
    assert Agent.objects.filter(name=small.agent.name, kernels__isnull=False).exists()


def is_sendable(value: object) -> bool:
    """Return True if the test client can write it as JSON: it has no control character and no half surrogate."""
    text = json.dumps(value, default=str)
    return "\\u00" not in text and "\\ud" not in text


REFUSED: tuple[dict[str, Any], ...] = (
    {"name": "taken"},
    {"project": "absent"},
    {"image": "absent"},
    {"resource_group": "absent"},
    {"mounts": [{"folder": "absent"}]},
    {"resources": {"cpu": 99, "mem": "1g"}},
    {"colour": "red"},
    *(bad.changes for bad in UNREADABLE[::7] if is_sendable(bad.value)),
)


def test_it_refuses_in_the_words_of_creating(place: Place, api: APIClient) -> None:
    place.enqueue(name="taken")
    differing = []
    for changes in REFUSED:
        request = place.request(**changes)
        checked, created = (api.post(address, request, format="json") for address in (CHECK, SESSIONS))
        is_refused = checked.status_code == created.status_code >= 400
        if not is_refused or checked.json() != created.json():
            differing.append((changes, checked.content, created.content))
    assert differing == []


def test_limits_that_are_reached_are_told_with_their_numbers(place: Place, api: APIClient) -> None:
    policy = limit(place.project, max_sessions=1)
    place.enqueue()

    answers = [api.post(address, place.request(name="second")) for address in (CHECK, SESSIONS)]

    assert [answer.status_code for answer in answers] == [422, 422]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json() == {
        "code": "limit_exceeded",
        "message": f"The project “{place.project.name}” has reached its limit of live sessions (1 of 1).",
        "hint": "Stop a session first, or wait until one ends.",
        "fields": {},
        "limits": [
            {
                "limit": "sessions",
                "level": "project",
                "scope": place.project.name,
                "policy": policy.name,
                "value": 1,
                "used": 1,
                "left": 0,
                "asked": 1,
                "is_joint": False,
                "message": f"The project “{place.project.name}” has reached its limit of live sessions (1 of 1).",
            }
        ],
        "allow_lists": [],
        "budgets": [],
    }


def test_a_limit_that_others_use_up_makes_it_wait_in_the_words_of_the_scheduler(
    place: Place, api: APIClient
) -> None:
    limit(place.owner, max_slots={"cpu": 2000})
    place.run(resources={"cpu": 2, "mem": "1g"})

    body = api.post(CHECK, place.request()).json()

    assert (body["starts_now"], body["reason"], body["queue_position"]) == (False, "limit_reached", 1)
    assert body["who_may_raise"] == "An administrator of the domain may raise the limit of a person."
    session = place.place()
    assert str(session.status_message) == body["message"]


def test_it_takes_a_fixed_number_of_queries(place: Place, api: APIClient, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    few = [{"folder": str(make_folder(place.owner).pk)}]
    many = [{"folder": make_folder(place.owner).name} for _ in range(5)]
    counts = set()
    assert api.post(CHECK, place.request()).status_code == 200  # notes that the token was used
    for mounts in (few, many):
        place.enqueue()
        with CaptureQueriesContext(connection) as queries:
            assert api.post(CHECK, place.request(mounts=mounts), format="json").status_code == 200
        counts.add(len(queries))

    assert len(counts) == 1
    assert counts.pop() <= MOST_QUERIES


def test_check_answers_start_range_free_capacity_and_other_groups(place: Place) -> None:
    other = make_place()
    has_image(other.agent, place)
    place.run(resources={"cpu": 6, "mem": "1g"}, timeout_s=600)
    api = api_client(place.owner)
    body = api.post(CHECK, place.request(resources=ALL)).json()
    assert body["other_groups"] == [other.group.name]
    assert body["best_room"]["cpu"] == 2000
    assert 590 <= body["expected_start"]["latest_s"] <= 600

    other.run(resources=ALL)
    assert api.post(CHECK, place.request(resources=ALL)).json()["other_groups"] == []
    other.place(resources=ALL)
    Agent.objects.filter(pk=place.agent.pk).update(state=AgentState.DRAINING.value)
    body = api.post(CHECK, place.request(resources=ALL)).json()
    assert (body["reason"], body["expected_start"]) == ("no_agents", None)


def test_check_names_other_groups_to_users_who_may_use_them(place: Place) -> None:
    other = make_place()
    has_image(other.agent, place)
    ResourceGroup.objects.filter(pk=other.group.pk).update(is_public=False)
    place.run(resources={"cpu": 6, "mem": "1g"})

    def named_to(user: User) -> list[str]:
        answer = api_client(user).post(CHECK, place.request(resources=ALL))
        return answer.json()["other_groups"]

    admin = make_user(role=Role.SUPERADMIN, member_of=place.project)
    assert (named_to(place.owner), named_to(admin)) == ([], [other.group.name])
    GroupGrant.objects.create(group=other.group, project=place.project)
    assert named_to(place.owner) == [other.group.name]
