"""Laws of the engine, for any snapshot."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from common.slots import ResourceSlots
from scheduler.engine import (
    AgentView,
    Allowance,
    Explanation,
    Needs,
    PendingSession,
    Planner,
    Policy,
    ReasonCode,
    Rules,
    Running,
    Snapshot,
    Strategy,
    plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ARCHITECTURES = st.sampled_from(["x86_64", "x86_64", "aarch64"])


def amounts(largest: int) -> st.SearchStrategy[ResourceSlots]:
    """Few distinct values, so that sessions compete and shapes repeat; every slot name may be absent."""
    names = st.sampled_from(["cpu", "mem", "cuda", "rocm"])
    return st.dictionaries(names, st.integers(0, largest)).map(ResourceSlots)


@st.composite
def agents(draw: st.DrawFn, agent_id: int) -> AgentView:
    capacity = draw(amounts(6))
    free = ResourceSlots({name: draw(st.integers(0, amount)) for name, amount in capacity.items()})
    running = []
    occupied = capacity - free
    if occupied and draw(st.booleans()):
        running.append(Running(occupied, NOW + timedelta(seconds=draw(st.integers(0, 3)))))
    is_schedulable = draw(st.integers(0, 4)) > 0
    return AgentView(agent_id, draw(ARCHITECTURES), capacity, free, is_schedulable, tuple(running))


@st.composite
def sessions(draw: st.DrawFn, number: int) -> PendingSession:
    kernels = draw(st.lists(amounts(3), min_size=1, max_size=3))
    tenants = draw(st.sampled_from([(), ("a", "a1", "ann"), ("a", "a1", "abe"), ("b", "b1", "bea")]))
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - timedelta(seconds=draw(st.integers(0, 3))),
        needs=Needs(draw(ARCHITECTURES), tuple(kernels), draw(st.none() | st.none() | st.integers(1, 8))),
        kernel_ids=tuple(UUID(int=number * 100 + index) for index in range(len(kernels))),
        priority=draw(st.integers(0, 1)),
        scopes=tenants,
        tenants=tenants,
        lasts=draw(st.none() | st.integers(0, 3).map(lambda seconds: timedelta(seconds=seconds))),
    )


RULES = st.builds(
    Rules,
    strategy=st.sampled_from(Strategy),
    policy=st.sampled_from(Policy),
    ageing=st.sampled_from([None, timedelta(seconds=2)]),
    patience=st.sampled_from([timedelta(), timedelta(seconds=2), timedelta(hours=1)]),
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
    )


def allowance(key: str) -> st.SearchStrategy[Allowance]:
    return st.builds(
        Allowance, st.just(key), st.just("user"), st.just(key), amounts(9), amounts(4), st.booleans()
    )


ALLOWANCES = st.tuples(allowance("ann"), allowance("a1")) | st.just(())


FIFO = st.builds(Rules, strategy=st.sampled_from(Strategy), patience=st.just(timedelta(hours=1)))


def held_by_agent(snapshot: Snapshot) -> dict[int, ResourceSlots]:
    held = dict.fromkeys((agent.id for agent in snapshot.agents), ResourceSlots())
    for placement in plan(snapshot, NOW).placements:
        for agent_id, slots in zip(placement.agent_ids, placement.session.needs.kernels, strict=True):
            held[agent_id] += slots
    return held


@given(snapshots())
def test_no_agent_gets_more_than_it_has_free(snapshot):
    held = held_by_agent(snapshot)
    for agent in snapshot.agents:
        assert held[agent.id].fits_in(agent.free)


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_plan_depends_on_the_snapshot_alone_not_on_the_order_of_its_rows(snapshot, random):
    shuffled = Snapshot(
        snapshot.group_id,
        snapshot.group_name,
        snapshot.epoch,
        tuple(random.sample(snapshot.agents, len(snapshot.agents))),
        tuple(random.sample(snapshot.pending, len(snapshot.pending))),
        snapshot.rules,
    )
    assert plan(snapshot, NOW) == plan(shuffled, NOW)


@st.composite
def ticks(draw: st.DrawFn) -> list[Snapshot]:
    """Snapshots of one group, one after the other; of each, some agents, sessions and limits are in the next too."""
    first = draw(snapshots())
    told = [replace(first, allowances=draw(ALLOWANCES))]
    for _ in range(draw(st.integers(1, 4))):
        last = told[-1]
        agents_now = tuple(draw(st.just(agent) | changes(agent)) for agent in last.agents)
        new = tuple(draw(sessions(number)) for number in range(50, draw(st.integers(50, 53))))
        pending = tuple(each for each in last.pending if draw(st.booleans()) and each.id.int < 50) + new
        rules = draw(st.just(last.rules) | st.just(last.rules) | RULES)
        allowances = draw(st.just(last.allowances) | ALLOWANCES)
        told.append(replace(last, agents=agents_now, pending=pending, rules=rules, allowances=allowances))
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
            assert session.needs.may_run_on(agent_by_id[agent_id])


@given(snapshots())
def test_every_pending_session_is_either_placed_or_deferred_with_a_reason(snapshot):
    decided = plan(snapshot, NOW)
    answered = [each.session.id for each in decided.placements]
    answered += [each.session_id for each in decided.deferrals]
    assert sorted(answered) == sorted(session.id for session in snapshot.pending)
    assert [each.position for each in decided.deferrals] == list(range(1, len(decided.deferrals) + 1))


@given(snapshots(FIFO))
def test_of_equal_needs_the_older_never_waits_while_the_younger_runs(snapshot):
    deferred = {each.session_id for each in plan(snapshot, NOW).deferrals}
    line = sorted(snapshot.pending, key=lambda each: (-each.priority, each.enqueued_at, each.id))
    blocked = set()
    for session in line:
        kind = (session.needs.architecture, session.needs.designated_agent_id, session.lasts)
        shape = (*kind, frozenset(Counter(session.needs.kernels).items()))
        assert shape not in blocked or session.id in deferred
        if session.id in deferred:
            blocked.add(shape)


@given(snapshots())
def test_a_single_container_waits_only_if_no_agent_has_room_for_it_or_the_room_is_kept(snapshot):
    held = held_by_agent(snapshot)
    reasons = {each.session_id: each.reason for each in plan(snapshot, NOW).deferrals}
    for session in snapshot.pending:
        if session.id in reasons and len(session.kernel_ids) == 1:
            hosts = [each for each in snapshot.agents if each.is_schedulable]
            hosts = [each for each in hosts if session.needs.may_run_on(each)]
            slots = session.needs.kernels[0]
            has_room = any(slots.fits_in(each.free - held[each.id]) for each in hosts)
            assert has_room == (reasons[session.id] is ReasonCode.KEPT_FREE)


@given(snapshots())
def test_room_is_kept_only_for_who_waits_and_of_an_agent_once(snapshot):
    decided = plan(snapshot, NOW)
    deferred = {each.session_id for each in decided.deferrals}
    kept = [agent_id for each in decided.reservations for agent_id in set(each.agent_ids)]
    assert all(each.session_id in deferred for each in decided.reservations)
    assert len(kept) == len(set(kept))


@given(snapshots())
def test_the_numbers_of_a_deferral_prove_its_reason(snapshot):
    for deferral in plan(snapshot, NOW).deferrals:
        check = PROOF_BY_REASON[deferral.reason]
        assert check(deferral.why), deferral


def cannot_ever(why: Explanation) -> bool:
    return not why.asked.fits_in(why.group) or not why.asked_by_kernel.fits_in(why.best_agent)


PROOF_BY_REASON = {
    ReasonCode.NO_AGENTS: lambda each: each.group == ResourceSlots(),
    ReasonCode.AGENT_UNAVAILABLE: lambda each: each.group == ResourceSlots(),
    ReasonCode.NEVER_FITS: cannot_ever,
    ReasonCode.NO_CAPACITY: lambda each: not each.asked.fits_in(each.group),
    ReasonCode.FRAGMENTED: lambda each: (
        each.asked.fits_in(each.group) and (each.kernel_count > 1 or not each.asked.fits_in(each.best_agent))
    ),
    ReasonCode.KEPT_FREE: lambda each: each.asked.fits_in(each.group),
}
