"""Placement on linked devices and by other demands on devices, by examples."""

from dataclasses import replace

import pytest

from scheduler.engine import (
    AgentView,
    Explanation,
    Gang,
    PendingSession,
    ReasonCode,
    RunningAllocation,
    SlotDevices,
)
from scheduler.explain.messages import message_for
from tests.unit.scheduler.engine.test_accelerators import agent, at, decide, placed, session, slots

GIB = 2**30


def linked_agent(number: int, total: int, *free_by_group: int, **also: object) -> AgentView:
    """An agent with groups of `total` linked devices each, of which so many are free."""
    free = sum(free_by_group)
    links = (total,) * len(free_by_group)
    devices = SlotDevices("gpu", sum(links), free, (), links, free_by_group)
    view = AgentView(
        number,
        "x86_64",
        slots(total * len(free_by_group) * 1000, 8),
        slots(free * 1000, 8),
        devices=(devices,),
    )
    return replace(view, **also)


def linked(number: int, *gpus: float, **more: object) -> PendingSession:
    return session(number, *(int(gpu * 1000) for gpu in gpus), linked_devices=True, **more)


def why(*agents: AgentView, pending: PendingSession) -> Explanation:
    [deferral] = decide(agents, pending).deferrals
    return deferral.explanation


def test_linked_devices_come_of_one_link_group():
    assert placed(decide([linked_agent(1, 4, 2, 2), linked_agent(2, 4, 4, 0)], linked(1, 4))) == {1: (2,)}
    explained = why(linked_agent(1, 4, 2, 3), pending=linked(1, 4))
    assert explained.reason is ReasonCode.FRAGMENTED
    assert str(message_for(explained, "lab")) == (
        "Waits for 4 gpu that are linked with each other on one agent: resource group “lab” has 5 gpu free in total, but no"
        " more than 3 gpu that are linked on an agent with room for the rest."
    )


def test_one_device_and_a_part_need_no_link():
    assert placed(decide([agent(1, 2, 500, whole=1)], linked(1, 1), linked(2, 0.5))) == {1: (1,), 2: (1,)}


def test_what_a_pass_places_may_break_a_link_group_so_another_is_placed_in_the_next():
    eight = linked_agent(1, 8, 8)
    assert placed(decide([eight], linked(1, 4), linked(2, 4))) == {1: (1,), 2: (1,)}
    pairs = linked_agent(1, 2, 2, 2)
    two_ones = session(1, 1000, waited=2), session(2, 1000, waited=2)
    assert placed(decide([pairs], two_ones[0], linked(3, 2))) == {1: (1,), 3: (1,)}
    decided = decide([pairs], *two_ones, linked(3, 2))
    assert placed(decided) == {1: (1,), 2: (1,)}
    assert decided.deferrals[0].reason is ReasonCode.FRAGMENTED


def test_capacity_is_reserved_for_linked_devices_until_a_group_must_be_free():
    """Of two groups of two, three devices must be free, so that two of one group are."""
    running = tuple(RunningAllocation(slots(1000), at(minute)) for minute in (5, 9))
    one_each = linked_agent(1, 2, 1, 1, running=running)
    decided = decide([one_each], linked(1, 2), session(2, 1000), session(3, 1000, minutes=4))
    assert decided.reservations[0].starts_at == at(5)
    assert placed(decided) == {3: (1,)}


def test_kernels_of_a_gang_on_one_agent_are_all_linked():
    gang = linked(1, 2, 2, gang=Gang.ONE_MACHINE)
    assert not placed(decide([linked_agent(1, 3, 3, 2)], gang))
    assert placed(decide([linked_agent(1, 4, 4, 2)], gang)) == {1: (1, 1)}


@pytest.mark.parametrize(
    ("demand", "words"),
    [
        ({"device_mem_bytes": 80 * GIB}, "with 80 GiB of memory each, but the largest of resource group “lab” have 40 GiB"),
        ({"device_api_version": 12040}, "Needs gpu 12.4, but the agents of resource group “lab” run at most 12.2"),
        ({"linked_devices": True}, "Asks for 4 gpu that are linked with each other on one agent, but resource group “lab” has no more than 2 gpu"),
        ({"least_isolation": 3}, "not isolated as well as it asks"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)  # fmt: skip
def test_a_demand_that_no_agent_meets_is_told(demand: dict[str, object], words: str):
    facts = {"device_mem_bytes": 40 * GIB, "device_api_version": 12020, "isolation": 2}
    explained = why(linked_agent(1, 2, 2, 2, **facts), pending=session(1, 4000, **demand))
    assert explained.reason is ReasonCode.NO_SUCH_DEVICE
    assert words in str(message_for(explained, "lab"))


def test_each_demand_is_met_on_an_agent_that_meets_it():
    small = linked_agent(1, 4, 4, device_mem_bytes=40 * GIB, device_api_version=13000)
    old = linked_agent(2, 4, 4, device_mem_bytes=80 * GIB, device_api_version=12020)
    asked = {"device_mem_bytes": 80 * GIB}, {"device_api_version": 12040}
    pending = [session(number, 1000, **each) for number, each in enumerate(asked, 1)]
    assert placed(decide([small, old], *pending)) == {1: (2,), 2: (1,)}
    both = session(3, 1000, **asked[0], **asked[1])
    assert "run at most 12.2" in str(message_for(why(small, old, pending=both), "lab"))
