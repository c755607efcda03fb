"""Limits are reserved together with capacity, so that passing sessions do not use them up."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    PendingSession,
    Plan,
    PreemptionClaim,
    PreemptionRule,
    Quota,
    ReasonCode,
    Requirements,
    Rules,
    RunningAllocation,
    Snapshot,
    plan,
)
from tests.unit.scheduler.engine.test_backfill import NOW, agent, at, placed, reasons, session

PROJECT, PERSON = "project:1", "user:1"
PATIENT = Rules(patience=timedelta(minutes=10))


def allowance(key: str, most: int, held: int) -> Quota:
    level = key.partition(":")[0]
    return Quota(key, level, "its name", {"cpu": most * 1000}, {"cpu": held * 1000})


def of(session: PendingSession, *scopes: str, priority: int = 0) -> PendingSession:
    return replace(session, scopes=scopes, priority=priority)


def group(*pending: PendingSession, held: int = 2, most: int = 6) -> Snapshot:
    """One machine of which 6 of 8 cores are free in half an hour, one of which 2 are now."""
    agents = (agent(1, (4, 30), unknown=2), agent(2, unknown=6))
    return Snapshot(1, "lab", 0, agents, pending, PATIENT, (allowance(PROJECT, most, held),))


def decide(*pending: PendingSession) -> Plan:
    return plan(group(*pending), NOW)


FIRST = of(session(1, 4), PROJECT)


def test_passing_sessions_leave_the_reserved_part_of_a_limit():
    decided = decide(FIRST, of(session(2, 2), PROJECT), session(3, 2))
    assert placed(decided) == {3: (1,)}


def test_message_says_that_part_of_a_limit_is_reserved():
    decided = decide(FIRST, of(session(2, 2), PROJECT))
    assert reasons(decided)[2] is ReasonCode.KEPT_FREE
    urgent = decide(replace(FIRST, priority=1), of(session(2, 2), PROJECT))
    assert (reasons(urgent)[2], urgent.deferrals[1].explanation.ahead) == (ReasonCode.PRIORITY, 1)


def test_what_ends_before_the_first_begins_takes_nothing_of_it_either():
    """The next tick would find the limit taken, and keep no room any more."""
    short, *wait = [of(session(number, 1, minutes=9), PROJECT) for number in (2, 3, 4)]
    decided = plan(group(FIRST, short, *wait, most=7), NOW)
    assert placed(decided) == {2: (1,)}
    for each in decided.deferrals[1:]:
        assert (each.reason, each.explanation.is_end_known) == (ReasonCode.KEPT_FREE, False)
        assert each.explanation.is_quota_reserved, "so that nobody draws when it will start"


def test_session_waiting_for_unknown_ends_reserves_no_limit():
    named = of(session(1, 8, designated=1, waited=20), PROJECT, PERSON)
    own, others = of(session(2, 2), PROJECT, PERSON), of(session(3, 2), PROJECT, "user:2")
    limits = (allowance(PROJECT, 10, 2), allowance(PERSON, 10, 2))
    agents = (agent(1, unknown=2), agent(2), agent(3))
    snapshot = Snapshot(1, "lab", 0, agents, (named, own, others), PATIENT, limits)
    decided = plan(snapshot, NOW)
    assert set(placed(decided)) == {3}


def test_later_sessions_get_the_unreserved_part_of_a_limit():
    later = of(session(2, 2), PROJECT)
    for most, found in ((6, []), (7, []), (8, [2])):
        assert list(placed(plan(group(FIRST, later, most=most), NOW))) == found


def test_session_waiting_for_a_shared_limit_reserves_its_own_limits_only():
    """Others of the project and others of its owner could else take the one and the other in turn."""
    limits = (allowance("domain:1", 9, 0), allowance(PROJECT, 6, 4), allowance(PERSON, 6, 0))
    first = of(session(1, 4, waited=11), "domain:1", PROJECT, PERSON)
    own = of(session(2, 3), "domain:1", "project:2", PERSON)
    others = of(session(3, 6), "domain:1", "project:2", "user:2")
    roomy = replace(group(first, own, others), agents=(agent(3), agent(4)), quotas=limits)
    decided = plan(roomy, NOW)
    assert set(placed(decided)) == {3}
    impatient = replace(roomy, pending=(of(session(1, 4), *first.scopes), own))
    assert set(placed(plan(impatient, NOW))) == {2}


def test_where_one_limit_gathers_already_another_session_keeps_nothing():
    limits = (allowance(PROJECT, 6, 4), allowance(PERSON, 6, 4))
    first, second = of(session(1, 4, waited=12), PROJECT), of(session(2, 4, waited=11), PROJECT, PERSON)
    own = of(session(3, 2), PERSON)
    roomy = replace(group(first, second, own), agents=(agent(3), agent(4)), quotas=limits)
    assert set(placed(plan(roomy, NOW))) == {3}


LASTS = st.integers(1, 5)
SCOPES = st.sets(st.sampled_from(["domain:1", PROJECT, PERSON])).map(lambda found: tuple(sorted(found)))
ASKED = st.tuples(st.integers(1, 8), LASTS, SCOPES)


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 4), LASTS, SCOPES), max_size=2), min_size=1, max_size=3),
    st.lists(st.tuples(st.just(0), ASKED), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 12), ASKED), max_size=10),
    st.fixed_dictionaries({key: st.integers(4, 12) for key in ("domain:1", PROJECT, PERSON)}),
)
@example(
    [[(4, 3, ())], [(4, 5, ())]],
    [(0, (6, 3, (PROJECT,))), (0, (2, 5, (PROJECT,)))],
    [],
    {"domain:1": 12, PROJECT: 6, PERSON: 12},
)
def test_the_first_starts_no_later_than_alone_once_its_limits_have_room_for_it(
    running, waiting, later, limits
):
    """As without limits; those that run hold of them as well, and one that it exceeds is not kept before it has waited long."""
    live = [(number, *each) for number, those in enumerate(running, 1) for each in those]
    queue = [
        of(session(number, count, minutes=lasts, waited=-minute), *scopes)
        for number, (minute, (count, lasts, scopes)) in enumerate([*waiting, *later], 1)
    ]
    first = queue[0]
    if any(_held(live, key) + first.requirements.total["cpu"] // 1000 > limits[key] for key in first.scopes):
        return
    alone = _starts_at(queue[:1], live, len(running), limits)
    assert alone is None or (_starts_at(queue, live, len(running), limits) or 0) <= alone


Live = Sequence[tuple[int, int, int, tuple[str, ...]]]
"""Agent, cores, when it ends, and whose it is."""


def _held(live: Live, key: str) -> int:
    return sum(count for _, count, _, scopes in live if key in scopes)


def _starts_at(queue: list[PendingSession], live: Live, agents: int, limits: dict[str, int]) -> int | None:
    for minute in range(60):
        live = [each for each in live if each[2] > minute]
        views = tuple(
            agent(number, *((count, end) for where, count, end, _ in live if where == number))
            for number in range(1, agents + 1)
        )
        there = tuple(each for each in queue if each.enqueued_at < at(minute + 1))
        allowed = tuple(allowance(key, most, _held(live, key)) for key, most in limits.items())
        decided = plan(Snapshot(1, "lab", 0, views, there, quotas=allowed), at(minute))
        for waiting, agent_ids in decided.placements:
            if waiting.id.int == 1:
                return minute
            assert waiting.max_runtime is not None
            ends = minute + int(waiting.max_runtime.total_seconds()) // 60
            live = [*live, (agent_ids[0], waiting.requirements.total["cpu"] // 1000, ends, waiting.scopes)]
        placed_ids = {each.session_id for each in decided.placements}
        queue = [each for each in queue if each.id not in placed_ids]
        for each in allowed:
            assert _held(live, each.key) <= max(limits[each.key], each.allocated["cpu"] // 1000)
    return None


def placed_behind(snapshot: Snapshot, *later: PendingSession) -> list[int]:
    """Numbers of the sessions that are placed when `later` come behind those that wait."""
    return list(placed(plan(replace(snapshot, pending=(*snapshot.pending, *later)), NOW)))


def test_later_ones_leave_the_limits_of_one_that_others_leave_late():
    late = replace(
        of(session(1, 8, designated=1), PROJECT, priority=5), preemption_claim=PreemptionClaim(1, at(-1))
    )
    rules = replace(PATIENT, preemption=PreemptionRule(0, timedelta(), timedelta(minutes=1)))
    agents = (agent(1, unknown=8), agent(2))
    snapshot = Snapshot(1, "lab", 0, agents, (late,), rules, (allowance(PROJECT, 10, 0),))
    assert placed_behind(snapshot, of(session(7, 4), PROJECT)) == []


def test_later_ones_leave_what_gathers_beside_what_is_set_aside():
    """Once nothing is kept, who gathers exceeds nothing."""
    first = of(session(1, 8, minutes=60, waited=30, designated=1), PROJECT)
    gathers = of(session(2, 5, waited=20), PROJECT)
    agents = (agent(1, (4, 30)), agent(2), agent(3))
    snapshot = Snapshot(1, "lab", 0, agents, (first, gathers), PATIENT, (allowance(PROJECT, 12, 0),))
    assert placed_behind(snapshot, of(session(7, 4), PROJECT)) == []


def test_one_that_exceeds_nothing_is_placed_behind_another_that_exceeds_the_same_limit():
    waits, first, later = of(session(1, 5), PERSON), of(session(2, 4), PERSON), session(3, 4)
    snapshot = Snapshot(1, "lab", 0, (agent(1, unknown=4),), (waits,), PATIENT, (allowance(PERSON, 10, 6),))
    assert placed_behind(snapshot, first, later) == [2]


def test_sufficient_limit_is_not_reported_as_reserved():
    """Its limit leaves just what it asks for, and there is room, which is kept for somebody else."""
    other = session(1, 8, minutes=60, designated=1)
    own = of(session(2, 4, designated=2), PROJECT)
    agents = (agent(1, (4, 30)), agent(2, (8, 40)))
    decided = plan(Snapshot(1, "lab", 0, agents, (other, own), PATIENT, (allowance(PROJECT, 4, 0),)), NOW)
    assert [each.session_id.int for each in decided.reservations] == [1, 2]
    assert not any(each.explanation.is_quota_reserved for each in decided.deferrals)


def test_later_ones_leave_the_limits_of_one_for_which_the_only_machine_of_its_kind_is_kept():
    with_gpu = {"cpu": 8000, "gpu": 1000}
    running = (RunningAllocation(ResourceSlots(with_gpu), at(30)),)
    gpu = AgentView(1, "x86_64", ResourceSlots(with_gpu), ResourceSlots(), running=running)
    asks = replace(
        session(1, 4), requirements=Requirements("x86_64", (ResourceSlots({"cpu": 4000, "gpu": 1000}),))
    )
    snapshot = Snapshot(
        1, "lab", 0, (gpu, agent(2)), (of(asks, PROJECT),), PATIENT, (allowance(PROJECT, 6, 0),)
    )
    assert placed_behind(snapshot, of(session(7, 4), PROJECT)) == []
    assert placed_behind(snapshot, of(session(7, 2), PROJECT)) == [7]
