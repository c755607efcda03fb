"""Pinned heads: the next plan tries sessions with a reservation first (ADR 50)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import (
    Accumulation,
    AgentView,
    Gang,
    PendingSession,
    Plan,
    Policy,
    PreemptionClaim,
    PreemptionRule,
    Quota,
    Requirements,
    Rules,
    RunningAllocation,
    Snapshot,
    plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SOON, LATE = NOW + timedelta(minutes=10), NOW + timedelta(hours=2)
LAST_COME = Rules(policy=Policy.LIFO)
STEPWISE = pytest.mark.parametrize("policy", [Policy.LIFO, Policy.DRF, Policy.FAIR_SHARE])


def cores(count: int) -> ResourceSlots:
    return ResourceSlots({"cpu": count * 1000})


def agent(agent_id: int, ends_at: datetime | None, free: int = 0, has: int = 8) -> AgentView:
    """What is not free is held until then; None: nobody knows."""
    held = cores(has - free)
    running = (RunningAllocation(held, ends_at),) if ends_at and free < has else ()
    return AgentView(agent_id, "x86_64", cores(has), cores(free), running=running)


def waits(
    number: int, *kernels: int, rank: int = 0, waited: timedelta = timedelta(0), designated: int | None = None
) -> PendingSession:
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - waited,
        requirements=Requirements("x86_64", tuple(map(cores, kernels)), designated, gang=Gang.SPREAD),
        kernel_ids=tuple(UUID(int=number * 100 + index) for index in range(len(kernels))),
        head_rank=rank,
    )


def decide(rules: Rules, agents: list[AgentView], *pending: PendingSession, limit: int | None = None) -> Plan:
    allowances = () if limit is None else (Quota("u", "user", "ann", {"cpu": limit * 1000}, {}),)
    scoped = tuple(each if limit is None else replace(each, scopes=("u",)) for each in pending)
    return plan(Snapshot(1, "lab", 0, tuple(agents), scoped, rules, quotas=allowances), NOW)


def numbers(ids: tuple[UUID, ...]) -> list[int]:
    return [each.int for each in ids]


@pytest.mark.parametrize("policy", Policy)
def test_plan_lists_sessions_with_reservations_as_heads(policy):
    first, second = waits(1, 8), waits(2, 8)
    decided = decide(Rules(policy=policy), [agent(1, SOON)], first, second)
    assert numbers(decided.heads) == [2 if policy is Policy.LIFO else 1]


@STEPWISE
def test_head_keeps_its_reservation_against_queue_order(policy):
    older, newest = waits(1, 8, waited=timedelta(minutes=1)), waits(3, 8)
    head = waits(2, 8, rank=1, waited=timedelta(seconds=30))
    decided = decide(Rules(policy=policy), [agent(1, SOON)], older, head, newest)
    assert numbers(decided.heads) == [2]
    assert [each.session_id.int for each in decided.reservations] == [2]


def test_started_session_is_no_head():
    assert decide(LAST_COME, [agent(1, SOON, free=8)], waits(1, 8, rank=1)).heads == ()


def test_heads_stay_in_the_order_in_which_they_were_tried():
    agents = [agent(1, SOON), agent(2, LATE)]
    first, second = waits(2, 8, rank=1, designated=1), waits(1, 8, rank=2, designated=2)
    assert numbers(decide(LAST_COME, agents, second, first).heads) == [2, 1]


def test_there_is_one_at_a_time_however_many_keep_room():
    """A second one on the small machine would go on to the large one, before whoever is ahead of it and needs that."""
    agents = [agent(1, LATE), agent(2, SOON, has=12)]
    head, beside = waits(1, 12, rank=1), waits(2, 8, designated=1)
    decided = decide(LAST_COME, agents, head, beside)
    assert {each.session_id.int for each in decided.reservations} == {1, 2}
    assert numbers(decided.heads) == [1]
    assert numbers(decide(LAST_COME, agents, replace(head, head_rank=0), beside).heads) == [2]


def test_head_without_reservable_capacity_is_dropped():
    by_rank = waits(1, 8, rank=2, waited=timedelta(hours=1)), waits(2, 8, rank=1)
    assert numbers(decide(LAST_COME, [agent(1, SOON)], *by_rank).heads) == [2]


@pytest.mark.parametrize("named", [None, 1, 7])
def test_a_head_that_no_machine_could_hold_is_none_any_more(named):
    large = waits(1, 9, rank=1, designated=named)
    assert decide(LAST_COME, [agent(1, SOON)], waits(2, 8, rank=2), large).heads == (UUID(int=2),)


def test_reservation_of_unknown_start_makes_no_head():
    """It may never be, and others need not wait for that."""
    patient = replace(LAST_COME, patience=timedelta(0))
    decided = decide(patient, [agent(1, None)], waits(1, 8, rank=1))
    assert len(decided.reservations) == 1
    assert decided.heads == ()
    assert decide(LAST_COME, [agent(1, None)], waits(1, 8, rank=1)).heads == ()


def test_session_waiting_for_a_limit_is_no_head():
    decided = decide(LAST_COME, [agent(1, SOON)], waits(1, 8, rank=1), waits(2, 7), limit=7)
    assert numbers(decided.heads) == [2]


@pytest.mark.parametrize("policy", Policy)
def test_while_nothing_starts_all_of_them_stay(policy):
    chosen = Accumulation(UUID(int=2), (1,), SOON, SOON)
    pending = waits(1, 8, rank=2), replace(waits(2, 8), accumulation=chosen), waits(3, 8, rank=1)
    decided = decide(Rules(policy=policy, is_paused=True), [agent(1, SOON, free=8)], *pending)
    assert set(numbers(decided.heads)) == {1, 3}
    assert decided.accumulations == (chosen,)


@pytest.mark.parametrize("policy", Policy)
def test_preempted_capacity_makes_no_head(policy):
    """A gang evicts nobody; machine 1 would be the first that it has."""
    rules = Rules(policy=policy, preemption=PreemptionRule(-1, timedelta(0), timedelta(minutes=1)))
    agents = [agent(1, SOON), agent(2, LATE), agent(3, LATE + timedelta(hours=1))]
    gang = waits(1, 8, 8, rank=1, waited=timedelta(minutes=5))
    makes_room = replace(waits(2, 8), preemption_claim=PreemptionClaim(1, SOON))
    decided = decide(rules, agents, gang, makes_room)
    assert {each.session_id.int: each.agent_ids for each in decided.reservations} == {1: (2, 3), 2: (1,)}
