"""Suggestions of other resource groups in which a session would start at once."""

from datetime import timedelta
from typing import Any

import pytest

from accounts.models import Project
from agents.models import Agent, AgentSlot
from agents.reservations.service import reserve_agents
from common import clock
from common.actors import SYSTEM
from images.models import ContainerImage, Registry
from scheduler.forecast import snapshot_cache
from sessions_app.admission.forecast import forecast_session, forecast_waiting_session
from sessions_app.core.request import parse_request
from tests.factories import actor_for
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
ALL = {"cpu": 8, "mem": "1g"}
BATCH = {"type": "batch", "command": "true"}
HOUR = timedelta(hours=1)


@pytest.fixture
def place() -> Place:
    """Full, with an image that a registry has."""
    snapshot_cache.clear_cache()
    place = make_place()
    registry = Registry.objects.create(name="r", host="r.example", url="https://r.example")
    ContainerImage.objects.filter(pk=place.image.pk).update(registry=registry)
    AgentSlot.objects.create(agent=place.agent, slot_name="cuda", capacity=1000)
    Agent.objects.filter(pk=place.agent.pk).update(device_model="H100")
    place.run(resources={**ALL, "cuda": 1})
    return place


@pytest.fixture
def other(place: Place) -> Place:
    """Empty, and with accelerators of another model."""
    other = make_place()
    AgentSlot.objects.create(agent=other.agent, slot_name="cuda", capacity=1000)
    Agent.objects.filter(pk=other.agent.pk).update(device_model="A100")
    return other


def is_offered(place: Place, other: Place, **asked: Any) -> bool:
    """Before it is asked for, and while it waits, which is the same."""
    actor, raw = actor_for(place.owner), place.request(**{"resources": ALL, **asked})
    before = forecast_session(actor, parse_request(raw)).other_groups
    waiting = place.place(**raw)
    prospect = forecast_waiting_session(actor, waiting)
    assert prospect is not None
    assert list(prospect.other_groups) == list(before)
    place.end(waiting)
    return other.group.name in before


def reserve(other: Place, *, begins: timedelta | None = None, grantee: Project | None = None) -> None:
    starts_at = None if begins is None else clock.now() + begins
    reserve_agents(
        actor=SYSTEM,
        group_id=other.group.pk,
        name="Course",
        agents=[other.agent.name],
        starts_at=starts_at,
        ends_at=(starts_at or clock.now()) + HOUR,
        grantee=grantee,
    )


def test_group_with_free_capacity_is_suggested(place: Place, other: Place) -> None:
    assert is_offered(place, other)


def test_accelerators_are_of_the_model_that_is_wanted(place: Place, other: Place) -> None:
    asked = {"resources": {"cpu": 1, "mem": "1g", "cuda": 1}}
    assert is_offered(place, other, **asked)
    assert not is_offered(place, other, **asked, device_model="H100")
    Agent.objects.filter(pk=other.agent.pk).update(device_model="H100")
    assert is_offered(place, other, **asked, device_model="H100")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_session_with_designated_agent_gets_no_suggestion(
    place: Place, other: Place, elsewhere: bool
) -> None:
    assert not is_offered(place, other, designated_agent=place.agent.name, may_run_elsewhere=elsewhere)


def test_a_machine_of_another_architecture_is_none(place: Place, other: Place) -> None:
    Agent.objects.filter(pk=other.agent.pk).update(architecture="aarch64")
    assert not is_offered(place, other)


def test_an_image_that_no_registry_has_is_copied_there(place: Place, other: Place) -> None:
    ContainerImage.objects.filter(pk=place.image.pk).update(registry=None)
    assert is_offered(place, other)


def test_machines_that_are_reserved_for_others_are_none(place: Place, other: Place) -> None:
    reserve(other, grantee=other.project)
    assert not is_offered(place, other)


def test_machines_that_are_reserved_for_its_project_are_some(place: Place, other: Place) -> None:
    reserve(other, grantee=place.project)
    assert is_offered(place, other)


@pytest.mark.parametrize("is_own", [False, True])
def test_before_a_reservation_only_what_ends_in_time_is_sent_there(
    place: Place, other: Place, is_own: bool
) -> None:
    reserve(other, begins=HOUR, grantee=place.project if is_own else None)
    assert not is_offered(place, other)
    assert not is_offered(place, other, timeout_s=7200, **BATCH)
    assert is_offered(place, other, timeout_s=1800, **BATCH)


def test_distant_reservation_does_not_prevent_suggestion(place: Place, other: Place) -> None:
    reserve(other, begins=timedelta(days=8))
    assert is_offered(place, other)
