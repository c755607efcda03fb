"""`bin/manage register_agent`: the registered agent, and its errors."""

from datetime import timedelta
from io import StringIO
from itertools import count

import pytest
from django.core.management import CommandError, call_command

from agents.core.states import AgentState
from agents.machines.service import change_agent_state
from agents.models import Agent, ResourceGroup
from agents.reservations.service import reserve_agents
from agents.resource_groups import service
from agents.runtime.registry import adopt_runtime
from common import clock
from common.actors import SYSTEM
from common.models import AuditEntry
from scheduler.run_state import run_state
from tests.doubles.runtimes import LostRuntime

pytestmark = pytest.mark.django_db
_numbers = count(1)


@pytest.fixture
def group() -> ResourceGroup:
    return service.create_resource_group(actor=SYSTEM, name="default", is_default=True)


@pytest.fixture
def address() -> str:
    """Of an engine with 4 cores."""
    return f"simulated://command-{next(_numbers)}?cpu=4&mem_gib=8"


def register(*arguments: str) -> str:
    said = StringIO()
    call_command("register_agent", *arguments, stdout=said)
    return said.getvalue()


def test_machine_is_registered_in_the_default_group_and_told(group: ResourceGroup, address: str) -> None:
    said = register("gpu-01", address)
    agent = Agent.objects.get(name="gpu-01")
    assert (agent.state, agent.resource_group, agent.address) == (AgentState.CONNECTED, group, address)
    assert agent.capacity["cpu"] == 4000
    assert said.startswith(f"gpu-01 is {agent.state}: ")
    assert said.endswith("\n")


def test_machine_is_registered_in_the_group_that_was_named(group: ResourceGroup, address: str) -> None:
    other = service.create_resource_group(actor=SYSTEM, name="night", is_default=False)
    register("gpu-01", address, "--group", "night")
    assert Agent.objects.get(name="gpu-01").resource_group == other


def test_known_machine_is_looked_at_again(group: ResourceGroup, address: str) -> None:
    register("gpu-01", address)
    register("gpu-01", address)
    assert Agent.objects.count() == 1


def test_known_machine_stays_in_its_group_unless_another_is_named(group: ResourceGroup, address: str) -> None:
    night = service.create_resource_group(actor=SYSTEM, name="night")
    register("gpu-01", address, "--group", "night")
    epoch = run_state(ResourceGroup.objects.get(pk=night.pk)).epoch
    register("gpu-01", address)
    assert Agent.objects.get(name="gpu-01").resource_group == night

    register("gpu-01", address, "--group", "default")
    assert Agent.objects.get(name="gpu-01").resource_group == group
    assert run_state(ResourceGroup.objects.get(pk=night.pk)).epoch == epoch + 1, (
        "what was planned with it is stale"
    )
    assert AuditEntry.objects.filter(action="agents.move_agent").count() == 1


def test_reserved_machine_is_not_registered_into_another_group(group: ResourceGroup, address: str) -> None:
    night = service.create_resource_group(actor=SYSTEM, name="night")
    register("gpu-01", address, "--group", "night")
    ends_at = clock.now() + timedelta(hours=1)
    reserve_agents(
        actor=SYSTEM, group_id=night.pk, name="Course", agents=["gpu-01"], starts_at=None, ends_at=ends_at
    )
    register("gpu-01", address)
    with pytest.raises(CommandError, match="reserved for “Course”"):
        register("gpu-01", address, "--group", "default")
    assert Agent.objects.get(name="gpu-01").resource_group == night


def test_retired_machine_of_a_deleted_group_joins_the_default_one(group: ResourceGroup, address: str) -> None:
    night = service.create_resource_group(actor=SYSTEM, name="night")
    register("gpu-01", address, "--group", "night")
    change_agent_state(actor=SYSTEM, agent_id=Agent.objects.get(name="gpu-01").pk, to=AgentState.RETIRED)
    service.delete_resource_group(actor=SYSTEM, group_id=night.pk)
    register("gpu-01", address)
    agent = Agent.objects.get(name="gpu-01")
    assert (agent.state, agent.resource_group) == (AgentState.CONNECTED, group)


def test_unknown_group_is_refused_with_those_that_are_known(group: ResourceGroup, address: str) -> None:
    with pytest.raises(CommandError, match=r"no resource group .*nowhere.* Your resource groups: default"):
        register("gpu-01", address, "--group", "nowhere")
    assert not Agent.objects.exists()


def test_engine_that_does_not_answer_is_refused(group: ResourceGroup, address: str) -> None:
    engine = LostRuntime(name="lost")
    engine.is_lost = True
    adopt_runtime(address, engine)
    with pytest.raises(CommandError, match="does not answer"):
        register("gpu-01", address)
    assert not Agent.objects.exists()


def test_address_of_no_engine_is_refused(group: ResourceGroup) -> None:
    with pytest.raises(CommandError):
        register("gpu-01", "gopher://gpu-01")
    assert not Agent.objects.exists()
