"""Laws of preemption, for any snapshot."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    PendingSession,
    Plan,
    Policy,
    PreemptibleAllocation,
    PreemptionClaim,
    PreemptionRule,
    ReasonCode,
    Requirements,
    Rules,
    RunningAllocation,
    Snapshot,
    Strategy,
    plan,
)
from scheduler.engine.values import ASSUMED_RUNTIME
from tests.property.test_engine import ENDS, NOW, snapshots


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """Where somebody mostly has to leave, and something often ends by itself in time."""

    def machine(agent_id: int) -> AgentView:
        here = [draw(st.integers(1, 3)) for _ in range(4)]
        preemptible = tuple(
            PreemptibleAllocation(
                UUID(int=agent_id * 1000 + number),
                draw(st.integers(-1, 1)),
                NOW,
                ResourceSlots({"cpu": cores}),
                ends_at=draw(st.none() | ENDS),
            )
            for number, cores in enumerate(here)
        )
        running = tuple(RunningAllocation(each.slots, each.ends_at) for each in preemptible if each.ends_at)
        free, capacity = (ResourceSlots({"cpu": cores}) for cores in (draw(st.integers(0, 2)), 14))
        return AgentView(agent_id, "x86_64", capacity, free, running=running, preemptible=preemptible)

    def waiting(number: int) -> PendingSession:
        needs = Requirements("x86_64", (ResourceSlots({"cpu": draw(st.integers(1, 8))}),))
        lasts = draw(st.none() | st.integers(1, 2).map(lambda seconds: timedelta(seconds=seconds)))
        priority = draw(st.integers(0, 2))
        return PendingSession(UUID(int=number), NOW, needs, (UUID(int=number),), priority, max_runtime=lasts)

    machines = tuple(machine(number) for number in range(1, draw(st.integers(1, 2)) + 1))
    pending = tuple(waiting(number) for number in range(1, draw(st.integers(1, 4)) + 1))
    rules = Rules(preemption=PreemptionRule(1, timedelta(), timedelta(seconds=1)))
    return Snapshot(1, "lab", 0, machines, pending, rules)


@given(snapshots() | crowded())
def test_only_what_must_and_may_end_ends_for_one_that_waits(snapshot):
    """Of what is there when the notice is over, whoever ends by itself until then."""
    decided = plan(snapshot, NOW)
    pending = {each.id: each for each in snapshot.pending}
    ended = [victim for eviction in decided.evictions for victim in eviction.victims]
    assert len(ended) == len(set(ended))
    for eviction in decided.evictions:
        session, rule = pending[eviction.session_id], snapshot.rules.preemption
        agent = next(each for each in snapshot.agents if each.id == eviction.agent_id)
        leaving = [each for each in agent.preemptible if each.session_id in eviction.victims]
        assert len(leaving) == len(eviction.victims) > 0
        lasts = ASSUMED_RUNTIME if session.max_runtime is None else session.max_runtime
        assert session.requirements.may_run_on(agent)
        assert agent.next_window is None or eviction.ends_at + lasts <= agent.next_window.starts_at
        for victim in leaving:
            assert victim.priority < session.priority
            assert victim.priority <= rule.max_priority
            assert NOW - victim.since >= rule.min_runtime
            assert not ends_by(eviction.ends_at, victim.ends_at)
        free = free_at(eviction.ends_at, agent, decided)
        given_back = [victim.slots for victim in leaving]
        assert session.requirements.total.fits_in(sum(given_back, free))
        for spared in range(len(leaving)):
            others = given_back[:spared] + given_back[spared + 1 :]
            assert not session.requirements.total.fits_in(sum(others, free))


def ends_by(at: datetime, ends_at: datetime | None) -> bool:
    """Who should have ended by now may never."""
    return ends_at is not None and NOW < ends_at <= at


def free_at(at: datetime, agent: AgentView, decided: Plan) -> ResourceSlots:
    """What it will have free then, if nobody is made to leave it."""
    surely = (each for each in agent.running if ends_by(at, each.ends_at) and not each.is_being_preempted)
    free = sum((each.slots for each in surely), agent.free)
    for placement in decided.placements:
        lasts = placement.session.max_runtime
        for kernel in placement.kernels if lasts is None or NOW + lasts > at else ():
            free -= kernel.slots if kernel.agent_id == agent.id else ResourceSlots()
    return free


@settings(max_examples=400)
@given(crowded(), st.sampled_from(Policy), st.sampled_from(Strategy))
def test_preempted_capacity_goes_to_its_session_or_a_higher_priority(snapshot, policy, strategy):
    snapshot = replace(snapshot, rules=replace(snapshot.rules, policy=policy, strategy=strategy))
    decided = plan(snapshot, NOW)
    then = once_they_left(snapshot, decided)
    placements = plan(then, NOW + snapshot.rules.preemption.grace).placements
    placed = {each.session_id for each in placements}
    for session in then.pending:
        if session.preemption_claim and session.id not in placed:
            there = [
                each.session for each in placements if session.preemption_claim.agent_id in each.agent_ids
            ]
            assert any(each.priority > session.priority for each in there)


def once_they_left(snapshot: Snapshot, decided: Plan) -> Snapshot:
    """At the end of the notice, as a tick reads it then."""
    at = NOW + snapshot.rules.preemption.grace
    victims = {victim for eviction in decided.evictions for victim in eviction.victims}
    agents = []
    for agent in snapshot.agents:
        left = [each.slots for each in agent.preemptible if each.session_id in victims]
        agents.append(replace(agent, free=sum(left, free_at(at, agent, decided)), running=(), preemptible=()))
    promises = {each.session_id: PreemptionClaim(each.agent_id, each.ends_at) for each in decided.evictions}
    ranks = {session_id: rank for rank, session_id in enumerate(decided.heads, 1)}
    started = {each.session_id for each in decided.placements}
    pending = [
        replace(each, preemption_claim=promises.get(each.id), head_rank=ranks.get(each.id, 0))
        for each in snapshot.pending
        if each.id not in started
    ]
    return replace(snapshot, agents=tuple(agents), pending=tuple(pending))


@given(snapshots())
def test_room_is_made_for_sessions_that_wait_for_nothing_else(snapshot):
    decided = plan(snapshot, NOW)
    reasons = {each.session_id: each.reason for each in decided.deferrals}
    promised = {each.id for each in snapshot.pending if each.preemption_claim}
    evicting = {each.session_id for each in decided.evictions}
    assert all(reasons[session_id] is ReasonCode.MAKING_ROOM for session_id in evicting)
    assert not evicting & promised
