"""Life cycle of agents: registered, connected, lost, reconnected."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from pytest_django.fixtures import DjangoAssertNumQueries

from agents.core.states import AgentState
from agents.events import AgentLost, CapacityChanged
from agents.machines import service as machines_service
from agents.machines.lifecycle import IllegalTransition
from agents.models import Agent, AgentSlot, ResourceGroup
from agents.resource_groups import service as resource_groups_service
from agents.runtime.registry import adopt_runtime
from agents.selectors import (
    access_agent,
    access_resource_group,
    connected_agents,
    lost_agents,
    visible_agents,
    visible_resource_groups,
)
from common import clock
from common.actors import ANONYMOUS, SYSTEM
from common.errors import InvalidInput, NotFound, PermissionDenied, Unavailable
from common.messaging import events
from tests.conftest import People
from tests.doubles.runtimes import LostRuntime
from tests.factories import actor_for

pytestmark = pytest.mark.django_db
GIB = 2**30
_numbers = count(1)


@pytest.fixture
def group() -> ResourceGroup:
    return resource_groups_service.create_resource_group(actor=SYSTEM, name="default", is_default=True)


@pytest.fixture
def engine() -> LostRuntime:
    return LostRuntime(
        name=f"db-{next(_numbers)}", cpu_milli=4000, mem_bytes=8 * GIB, images=["berth/python:1"]
    )


@pytest.fixture
def agent(group: ResourceGroup, engine: LostRuntime) -> Agent:
    address = f"simulated://agent-{next(_numbers)}"
    adopt_runtime(address, engine)
    return machines_service.register_agent(actor=SYSTEM, name="here", address=address)


@pytest.fixture
def news() -> Iterator[list[events.Event]]:
    """What was announced about machines."""
    heard: list[events.Event] = []
    for event_type in (AgentLost, CapacityChanged):
        events.subscribe(event_type, heard.append)
    yield heard
    for event_type in (AgentLost, CapacityChanged):
        events._handlers[event_type].remove(heard.append)


def heartbeat_after(seconds: float) -> None:
    with clock.frozen_at(clock.now() + timedelta(seconds=seconds)):
        machines_service.heartbeat_agents()


def test_registered_agent_has_what_its_engine_says(agent: Agent, group: ResourceGroup) -> None:
    assert agent.state == AgentState.CONNECTED
    assert agent.resource_group == group
    assert agent.architecture == "x86_64"
    assert agent.capacity["cpu"] == 4000
    assert agent.capacity["mem"] == 8 * GIB - GIB // 2
    assert [image.reference for image in agent.images.all()] == ["berth/python:1"]


def test_registering_again_is_a_refresh(agent: Agent) -> None:
    again = machines_service.register_agent(actor=SYSTEM, name="here", address=agent.address)
    assert again.pk == agent.pk
    assert AgentSlot.objects.filter(agent=agent).count() == 2


def test_one_machine_is_one_agent(agent: Agent, engine: LostRuntime) -> None:
    adopt_runtime("simulated://same-machine", engine)
    with pytest.raises(InvalidInput, match="is that of the agent “here” already"):
        machines_service.register_agent(actor=SYSTEM, name="there", address="simulated://same-machine")


def test_retired_agent_makes_room_for_its_successor(agent: Agent, engine: LostRuntime) -> None:
    machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.RETIRED)
    adopt_runtime("simulated://successor", engine)
    machines_service.register_agent(actor=SYSTEM, name="there", address="simulated://successor")


def test_retired_agent_is_connected_when_it_is_registered_again(agent: Agent) -> None:
    machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.RETIRED)
    assert (
        machines_service.register_agent(actor=SYSTEM, name="here", address=agent.address).state
        == AgentState.CONNECTED
    )


@pytest.mark.parametrize("address", ["", "http://host", "tcp://host", "/var/run/docker.sock"])
def test_nonsense_is_not_an_address(group: ResourceGroup, address: str) -> None:
    with pytest.raises(InvalidInput):
        machines_service.register_agent(actor=SYSTEM, name="here", address=address)


def test_silent_engine_is_not_registered(group: ResourceGroup) -> None:
    with pytest.raises(Unavailable):
        machines_service.register_agent(actor=SYSTEM, name="here", address="unix:///nonexistent/engine.sock")
    assert not Agent.objects.exists()


def test_only_superadmins_change_machines(agent: Agent, people: People) -> None:
    actor = actor_for(people.domain_admin)
    with pytest.raises(PermissionDenied):
        machines_service.register_agent(actor=actor, name="more", address="simulated://more")
    with pytest.raises(PermissionDenied):
        machines_service.change_agent_state(actor=actor, agent_id=agent.pk, to=AgentState.DRAINING)
    with pytest.raises(PermissionDenied):
        resource_groups_service.create_resource_group(actor=actor, name="more")


def test_agent_is_lost_after_twelve_silent_seconds(
    agent: Agent, engine: LostRuntime, news: list[events.Event], django_capture_on_commit_callbacks: Any
) -> None:
    engine.is_lost = True
    heartbeat_after(10)
    agent.refresh_from_db()
    assert (agent.state, agent.last_error) == (AgentState.CONNECTED, "Engine does not answer: lost")

    with django_capture_on_commit_callbacks(execute=True):
        heartbeat_after(12.5)
    agent.refresh_from_db()
    assert agent.state == AgentState.LOST
    assert news == [AgentLost(agent.pk, agent.resource_group_id)]
    assert list(lost_agents(since=clock.now() + timedelta(seconds=60))) == [agent]
    assert list(lost_agents(since=clock.now())) == []
    assert list(connected_agents()) == []


def test_portal_that_was_down_for_an_hour_loses_no_agent_by_one_missing_answer(
    agent: Agent, engine: LostRuntime
) -> None:
    engine.is_lost = True
    heartbeat_after(3600)
    agent.refresh_from_db()
    assert agent.state == AgentState.CONNECTED

    heartbeat_after(3605)
    agent.refresh_from_db()
    assert agent.state == AgentState.LOST


def test_agent_that_comes_back_is_what_it_was(
    agent: Agent, engine: LostRuntime, news: list[events.Event], django_capture_on_commit_callbacks: Any
) -> None:
    machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.DRAINING)
    engine.is_lost = True
    heartbeat_after(10)
    heartbeat_after(15)
    engine.is_lost = False
    heartbeat_after(20)
    agent.refresh_from_db()
    assert (agent.state, agent.last_error) == (AgentState.DRAINING, "")

    with django_capture_on_commit_callbacks(execute=True):
        machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.CONNECTED)
    assert news == [CapacityChanged(agent.resource_group_id)]


def test_another_engine_at_the_address_is_no_heartbeat(agent: Agent) -> None:
    adopt_runtime(agent.address, LostRuntime(name="an-impostor", cpu_milli=64000))
    heartbeat_after(10)
    heartbeat_after(15)
    agent.refresh_from_db()
    assert agent.state == AgentState.LOST
    assert "Another engine" in agent.last_error
    assert agent.capacity["cpu"] == 4000


def test_engine_with_impossible_answers_stops_no_heartbeat_of_others(
    agent: Agent, engine: LostRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("too-long", "no-engine"):
        adopt_runtime(f"simulated://{name}-{agent.pk}", liar := LostRuntime(name=f"{name}-{agent.pk}"))
        machines_service.register_agent(actor=SYSTEM, name=name, address=f"simulated://{name}-{agent.pk}")
        if name == "too-long":
            liar._info = replace(liar._info, version="1" * 100)
        else:
            monkeypatch.setattr(liar, "info", {}.__getitem__)
    before = agent.heartbeat_at
    heartbeat_after(10)
    agent.refresh_from_db()
    assert agent.heartbeat_at > before
    errors = Agent.objects.exclude(pk=agent.pk).values_list("last_error", flat=True)
    assert all("answers like no engine" in error for error in errors)


def test_machine_in_maintenance_may_be_silent(agent: Agent, engine: LostRuntime) -> None:
    machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.MAINTENANCE)
    engine.is_lost = True
    heartbeat_after(3600)
    agent.refresh_from_db()
    assert agent.state == AgentState.MAINTENANCE


def test_states_without_a_way_between_them_are_refused(agent: Agent) -> None:
    machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.RETIRED)
    with pytest.raises(IllegalTransition):
        machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.DRAINING)


def test_growth_and_images_are_noticed(
    agent: Agent, news: list[events.Event], django_capture_on_commit_callbacks: Any
) -> None:
    grown = LostRuntime(name="grown", cpu_milli=8000, mem_bytes=8 * GIB, images=["berth/python:2"])
    grown._info = LostRuntime(name=agent.engine_id.removeprefix("simulated:"), cpu_milli=8000)._info
    adopt_runtime(agent.address, grown)
    with django_capture_on_commit_callbacks(execute=True):
        heartbeat_after(10)
    found = access_agent(SYSTEM, agent.pk)
    assert found.capacity["cpu"] == 8000
    assert [image.reference for image in found.images.all()] == ["berth/python:2"]
    assert news == [CapacityChanged(agent.resource_group_id)]


def test_uneventful_heartbeat_is_no_news(
    agent: Agent, news: list[events.Event], django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        heartbeat_after(10)
    assert news == []


def test_a_machine_that_shrinks_below_what_is_held_takes_nothing_more_and_gives_back(agent: Agent) -> None:
    AgentSlot.objects.filter(agent=agent, slot_name="cpu").update(occupied=3000)
    small = LostRuntime(name=agent.engine_id.removeprefix("simulated:"), cpu_milli=2000, mem_bytes=8 * GIB)
    adopt_runtime(agent.address, small)
    assert machines_service.refresh_agent(actor=SYSTEM, agent_id=agent.pk).capacity["cpu"] == 2000
    cpu = AgentSlot.objects.filter(agent=agent, slot_name="cpu")
    with pytest.raises(IntegrityError), transaction.atomic():
        cpu.update(occupied=3001)
    assert cpu.update(occupied=2500) == 1


def test_database_refuses_more_than_there_is(agent: Agent) -> None:
    for occupied in (-1, 4001):
        with pytest.raises(IntegrityError), transaction.atomic():
            AgentSlot.objects.filter(agent=agent, slot_name="cpu").update(occupied=occupied)


def test_there_is_one_default_group(group: ResourceGroup) -> None:
    second = resource_groups_service.create_resource_group(actor=SYSTEM, name="second", is_default=True)
    assert list(ResourceGroup.objects.filter(is_default=True)) == [second]


def test_group_is_found_by_name_or_is_the_default(group: ResourceGroup, people: People) -> None:
    actor = actor_for(people.member)
    resource_groups_service.create_resource_group(actor=SYSTEM, name="a-second")
    assert access_resource_group(actor) == group
    assert access_resource_group(actor, "a-second").name == "a-second"
    with pytest.raises(NotFound, match="nothing"):
        access_resource_group(actor, "nothing")


def test_signed_in_users_see_agents_in_use(agent: Agent, people: People) -> None:
    member, superadmin = actor_for(people.member), actor_for(people.superadmin)
    assert list(visible_agents(member)) == [agent]
    assert not visible_agents(ANONYMOUS).exists()
    assert not visible_resource_groups(ANONYMOUS).exists()

    machines_service.change_agent_state(actor=SYSTEM, agent_id=agent.pk, to=AgentState.RETIRED)
    assert not visible_agents(member).exists()
    assert list(visible_agents(superadmin)) == [agent]
    with pytest.raises(NotFound):
        access_agent(member, agent.pk)


def test_agents_with_their_parts_take_three_queries(
    agent: Agent, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(3):
        for found in Agent.objects.with_parts():
            assert found.capacity
            assert found.images.all()
            assert found.device_list == []
            assert found.resource_group.name
