"""Laws of the engine, for any snapshot."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    Explanation,
    Gang,
    GroupHost,
    PendingSession,
    PlacementGroup,
    PlacementRule,
    Planner,
    Policy,
    PreemptibleAllocation,
    PreemptionClaim,
    PreemptionRule,
    Quota,
    ReasonCode,
    Requirements,
    ReservationWindow,
    Rules,
    RunningAllocation,
    Snapshot,
    Strategy,
    plan,
)
from scheduler.engine.values import ASSUMED_RUNTIME

pytestmark = pytest.mark.walk

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MODELS = st.sampled_from(["", "A", "A", "B"])
ARCHITECTURES = st.sampled_from(["x86_64", "x86_64", "aarch64"])


def amounts(largest: int) -> st.SearchStrategy[ResourceSlots]:
    """Few distinct values, so that sessions compete and shapes repeat; every slot name may be absent."""
    names = st.sampled_from(["cpu", "mem", "cuda", "rocm"])
    return st.dictionaries(names, st.integers(0, largest)).map(ResourceSlots)


COMPANIONS = st.builds(PlacementGroup, st.sampled_from(["web", "db"]), st.sampled_from(PlacementRule))
HOSTS = st.dictionaries(
    st.sampled_from(["web", "db"]),
    st.lists(
        st.builds(GroupHost, st.integers(1, 8), st.integers(1, 2)),
        max_size=3,
        unique_by=lambda host: host.agent_id,
    ).map(tuple),
)
ENDS = st.integers(0, 3).map(lambda seconds: NOW + timedelta(seconds=seconds))
PROMISES = st.builds(
    PreemptionClaim,
    st.integers(1, 8),
    st.integers(-1, 3).map(lambda seconds: NOW + timedelta(seconds=seconds)),
)


@st.composite
def agents(draw: st.DrawFn, agent_id: int) -> AgentView:
    capacity = draw(amounts(6))
    free = ResourceSlots({name: draw(st.integers(0, amount)) for name, amount in capacity.items()})
    occupied = capacity - free
    preemptible = draw(victims(agent_id, occupied))
    running = [RunningAllocation(each.slots, each.ends_at) for each in preemptible if each.ends_at]
    others = occupied - sum((each.slots for each in preemptible), ResourceSlots())
    is_known, expected = draw(st.booleans()), ()
    if others and is_known:
        running.append(RunningAllocation(others, draw(ENDS), is_being_preempted=draw(st.integers(0, 3)) == 0))
    elif others:
        expected = (RunningAllocation(others, draw(ENDS)),)
    is_schedulable = draw(st.integers(0, 4)) > 0
    view = AgentView(
        agent_id, draw(ARCHITECTURES), capacity, free, is_schedulable, tuple(running), preemptible
    )
    real_capacity = draw(st.none() | st.none() | part_of(capacity))
    return replace(
        view,
        window=draw(WINDOWS),
        next_window=draw(NEXT_WINDOWS),
        real_capacity=real_capacity,
        device_model=draw(MODELS),
        expected_ends=expected,
    )


@st.composite
def part_of(draw: st.DrawFn, whole: ResourceSlots) -> ResourceSlots:
    return ResourceSlots({name: draw(st.integers(1, amount)) for name, amount in whole.items()})


@st.composite
def victims(draw: st.DrawFn, agent_id: int, occupied: ResourceSlots) -> tuple[PreemptibleAllocation, ...]:
    """Of some of what is occupied."""
    found: list[PreemptibleAllocation] = []
    for number in range(draw(st.integers(0, 3))):
        slots = ResourceSlots({name: draw(st.integers(0, amount)) for name, amount in occupied.items()})
        occupied -= slots
        since = NOW - timedelta(seconds=draw(st.integers(0, 3)))
        session_id = UUID(int=agent_id * 1000 + number)
        ends_at = draw(st.none() | ENDS)
        found.append(
            PreemptibleAllocation(session_id, draw(st.integers(-2, 1)), since, slots, ends_at=ends_at)
        )
    return tuple(found)


def windows(
    *reservation_ids: int, starts_s: st.SearchStrategy[int]
) -> st.SearchStrategy[ReservationWindow | None]:
    """Mostly none."""
    starts = starts_s.map(lambda seconds: NOW + timedelta(seconds=seconds))
    window = st.builds(
        ReservationWindow, st.sampled_from(reservation_ids), starts, st.just(NOW + timedelta(seconds=9))
    )
    return st.none() | st.none() | window


WINDOWS = windows(1, 2, starts_s=st.just(0))
NEXT_WINDOWS = windows(3, starts_s=st.integers(1, 3))


@st.composite
def sessions(draw: st.DrawFn, number: int) -> PendingSession:
    kernels = draw(st.lists(amounts(3), min_size=1, max_size=3))
    tenants = draw(st.sampled_from([(), ("a", "a1", "ann"), ("a", "a1", "abe"), ("b", "b1", "bea")]))
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - timedelta(seconds=draw(st.integers(0, 3))),
        requirements=Requirements(
            draw(ARCHITECTURES),
            tuple(kernels),
            draw(st.none() | st.none() | st.integers(1, 8)),
            frozenset(draw(st.lists(st.sampled_from([1, 3]), max_size=2))),
            may_run_elsewhere=draw(st.booleans()),
            device_model=draw(st.sampled_from(["", "", "", "A", "B"])),
            gang=draw(st.sampled_from(Gang)),
            placement_group=draw(st.none() | st.none() | COMPANIONS),
        ),
        kernel_ids=tuple(UUID(int=number * 100 + index) for index in range(len(kernels))),
        priority=draw(st.integers(0, 1)),
        scopes=tenants,
        tenants=tenants,
        max_runtime=draw(st.none() | st.integers(0, 3).map(lambda seconds: timedelta(seconds=seconds))),
        preemption_claim=draw(st.none() | st.none() | st.none() | PROMISES),
        head_rank=draw(st.sampled_from([0, 0, number])),
    )


RULES = st.builds(
    Rules,
    strategy=st.sampled_from(Strategy),
    policy=st.sampled_from(Policy),
    ageing=st.sampled_from([None, timedelta(seconds=2)]),
    patience=st.sampled_from([timedelta(), timedelta(seconds=2), timedelta(hours=1)]),
    preemption=st.none()
    | st.builds(
        PreemptionRule,
        st.integers(-1, 1),
        st.sampled_from([timedelta(), timedelta(seconds=2)]),
        st.just(timedelta(seconds=1)),
    ),
)


@st.composite
def snapshots(draw: st.DrawFn, rules: st.SearchStrategy[Rules] = RULES) -> Snapshot:
    return Snapshot(
        group_id=1,
        group_name="lab",
        epoch=0,
        agents=tuple(draw(agents(number)) for number in range(1, draw(st.integers(0, 6)) + 1)),
        pending=tuple(draw(sessions(number)) for number in range(1, draw(st.integers(0, 8)) + 1)),
        rules=draw(rules),
        last_agent_id=draw(st.integers(0, 8)),
        group_hosts=draw(st.just({}) | HOSTS),
    )


def allowance(key: str) -> st.SearchStrategy[Quota]:
    return st.builds(
        Quota, st.just(key), st.just("user"), st.just(key), amounts(9), amounts(4), st.booleans()
    )


ALLOWANCES = st.tuples(allowance("ann"), allowance("a1")) | st.just(())


FOR_KEPT_ROOM = (ReasonCode.KEPT_FREE, ReasonCode.PRIORITY)
FIFO = st.builds(Rules, strategy=st.sampled_from(Strategy), patience=st.just(timedelta(hours=1)))


def held_by_agent(snapshot: Snapshot) -> dict[int, ResourceSlots]:
    held = dict.fromkeys((agent.id for agent in snapshot.agents), ResourceSlots())
    for placement in plan(snapshot, NOW).placements:
        for agent_id, slots in zip(placement.agent_ids, placement.session.requirements.kernels, strict=True):
            held[agent_id] += slots
    return held


@given(snapshots())
def test_no_agent_gets_more_than_it_has_free(snapshot):
    held = held_by_agent(snapshot)
    for agent in snapshot.agents:
        assert held[agent.id].fits_in(agent.free)


@given(snapshots())
def test_no_container_gets_more_than_its_machine_has_whatever_that_promises(snapshot):
    largest = {agent.id: agent.largest for agent in snapshot.agents}
    for placement in plan(snapshot, NOW).placements:
        assert all(kernel.slots.fits_in(largest[kernel.agent_id]) for kernel in placement.kernels)


@given(snapshots())
def test_agents_that_promise_what_they_have_are_as_those_that_promise_no_more(snapshot):
    plain = replace(snapshot, agents=tuple(replace(each, real_capacity=None) for each in snapshot.agents))
    equal = replace(
        snapshot, agents=tuple(replace(each, real_capacity=each.capacity) for each in snapshot.agents)
    )
    assert plan(plain, NOW) == plan(equal, NOW)


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_plan_depends_on_the_snapshot_alone_not_on_the_order_of_its_rows(snapshot, random):
    shuffled = Snapshot(
        snapshot.group_id,
        snapshot.group_name,
        snapshot.epoch,
        tuple(random.sample(snapshot.agents, len(snapshot.agents))),
        tuple(random.sample(snapshot.pending, len(snapshot.pending))),
        snapshot.rules,
        last_agent_id=snapshot.last_agent_id,
        group_hosts=snapshot.group_hosts,
    )
    assert plan(snapshot, NOW) == plan(shuffled, NOW)


@st.composite
def ticks(draw: st.DrawFn) -> list[Snapshot]:
    """Snapshots of one group, one after the other; of each, some agents, sessions and limits are in the next too."""
    first = draw(snapshots())
    told = [replace(first, quotas=draw(ALLOWANCES))]
    for _ in range(draw(st.integers(1, 4))):
        last = told[-1]
        agents_now = tuple(draw(st.just(agent) | changes(agent)) for agent in last.agents)
        new = tuple(draw(sessions(number)) for number in range(50, draw(st.integers(50, 53))))
        pending = tuple(each for each in last.pending if draw(st.booleans()) and each.id.int < 50) + new
        rules = draw(st.just(last.rules) | st.just(last.rules) | RULES)
        allowances = draw(st.just(last.quotas) | ALLOWANCES)
        last_agent_id = draw(st.integers(0, 8))
        placement_group = draw(st.just(last.group_hosts) | HOSTS)
        told.append(
            replace(
                last,
                agents=agents_now,
                pending=pending,
                rules=rules,
                quotas=allowances,
                last_agent_id=last_agent_id,
                group_hosts=placement_group,
            )
        )
    return told


def changes(agent: AgentView) -> st.SearchStrategy[AgentView]:
    """The agent a moment later: mostly it has other amounts free, sometimes it is no longer what it was."""
    return agents(agent.id) | st.builds(
        lambda amount: replace(agent, free=ResourceSlots(dict.fromkeys(agent.capacity, amount)), running=()),
        st.integers(0, 2),
    )


@given(ticks())
def test_a_planner_that_planned_before_plans_as_a_new_one(told):
    planner = Planner()
    for snapshot in told:
        assert planner.plan(snapshot, NOW) == plan(snapshot, NOW)


@given(snapshots())
def test_a_placement_covers_every_kernel_once_on_agents_that_may_host_it(snapshot):
    agent_by_id = {agent.id: agent for agent in snapshot.agents}
    for session, agent_ids in plan(snapshot, NOW).placements:
        assert session in snapshot.pending
        assert len(agent_ids) == len(session.kernel_ids)
        for agent_id in agent_ids:
            assert agent_by_id[agent_id].is_schedulable
            assert session.requirements.may_run_on(agent_by_id[agent_id])


@given(snapshots())
def test_every_pending_session_is_either_placed_or_deferred_with_a_reason(snapshot):
    decided = plan(snapshot, NOW)
    answered = [each.session.id for each in decided.placements]
    answered += [each.session_id for each in decided.deferrals]
    assert sorted(answered) == sorted(session.id for session in snapshot.pending)
    assert [each.position for each in decided.deferrals] == list(range(1, len(decided.deferrals) + 1))


@given(snapshots())
def test_placed_sessions_may_use_the_agent_and_end_before_its_reservations(snapshot):
    agent_by_id = {agent.id: agent for agent in snapshot.agents}
    for session, agent_ids in plan(snapshot, NOW).placements:
        for agent in map(agent_by_id.get, agent_ids):
            assert agent.window is None or agent.window.reservation_id in session.requirements.reservations
            ends_at = NOW + (ASSUMED_RUNTIME if session.max_runtime is None else session.max_runtime)
            assert agent.next_window is None or ends_at <= agent.next_window.starts_at


@given(snapshots())
def test_a_preferred_agent_changes_where_the_first_runs_and_not_whether(snapshot):
    for session in snapshot.pending:
        one = replace(session, preemption_claim=None)
        free = replace(one, requirements=replace(one.requirements, designated_agent_id=None))
        preferring = replace(one, requirements=replace(one.requirements, may_run_elsewhere=True))
        decided, without = (plan(replace(snapshot, pending=(each,)), NOW) for each in (preferring, free))
        if len(session.requirements.kernels) == 1:
            assert bool(decided.placements) == bool(without.placements)
            assert [each.reason for each in decided.deferrals] == [each.reason for each in without.deferrals]


@given(snapshots(FIFO))
def test_of_equal_needs_the_older_never_waits_while_the_younger_runs(snapshot):
    deferred = {each.session_id for each in plan(snapshot, NOW).deferrals}
    line = sorted(snapshot.pending, key=lambda each: (-each.priority, each.enqueued_at, each.id))
    blocked = set()
    for session in line:
        needs = session.requirements
        kind = (
            needs.architecture,
            needs.device_model,
            needs.designated_agent_id,
            needs.reservations,
            needs.gang,
            needs.placement_group,
            session.max_runtime,
        )
        shape = (*kind, frozenset(Counter(session.requirements.kernels).items()))
        assert shape not in blocked or session.id in deferred
        if session.id in deferred:
            blocked.add(shape)


@given(snapshots())
def test_single_container_waits_only_if_all_fitting_capacity_is_reserved(snapshot):
    held = held_by_agent(snapshot)
    reasons = {each.session_id: each.reason for each in plan(snapshot, NOW).deferrals}
    for session in snapshot.pending:
        if session.id in reasons and len(session.kernel_ids) == 1:
            hosts = [each for each in snapshot.agents if each.is_schedulable]
            hosts = [each for each in hosts if session.requirements.may_run_on(each)]
            slots = session.requirements.kernels[0]
            ends_at = NOW + (ASSUMED_RUNTIME if session.max_runtime is None else session.max_runtime)
            is_open = {
                each.id: not each.next_window or ends_at <= each.next_window.starts_at for each in hosts
            }
            large = [each for each in hosts if slots.fits_in(each.largest)]
            room = {each.id for each in large if slots.fits_in(each.free - held[each.id])}
            has_room = any(is_open[agent_id] for agent_id in room)
            assert has_room or reasons[session.id] not in FOR_KEPT_ROOM
            ruled = [ReasonCode.PLACEMENT_RULE] if session.requirements.placement_group else []
            assert not has_room or reasons[session.id] in (*FOR_KEPT_ROOM, *ruled, ReasonCode.MAKING_ROOM)
            if room and not has_room:
                assert reasons[session.id] in (ReasonCode.RESERVATION, ReasonCode.MAKING_ROOM)


@given(snapshots(), ALLOWANCES)
def test_session_waiting_for_priority_starts_with_the_highest(snapshot, allowances):
    snapshot = replace(snapshot, quotas=allowances)
    decided = plan(snapshot, NOW)
    held, taken = held_by_agent(snapshot), dict.fromkeys(("ann", "a1"), ResourceSlots())
    for session in (placement.session for placement in decided.placements):
        for key in taken.keys() & set(session.scopes):
            taken[key] += session.requirements.total
    after = replace(
        snapshot,
        agents=tuple(replace(each, free=each.free - held[each.id]) for each in snapshot.agents),
        quotas=tuple(replace(each, allocated=each.allocated + taken[each.key]) for each in allowances),
    )
    reasons = {each.session_id: each.reason for each in decided.deferrals}
    waiting = [session for session in snapshot.pending if session.id in reasons]
    for session in waiting:
        if reasons[session.id] is ReasonCode.PRIORITY and len(session.kernel_ids) == 1:
            raised = [replace(each, priority=99) if each is session else each for each in waiting]
            placements = plan(replace(after, pending=tuple(raised)), NOW).placements
            assert session.id in {placement.session_id for placement in placements}


@given(snapshots())
def test_reservations_are_for_pending_sessions_and_once_per_agent(snapshot):
    decided = plan(snapshot, NOW)
    deferred = {each.session_id for each in decided.deferrals}
    kept = [agent_id for each in decided.reservations for agent_id in set(each.agent_ids)]
    assert all(each.session_id in deferred for each in decided.reservations)
    assert len(kept) == len(set(kept))


@given(snapshots())
def test_the_numbers_of_a_deferral_prove_its_reason(snapshot):
    for deferral in plan(snapshot, NOW).deferrals:
        check = PROOF_BY_REASON[deferral.reason]
        assert check(deferral.explanation), deferral


@given(snapshots())
def test_the_kernels_of_a_gang_lie_as_it_says(snapshot):
    for session, agent_ids in plan(snapshot, NOW).placements:
        if session.requirements.gang is Gang.ONE_MACHINE:
            assert len(set(agent_ids)) == 1
        if session.requirements.gang is Gang.SPREAD:
            assert len(set(agent_ids)) == len(agent_ids)


@given(snapshots())
def test_strict_rules_of_placement_groups_hold_whatever_else_is_placed(snapshot):
    hosts = {key: {each.agent_id for each in found} for key, found in snapshot.group_hosts.items()}
    for session, agent_ids in plan(snapshot, NOW).placements:
        if session.requirements.placement_group is None:
            continue
        key, rule = session.requirements.placement_group
        of_group = hosts.setdefault(key, set())
        if rule is PlacementRule.STRICT_SPREAD:
            assert of_group.isdisjoint(agent_ids)
        if rule is PlacementRule.STRICT_PACK:
            assert not of_group or of_group.issuperset(agent_ids)
        of_group.update(agent_ids)


@given(snapshots())
def test_a_rule_that_is_not_strict_changes_where_one_runs_and_not_whether(snapshot):
    for session in snapshot.pending:
        placement_group = session.requirements.placement_group
        one = replace(session, preemption_claim=None)
        plain = replace(one, requirements=replace(one.requirements, placement_group=None))
        decided, without = (plan(replace(snapshot, pending=(each,)), NOW) for each in (one, plain))
        if placement_group and not placement_group.rule.is_strict and len(session.kernel_ids) == 1:
            assert bool(decided.placements) == bool(without.placements)


def cannot_ever(why: Explanation) -> bool:
    too_few = why.gang is Gang.SPREAD and why.agents_with_room < why.kernel_count
    return (
        too_few
        or not why.requested.fits_in(why.group_total)
        or not why.requested_by_kernel.fits_in(why.best_agent)
    )


PROOF_BY_REASON = {
    ReasonCode.NO_AGENTS: lambda each: each.group_total == ResourceSlots(),
    ReasonCode.AGENT_UNAVAILABLE: lambda each: each.group_total == ResourceSlots(),
    ReasonCode.NEVER_FITS: cannot_ever,
    ReasonCode.NO_CAPACITY: lambda each: not each.requested.fits_in(each.group_total),
    ReasonCode.FRAGMENTED: lambda each: (
        each.requested.fits_in(each.group_total)
        and (each.kernel_count > 1 or not each.requested.fits_in(each.best_agent))
    ),
    ReasonCode.KEPT_FREE: lambda each: each.requested.fits_in(each.group_total),
    ReasonCode.PRIORITY: lambda each: each.requested.fits_in(each.group_total) and each.ahead > 0,
    ReasonCode.MAKING_ROOM: lambda each: each.until is not None,
    ReasonCode.PLACEMENT_RULE: lambda each: each.placement_group.rule.is_strict,
    ReasonCode.RESERVATION: lambda each: each.reserved.agents > 0 and each.reserved.until > NOW,
}
