"""Laws of the queue order: priority, LIFO, and ageing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import AgentView, PendingSession, Policy, Requirements, Rules, Snapshot, plan

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ONE = Requirements("x86_64", (ResourceSlots({"cpu": 1}),))
CORES = 100
TENANTS = (("d", "p", "ann"), ("d", "q", "bea"), ("e", "r", "cem"))
AGEINGS = st.integers(1, 9).map(lambda seconds: timedelta(seconds=seconds))
STEPWISE = [policy for policy in Policy if policy is not Policy.FIFO]
"""They order those of equal priority, and so waiting raises by whole ones."""
PRIORITIES = st.integers(-2, 3)
AGES_S = st.integers(-3, 40)


@st.composite
def queues(draw: st.DrawFn) -> tuple[PendingSession, ...]:
    """Of one core each. Some came at the same moment, and one clock may be ahead of another."""
    drawn = draw(st.lists(st.tuples(AGES_S, PRIORITIES, st.sampled_from(TENANTS)), max_size=12))
    return tuple(session(number, *each) for number, each in enumerate(drawn, 1))


def session(number: int, age_s: int, priority: int, tenants: tuple[str, ...] = TENANTS[0]) -> PendingSession:
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - timedelta(seconds=age_s),
        requirements=ONE,
        kernel_ids=(UUID(int=number),),
        priority=priority,
        tenants=tenants,
    )


def tried(
    rules: Rules, free: int, pending: Sequence[PendingSession], now: datetime = NOW
) -> tuple[list[UUID], list[UUID]]:
    """Whom so many free cores go to, and who waits on, each in the order in which they were tried."""
    agent = AgentView(1, "x86_64", ResourceSlots({"cpu": CORES}), ResourceSlots({"cpu": free}))
    decided = plan(Snapshot(1, "lab", 0, (agent,), tuple(pending), rules), now)
    return [each.session_id for each in decided.placements], [each.session_id for each in decided.deferrals]


def raised(each: PendingSession, ageing: timedelta, now: datetime = NOW) -> int:
    """Its priority, and one more for each whole time of ageing that it has waited."""
    priority, at = each.priority, each.enqueued_at + ageing
    while at <= now:
        priority, at = priority + 1, at + ageing
    return priority


@given(queues(), st.integers(0, 12))
def test_the_newest_of_the_highest_priority_is_tried_first_where_the_last_come_first(pending, free):
    expected = sorted(pending, key=lambda each: (each.priority, each.enqueued_at, each.id), reverse=True)
    ids = [each.id for each in expected]
    assert tried(Rules(policy=Policy.LIFO), free, pending) == (ids[:free], ids[free:])


@given(queues(), st.integers(0, 12), PRIORITIES)
def test_lifo_tries_the_last_arrival_first_in_its_priority(pending, free, priority):
    before, after = tried(Rules(policy=Policy.LIFO), free, pending)
    order = before + after
    newest = session(99, -9, priority)
    ahead = sum(each.priority > priority for each in pending)
    came, waits = tried(Rules(policy=Policy.LIFO), free, (*pending, newest))
    assert came + waits == [*order[:ahead], newest.id, *order[ahead:]]


@pytest.mark.parametrize("policy", STEPWISE)
@given(queues(), st.integers(0, 12), st.none() | AGEINGS, st.sets(st.integers(1, 12)))
def test_heads_are_tried_before_all_others_of_their_band_in_their_order(
    policy, pending, free, ageing, numbers
):
    """Of the newest first, all others as if these were not there; elsewhere, what these get is charged to whose they are."""
    heads = [replace(each, head_rank=each.id.int) for each in pending if each.id.int in numbers]
    others = [each for each in pending if each.id.int not in numbers]
    rules = Rules(policy=policy, ageing=ageing)
    before, after = tried(rules, free, [*heads, *others])
    is_head = {each.id: each in heads for each in (*heads, *others)}
    band = {each.id: each.priority if ageing is None else raised(each, ageing) for each in pending}
    tried_by_band = [(-band[each], not is_head[each]) for each in before + after]
    assert tried_by_band == sorted(tried_by_band)
    expected = sorted(heads, key=lambda each: (-band[each.id], each.head_rank))
    assert [each for each in before + after if is_head[each]] == [each.id for each in expected]
    if policy is Policy.LIFO:
        without = tried(rules, free, others)
        assert [each for each in before + after if not is_head[each]] == without[0] + without[1]


@pytest.mark.parametrize("policy", STEPWISE)
@given(queues(), st.integers(0, 12), AGEINGS)
def test_higher_effective_priority_is_tried_first(policy, pending, free, ageing):
    before, after = tried(Rules(policy=policy, ageing=ageing), free, pending)
    by_id = {each.id: raised(each, ageing) for each in pending}
    bands = [by_id[each] for each in before + after]
    assert len(before) == min(free, len(pending))
    assert bands == sorted(bands, reverse=True)


@given(queues(), st.integers(0, 12), AGEINGS)
def test_lifo_tries_the_newest_first_within_an_effective_priority(pending, free, ageing):
    expected = sorted(
        pending, key=lambda each: (raised(each, ageing), each.enqueued_at, each.id), reverse=True
    )
    before, after = tried(Rules(policy=Policy.LIFO, ageing=ageing), free, pending)
    assert before + after == [each.id for each in expected]


@given(queues(), st.integers(0, 12), AGEINGS, st.integers(0, 40))
def test_a_priority_is_worth_so_much_waiting_where_the_first_come_first(pending, free, ageing, waits_s):
    """So of two that wait the same is always ahead, whenever one asks."""
    there = [each for each in pending if each.enqueued_at <= NOW]
    expected = sorted(
        there, key=lambda each: (each.enqueued_at - each.priority * ageing, each.enqueued_at, each.id)
    )
    now = NOW + timedelta(seconds=waits_s)
    before, after = tried(Rules(policy=Policy.FIFO, ageing=ageing), free, there, now)
    assert before + after == [each.id for each in expected]


@pytest.mark.parametrize("policy", Policy)
@given(queues(), st.integers(0, 12), AGEINGS, PRIORITIES)
def test_ageing_bounds_how_long_later_sessions_pass(policy, pending, free, ageing, priority):
    """So whoever waits is passed by finitely many, whatever comes and whichever the policy."""
    first = session(99, 0, priority)
    difference = max((each.priority for each in pending), default=priority) - priority
    now = NOW + max(1, difference + 1) * ageing
    later = [session(each.id.int, -((now - NOW) // timedelta(seconds=1)), each.priority) for each in pending]
    before, after = tried(Rules(policy=policy, ageing=ageing), free, [*later, first], now)
    assert (before + after)[0] == first.id


@pytest.mark.parametrize("policy", Policy)
@given(queues(), st.integers(0, 12), AGEINGS, st.integers(0, 40))
def test_waiting_never_lowers_priority(policy, pending, free, ageing, waits_s):
    """Among those of one priority who came a whole time of ageing apart, the older is ahead, now and later."""
    before, after = tried(
        Rules(policy=policy, ageing=ageing), free, pending, NOW + timedelta(seconds=waits_s)
    )
    place = {each: number for number, each in enumerate(before + after)}
    for older in pending:
        for newer in pending:
            is_apart = older.enqueued_at + ageing <= newer.enqueued_at
            has_waited = older.enqueued_at + ageing <= NOW + timedelta(seconds=waits_s)
            if older.priority >= newer.priority and is_apart and has_waited:
                assert place[older.id] < place[newer.id]
