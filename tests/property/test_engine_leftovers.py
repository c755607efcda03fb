"""Laws of what a plan leaves to newcomers, for any snapshot."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from common.slots import ResourceSlots
from scheduler.engine import (
    AgentView,
    Allowance,
    Needs,
    PendingSession,
    Placement,
    Plan,
    Snapshot,
    plan,
)
from scheduler.engine.leftovers import Leftovers
from tests.property.test_engine_laws import NOW, sessions, snapshots

NEWCOMERS = st.lists(st.integers(1, 4), max_size=4).flatmap(
    lambda numbers: st.tuples(*(sessions(1000 + index) for index, _ in enumerate(numbers)))
)


def held_by(placements: Sequence[Placement]) -> dict[int, ResourceSlots]:
    held: dict[int, ResourceSlots] = {}
    for placement in placements:
        for kernel in placement.kernels:
            held[kernel.agent_id] = held.get(kernel.agent_id, ResourceSlots()) + kernel.slots
    return held


def after(snapshot: Snapshot, placements: Sequence[Placement], pending: Sequence[PendingSession]) -> Snapshot:
    """The group once these are placed, while `pending` wait."""
    held = held_by(placements)
    agents = [
        replace(agent, free=agent.free - held.get(agent.id, ResourceSlots())) for agent in snapshot.agents
    ]
    return replace(snapshot, agents=tuple(agents), pending=tuple(pending))


def waiting(snapshot: Snapshot, decided: Plan) -> list[PendingSession]:
    placed = {placement.session_id for placement in decided.placements}
    return [session for session in snapshot.pending if session.id not in placed]


@given(snapshots(), NEWCOMERS)
def test_newcomers_get_what_is_free_where_they_may_run_and_nothing_of_what_is_kept(snapshot, newcomers):
    decided = plan(snapshot, NOW)
    placed = Leftovers(snapshot, decided).place(newcomers, (), NOW)

    held = held_by([*decided.placements, *placed])
    agents = {agent.id: agent for agent in snapshot.agents}
    kept = {agent_id for each in decided.reservations for agent_id in each.agent_ids}
    assert all(slots.fits_in(agents[agent_id].free) for agent_id, slots in held.items())
    for placement in placed:
        assert kept.isdisjoint(placement.agent_ids)
        assert all(agents[agent_id].is_schedulable for agent_id in placement.agent_ids)
        assert all(placement.session.needs.may_run_on(agents[agent_id]) for agent_id in placement.agent_ids)


@given(snapshots(), sessions(1000))
def test_where_nobody_waits_a_newcomer_gets_what_a_plan_would_give_it(snapshot, newcomer):
    empty = replace(snapshot, pending=())
    by_plan = plan(replace(empty, pending=(newcomer,)), NOW).placements
    assert tuple(Leftovers(empty, None).place([newcomer], (), NOW)) == by_plan


@given(snapshots(), sessions(1000))
def test_nobody_who_waits_could_have_had_what_a_newcomer_gets(snapshot, newcomer):
    """Planned anew with the newcomer among those that wait, none of them starts that would not without it, and the first
    that waits starts no later than it was to."""
    decided = plan(snapshot, NOW)
    placed = Leftovers(snapshot, decided).place([newcomer], (), NOW)
    if not placed:
        return
    before = plan(after(snapshot, decided.placements, waiting(snapshot, decided)), NOW)
    behind = plan(after(snapshot, [*decided.placements, *placed], waiting(snapshot, decided)), NOW)
    assert {each.session_id for each in behind.placements} >= {each.session_id for each in before.placements}
    starts = {each.session_id: each.starts_at for each in behind.reservations}
    for reservation in before.reservations:
        if reservation.starts_at is not None and reservation.session_id in starts:
            assert (
                starts[reservation.session_id] or datetime.max.replace(tzinfo=UTC)
            ) <= reservation.starts_at


@given(snapshots(), NEWCOMERS)
def test_what_one_newcomer_got_no_other_gets(snapshot, newcomers):
    left = Leftovers(snapshot, plan(snapshot, NOW))
    placed = [placement for newcomer in newcomers for placement in left.place([newcomer], (), NOW)]
    held = held_by([*plan(snapshot, NOW).placements, *placed])
    assert all(held.get(agent.id, ResourceSlots()).fits_in(agent.free) for agent in snapshot.agents)


AGENT = AgentView(1, "x86_64", ResourceSlots({"cpu": 4}), ResourceSlots({"cpu": 4}))


def session_of(number: int, cpu: int, *, scopes: tuple[str, ...] = (), priority: int = 0) -> PendingSession:
    needs = Needs("x86_64", (ResourceSlots({"cpu": cpu}),))
    return PendingSession(UUID(int=number), NOW, needs, (UUID(int=number),), priority=priority, scopes=scopes)


def group(*pending: PendingSession, allowances: tuple[Allowance, ...] = ()) -> Snapshot:
    return Snapshot(1, "lab", 7, (AGENT,), pending, allowances=allowances)


def placed_numbers(
    left: Leftovers, *newcomers: PendingSession, allowances: tuple[Allowance, ...] = ()
) -> list[int]:
    return [each.session_id.int for each in left.place(newcomers, allowances, NOW)]


def limit(most: int, held: int) -> Allowance:
    return Allowance("user:1", "user", "ann", {"cpu": most}, {"cpu": held})


def test_a_newcomer_stays_within_what_its_scopes_may_hold_now():
    left = Leftovers(group(), None)
    one, two = session_of(1, 2, scopes=("user:1",)), session_of(2, 1, scopes=("user:1",))
    assert placed_numbers(left, one, two, allowances=(limit(2, 0),)) == [1]
    assert placed_numbers(left, two, allowances=(limit(2, 2),)) == []


def test_a_newcomer_does_not_pass_one_that_waits_for_the_same_limit():
    snapshot = group(session_of(1, 3, scopes=("user:1",)), allowances=(limit(2, 0),))
    left = Leftovers(snapshot, plan(snapshot, NOW))
    assert placed_numbers(left, session_of(3, 1, scopes=("user:2",))) == [3]
    assert placed_numbers(left, session_of(2, 1, scopes=("user:1",)), allowances=(limit(2, 0),)) == []
    assert (left.waiting, left.is_over) == (1, True)


def test_the_higher_priority_goes_first_and_what_no_agent_has_is_not_found():
    left = Leftovers(group(), None)
    gpu = PendingSession(UUID(int=0), NOW, Needs("x86_64", (ResourceSlots({"cuda": 1}),)), (UUID(int=0),))
    assert placed_numbers(left, gpu, session_of(1, 3), session_of(2, 3, priority=1)) == [2]
    assert placed_numbers(Leftovers(group(), None), gpu, session_of(1, 3)) == [1], "the next is looked at"


def test_the_epoch_is_that_of_the_group_once_the_plan_is_committed():
    assert (Leftovers(group(), None).epoch, Leftovers(group(), plan(group(), NOW)).epoch) == (7, 8)


def test_what_was_placed_while_the_plan_was_made_is_taken():
    (meanwhile,) = Leftovers(group(), None).place([session_of(1, 3)], (), NOW)
    left = Leftovers(group(), plan(group(), NOW + timedelta()), [meanwhile])
    assert placed_numbers(left, session_of(2, 1), session_of(3, 2)) == [2]
