"""Maintenance with an end, draining, and sandboxes: what they mean for sessions and their owners."""

from datetime import timedelta

import pytest

from agents.capacity.free_capacity import group_capacities
from agents.core.states import AgentState
from agents.machines.lifecycle import UNPLANNED, Maintenance
from agents.machines.service import change_agent_state, heartbeat_agents
from agents.models import Agent, ResourceGroup
from agents.resource_groups.service import update_resource_group
from agents.runtime.registry import adopt_runtime
from common import clock
from common.actors import SYSTEM
from common.errors import InvalidInput, LimitExceeded
from common.models import AuditEntry
from portal.models import Notification
from portal.notifications.selectors import notification_url
from scheduler.tick import run_tick
from sessions_app.models import ComputeSession
from tests.doubles.runtimes import LostRuntime
from tests.factories_devices import give_devices
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def place() -> Place:
    return make_place()


def to_state(place: Place, to: AgentState, maintenance: Maintenance = UNPLANNED) -> Agent:
    return change_agent_state(actor=SYSTEM, agent_id=place.agent.pk, to=to, maintenance=maintenance)


def reason(place: Place, session: ComputeSession) -> str:
    run_tick(place.group.pk)
    return str(place.fresh(session).status_message)


def test_a_session_waits_for_the_end_of_a_maintenance_and_is_told_why(place: Place) -> None:
    ends_at = clock.now() + HOUR
    to_state(place, AgentState.MAINTENANCE, Maintenance(ends_at, "disk change"))
    said = reason(place, place.enqueue())
    assert f"in maintenance until {ends_at:%Y-%m-%d %H:%M} UTC: disk change." in said

    to_state(place, AgentState.MAINTENANCE, Maintenance(None, "disk change"))
    assert "in maintenance: disk change. It starts when" in reason(place, place.enqueue())


def test_a_machine_takes_sessions_at_the_end_of_its_maintenance_if_it_answers(place: Place) -> None:
    engine = LostRuntime(name=place.runtime.name, cpu_milli=1000)
    adopt_runtime(place.agent.address, engine)
    to_state(place, AgentState.MAINTENANCE, Maintenance(clock.now() + HOUR, "disk change"))
    heartbeat_agents()
    assert Agent.objects.get().state == AgentState.MAINTENANCE

    with clock.frozen_at(clock.now() + HOUR + timedelta(seconds=1)):
        engine.is_lost = True
        heartbeat_agents()
        silent = Agent.objects.get()
        assert (silent.state, bool(silent.last_error)) == (AgentState.MAINTENANCE, True)
        engine.is_lost = False
        heartbeat_agents()
    back = Agent.objects.get()
    assert (back.state, back.maintenance_ends_at, back.maintenance_reason) == ("connected", None, "")


def test_a_maintenance_ends_later_than_now_and_other_states_have_no_end(place: Place) -> None:
    with pytest.raises(InvalidInput, match="later time"):
        to_state(place, AgentState.MAINTENANCE, Maintenance(clock.now()))
    with pytest.raises(InvalidInput, match="Only a maintenance"):
        to_state(place, AgentState.DRAINING, Maintenance(because="disk change"))


@pytest.mark.django_db(transaction=True)
def test_each_owner_is_told_once_that_a_machine_is_taken_out_of_use(place: Place) -> None:
    place.run(resources={"cpu": 1, "mem": "64m"})
    place.run(resources={"cpu": 1, "mem": "64m"})
    to_state(place, AgentState.DRAINING)
    to_state(place, AgentState.DRAINING)
    [notice] = Notification.objects.all()
    assert (notice.person_id, notice.code) == (place.owner.pk, "machine_drained")
    assert notice.arguments == {"name": place.agent.name, "count": 2}
    assert notification_url(notice) == "/sessions/"

    to_state(place, AgentState.MAINTENANCE)
    assert Notification.objects.count() == 1
    to_state(place, AgentState.CONNECTED)
    to_state(place, AgentState.MAINTENANCE)
    assert Notification.objects.count() == 2


def test_a_machine_without_the_sandbox_of_its_group_gets_no_sessions(place: Place) -> None:
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"sandbox": "gvisor"})
    Agent.objects.update(sandboxes=["kata"])
    assert "has the sandbox gVisor. It starts when one does" in reason(place, place.enqueue())
    [capacity] = group_capacities(ResourceGroup.objects.filter(pk=place.group.pk))
    assert (capacity.agents, capacity.unavailable_agents, capacity.largest_free_agent) == (0, 1, "")
    assert not any(capacity.free.values())
    with pytest.raises(LimitExceeded, match="does not have gVisor"):
        place.enqueue(designated_agent=place.agent.name)
    Agent.objects.update(sandboxes=["gvisor"])
    [capacity] = group_capacities(ResourceGroup.objects.filter(pk=place.group.pk))
    assert (capacity.agents, capacity.largest_free_agent) == (1, place.agent.name)
    with pytest.raises(InvalidInput, match="has Kata Containers"):
        update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"sandbox": "kata"})

    session = place.run()
    [container] = place.runtime.state.containers.values()
    assert container.spec.runtime == "runsc"
    assert session.is_running


def test_a_sandbox_that_gives_no_accelerators_refuses_them_in_words(place: Place) -> None:
    give_devices(place.agent)
    asked = {"resources": {"cpu": 1, "mem": "64m", "gpu": 1}}
    waiting = place.place(**asked)
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"sandbox": "kata"})
    with pytest.raises(LimitExceeded, match="run in Kata Containers, which cannot give them accelerators"):
        place.enqueue(**asked)
    ended = place.run_pending(waiting)
    assert "cannot give them accelerators" in str(ended.status_message)
    assert place.runtime.state.containers == {}


def test_what_changes_of_a_machine_is_an_event_of_it(place: Place) -> None:
    Agent.objects.update(engine_version="24.0.7")
    heartbeat_agents()
    [event] = AuditEntry.objects.filter(action="agents.observe_machine")
    assert event.changes == {"engine_version": ["24.0.7", place.runtime.info().version]}
