"""Capacity freed by preemption goes to the preempting session, also past earlier ones of its priority."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    PartlyFreeDevice,
    PendingSession,
    Plan,
    Policy,
    PreemptionClaim,
    Quota,
    ReasonCode,
    Requirements,
    Rules,
    RunningAllocation,
    SlotDevices,
    Snapshot,
    Strategy,
    plan,
)
from tests.unit.scheduler.engine.test_preemption import NOW, RULE, SOON, agent, cores, runs, waits

NOW_GONE = NOW + RULE.grace
HALF = ResourceSlots({"cpu": 4000, "cuda": 500})


def promised(session: PendingSession, agent_id: int) -> PendingSession:
    return replace(session, preemption_claim=PreemptionClaim(agent_id, SOON))


def decide(agents: Iterable[AgentView], *pending: PendingSession, **rules: object) -> Plan:
    snapshot = Snapshot(1, "lab", 0, tuple(agents), pending, Rules(preemption=RULE, **rules))  # type: ignore[arg-type]
    return plan(snapshot, NOW_GONE)


def placed(decided: Plan) -> dict[int, int]:
    return {each.session_id.int: each.agent_ids[0] for each in decided.placements}


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("ageing", [None, timedelta(hours=1)])
def test_each_gets_what_was_left_for_it_and_not_what_was_left_for_another(
    policy: Policy, ageing: timedelta | None
) -> None:
    small = replace(agent(2), capacity=cores(4), free=cores(4))
    first, second = promised(waits(1, 4), 2), promised(waits(2, 8), 1)
    decided = decide((agent(1), small), first, second, policy=policy, ageing=ageing, strategy=Strategy.DISPERSED)  # fmt: skip
    assert placed(decided) == {1: 2, 2: 1}


@pytest.mark.parametrize("policy", Policy)
def test_claimed_capacity_is_closed_to_equal_priority_even_heads(policy: Policy) -> None:
    """The other is ahead by each policy but last in, first out: it is older and a head. There it is the newer."""
    other, session = replace(waits(1, 7), head_rank=1), promised(waits(2, 8), 1)
    if policy is Policy.LIFO:
        other = replace(other, enqueued_at=NOW + timedelta(hours=1))
    busy = replace(agent(2, others=8), running=(RunningAllocation(cores(8), NOW + timedelta(hours=2)),))
    assert placed(decide((agent(1), busy), other, session, policy=policy)) == {2: 1}


@pytest.mark.parametrize("policy", Policy)
def test_capacity_of_the_first_victim_is_reserved_until_all_have_ended(policy: Policy) -> None:
    other, session = replace(waits(1, 4), head_rank=1), promised(waits(2, 8), 1)
    decided = decide((agent(1, others=4), agent(2, others=7)), other, session, policy=policy)
    assert not decided.placements
    assert {each.session_id.int: each.reason for each in decided.deferrals}[2] is ReasonCode.MAKING_ROOM


def test_capacity_freed_for_two_sessions_is_given_once() -> None:
    first, second, other = promised(waits(1, 8), 1), promised(waits(2, 8), 1), waits(3, 4, priority=0)
    decided = decide((agent(1, others=4),), first, second, other)
    assert not decided.placements, "it is kept for the first"
    gone = decide(
        (agent(1, others=4),), replace(first, requirements=Requirements("arm", (cores(8),))), second, other
    )
    assert not gone.placements
    assert [each.session_id for each in gone.reservations] == [UUID(int=2)]


def test_session_ahead_may_be_placed_elsewhere() -> None:
    session, other = promised(waits(1, 6), 1), waits(2, 4)
    decided = decide((agent(1, others=4), agent(2)), session, other)
    assert placed(decided) == {1: 2, 2: 1}


def test_a_higher_priority_is_still_ahead() -> None:
    higher, session = waits(1, 8, priority=11), promised(waits(2, 8), 1)
    assert placed(decide((agent(1),), higher, session)) == {1: 1}


@pytest.mark.parametrize("ageing", [None, timedelta(hours=1)])
def test_freed_device_shares_are_reserved_too(ageing: timedelta | None) -> None:
    capacity = ResourceSlots({"cpu": 8000, "cuda": 1000})
    devices = (SlotDevices("cuda", 1, 0, (PartlyFreeDevice(5, 500),)),)
    there = AgentView(1, "x86_64", capacity, HALF, devices=devices)
    needs = Requirements("x86_64", (HALF,))
    older, session = replace(waits(1, 4), requirements=needs), replace(waits(2, 4), requirements=needs)
    decided = decide((there,), older, promised(session, 1), ageing=ageing)
    expected = {2: 1} if ageing is None else {1: 1}  # with ageing one is ahead, whatever its priority
    assert placed(decided) == expected


def test_next_session_of_equal_requirements_gets_a_reservation_too() -> None:
    """Though of these one session waits for others to end already."""
    session, same, passing = (
        promised(waits(1, 8), 2),
        waits(2, 8, priority=0, minutes=60),
        waits(3, 4, priority=0),
    )
    same = replace(same, requirements=session.requirements)
    soon = replace(agent(1, others=4), running=(RunningAllocation(cores(4), NOW + timedelta(minutes=10)),))
    decided = decide((soon, agent(2, others=8)), session, same, passing)
    assert not decided.placements
    assert [each.session_id for each in decided.reservations] == [UUID(int=1), UUID(int=2)]


@pytest.mark.parametrize(("most", "is_one_ended"), [(12, True), (11, False)])
def test_what_it_gets_counts_once_at_its_limit(most: int, is_one_ended: bool) -> None:
    """Not also as what is on the way to it: else nobody would end for another of its project that may have the rest."""
    session, other = [
        replace(each, scopes=("project:1",)) for each in (promised(waits(1, 8), 1), waits(2, 4))
    ]
    limit = Quota("project:1", "project", "its name", {"cpu": most * 1000}, {"cpu": 0})
    busy = agent(2, runs(101, 8, priority=-1))
    snapshot = Snapshot(1, "lab", 0, (agent(1), busy), (session, other), Rules(preemption=RULE), (limit,))
    decided = plan(snapshot, NOW_GONE)
    assert placed(decided) == {1: 1}
    assert [each.session_id.int for each in decided.evictions] == [2] * is_one_ended
    assert (decided.deferrals[0].reason is ReasonCode.LIMIT_REACHED) is not is_one_ended


def test_where_its_limits_do_not_let_it_have_what_was_left_another_takes_it() -> None:
    session, other = replace(promised(waits(1, 8), 1), scopes=("project:1",)), waits(2, 4)
    limit = Quota("project:1", "project", "its name", {"cpu": 8000}, {"cpu": 4000})
    snapshot = Snapshot(1, "lab", 0, (agent(1),), (session, other), Rules(preemption=RULE), (limit,))
    decided = plan(snapshot, NOW_GONE)
    assert placed(decided) == {2: 1}
    assert [each.reason for each in decided.deferrals] == [ReasonCode.LIMIT_REACHED]
