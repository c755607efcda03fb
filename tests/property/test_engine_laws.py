"""Laws of the engine, for any snapshot."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from common.slots import ResourceSlots
from scheduler.engine import (
    AgentView,
    Deferral,
    KernelRequest,
    PendingSession,
    ReasonCode,
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
    return AgentView(agent_id, draw(ARCHITECTURES), capacity, free, draw(st.integers(0, 4)) > 0)


@st.composite
def sessions(draw: st.DrawFn, number: int) -> PendingSession:
    kernels = draw(st.lists(amounts(3), min_size=1, max_size=3))
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - timedelta(seconds=draw(st.integers(0, 3))),
        architecture=draw(ARCHITECTURES),
        kernels=tuple(KernelRequest(UUID(int=number * 100 + i), slots) for i, slots in enumerate(kernels)),
        priority=draw(st.integers(0, 1)),
        designated_agent_id=draw(st.none() | st.none() | st.integers(1, 8)),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    return Snapshot(
        group_id=1,
        group_name="lab",
        epoch=0,
        agents=tuple(draw(agents(number)) for number in range(1, draw(st.integers(0, 6)) + 1)),
        pending=tuple(draw(sessions(number)) for number in range(1, draw(st.integers(0, 8)) + 1)),
        strategy=draw(st.sampled_from(Strategy)),
    )


def held_by_agent(snapshot: Snapshot) -> dict[int, ResourceSlots]:
    held = dict.fromkeys((agent.id for agent in snapshot.agents), ResourceSlots())
    for placement in plan(snapshot, NOW).placements:
        for kernel in placement.kernels:
            held[kernel.agent_id] += kernel.slots
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
        snapshot.strategy,
    )
    assert plan(snapshot, NOW) == plan(shuffled, NOW)


@given(snapshots())
def test_a_placement_covers_every_kernel_once_on_agents_that_may_host_it(snapshot):
    session_by_id = {session.id: session for session in snapshot.pending}
    agent_by_id = {agent.id: agent for agent in snapshot.agents}
    for placement in plan(snapshot, NOW).placements:
        session = session_by_id[placement.session_id]
        wanted = Counter((kernel.id, kernel.slots) for kernel in session.kernels)
        assert Counter((kernel.kernel_id, kernel.slots) for kernel in placement.kernels) == wanted
        for kernel in placement.kernels:
            agent = agent_by_id[kernel.agent_id]
            assert agent.is_schedulable
            assert session.may_run_on(agent)


@given(snapshots())
def test_every_pending_session_is_either_placed_or_deferred_with_a_reason(snapshot):
    decided = plan(snapshot, NOW)
    answered = [each.session_id for each in (*decided.placements, *decided.deferrals)]
    assert sorted(answered) == sorted(session.id for session in snapshot.pending)
    assert [each.position for each in decided.deferrals] == list(range(1, len(decided.deferrals) + 1))


@given(snapshots())
def test_of_equal_needs_the_older_never_waits_while_the_younger_runs(snapshot):
    deferred = {each.session_id for each in plan(snapshot, NOW).deferrals}
    line = sorted(snapshot.pending, key=lambda each: (-each.priority, each.enqueued_at, each.id))
    blocked = set()
    for session in line:
        needs = Counter(kernel.slots for kernel in session.kernels)
        shape = (session.architecture, session.designated_agent_id, frozenset(needs.items()))
        assert shape not in blocked or session.id in deferred
        if session.id in deferred:
            blocked.add(shape)


@given(snapshots())
def test_a_single_container_waits_only_if_no_agent_has_room_for_it_now(snapshot):
    held = held_by_agent(snapshot)
    deferred = {each.session_id for each in plan(snapshot, NOW).deferrals}
    for session in snapshot.pending:
        if session.id in deferred and len(session.kernels) == 1:
            hosts = [each for each in snapshot.agents if each.is_schedulable and session.may_run_on(each)]
            slots = session.kernels[0].slots
            assert not any(slots.fits_in(each.free - held[each.id]) for each in hosts)


@given(snapshots())
def test_the_numbers_of_a_deferral_prove_its_reason(snapshot):
    for deferral in plan(snapshot, NOW).deferrals:
        check = PROOF_BY_REASON[deferral.reason]
        assert check(deferral), deferral


def cannot_ever(deferral: Deferral) -> bool:
    return not deferral.asked.fits_in(deferral.group) or not deferral.asked_by_kernel.fits_in(
        deferral.best_agent
    )


PROOF_BY_REASON = {
    ReasonCode.NO_AGENTS: lambda each: each.group == ResourceSlots(),
    ReasonCode.AGENT_UNAVAILABLE: lambda each: each.group == ResourceSlots(),
    ReasonCode.NEVER_FITS: cannot_ever,
    ReasonCode.NO_CAPACITY: lambda each: not each.asked.fits_in(each.group),
    ReasonCode.FRAGMENTED: lambda each: (
        each.asked.fits_in(each.group) and (each.kernel_count > 1 or not each.asked.fits_in(each.best_agent))
    ),
}
