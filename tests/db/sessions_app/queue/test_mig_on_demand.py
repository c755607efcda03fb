"""MIG partitions that are made for sessions that wait, and races for them."""

from pathlib import Path

import pytest

from agents.machines import service as machines_service
from agents.models import Agent, AgentDevice
from agents.sharing import mig_partitions
from agents.sharing.service import create_sharing_rule
from common.actors import SYSTEM
from scheduler.tick import run_tick
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, KernelAllocation
from sessions_app.queue.mig_on_demand import partition_on_demand
from tests.doubles.split_machine import capacity, discover_devices, make_split_machine
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
MIG = {"cpu": 1, "mem": "1g", "mig-1g-10gb": 1}


@pytest.fixture
def place() -> Place:
    return make_place()


@pytest.fixture
def agent(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    machine = make_split_machine(tmp_path, monkeypatch, place.image.reference)
    agent = machines_service.register_agent(
        actor=SYSTEM, name=machine.name, address=f"tcp://{machine.name}:2376", resource_group=place.group
    )
    discover_devices()
    create_sharing_rule(actor=SYSTEM, group_id=place.group.pk, mode="slice", mig_on_demand=True)
    return agent


def split_and_place(place: Place) -> None:
    partition_on_demand()
    mig_partitions.apply_layouts()
    run_tick(place.group.pk)


def statuses(place: Place, *sessions: ComputeSession) -> list[str]:
    return [place.fresh(session).status for session in sessions]


def test_empty_device_is_split_for_a_session_that_waits(place: Place, agent: Agent) -> None:
    session = place.enqueue(resources=MIG)
    split_and_place(place)
    assert capacity(agent) == {"cuda": 1, "mig-1g-10gb": 7}
    assert statuses(place, session) == [Status.SCHEDULED]
    [held] = KernelAllocation.objects.filter(kernel__session=session).exclude(devices=[])
    assert AgentDevice.objects.get(pk=held.devices[0]).profile == "1g.10gb"
    partition_on_demand()
    assert not AgentDevice.objects.filter(wanted_layout__isnull=False).exists()


def test_empty_partitions_are_removed_for_a_session_that_waits_for_a_whole_device(
    place: Place, agent: Agent
) -> None:
    first = place.enqueue(resources=MIG)
    split_and_place(place)
    whole = [place.enqueue(resources={"cpu": 1, "mem": "1g", "cuda": 1}) for _ in range(2)]
    split_and_place(place)
    assert statuses(place, *whole) == [Status.SCHEDULED, Status.PENDING]
    split_and_place(place)
    assert capacity(agent) == {"cuda": 1, "mig-1g-10gb": 7}  # one is held

    place.end(first)
    split_and_place(place)
    assert (capacity(agent), statuses(place, *whole)) == ({"cuda": 2}, [Status.SCHEDULED] * 2)


def test_group_that_does_not_allow_it_splits_nothing(place: Place, agent: Agent) -> None:
    place.enqueue(resources=MIG)
    place.group.sharing_rules.update(mig_on_demand=False)
    split_and_place(place)
    assert capacity(agent) == {"cuda": 2}


def test_of_two_sessions_one_gets_the_last_partition(place: Place, agent: Agent) -> None:
    device = agent.devices.get(parent_id="", index=0)
    for index in (0, 1):
        device = agent.devices.get(parent_id="", index=index)
        mig_partitions.request_layout(
            actor=SYSTEM, agent_id=agent.pk, device_id=device.pk, layout={"7g.80gb": 1}
        )
    mig_partitions.apply_layouts()
    place.group.sharing_rules.update(mig_on_demand=False)
    wanted = {"cpu": 1, "mem": "1g", "mig-7g-80gb": 1}
    sessions = [place.enqueue(resources=wanted) for _ in range(3)]
    run_tick(place.group.pk)
    assert statuses(place, *sessions) == [Status.SCHEDULED, Status.SCHEDULED, Status.PENDING]
    held = KernelAllocation.objects.exclude(devices=[]).values_list("devices", flat=True)
    assert len({tuple(devices) for devices in held}) == 2
