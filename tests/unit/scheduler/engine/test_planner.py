"""Decisions of one pass, by examples. The laws for all snapshots are in tests/property."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.values.resources import MAX_AMOUNT, ResourceSlots
from scheduler.engine import (
    AgentView,
    PendingSession,
    Plan,
    Planner,
    Quota,
    ReasonCode,
    Requirements,
    Rules,
    Snapshot,
    Strategy,
    plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def slots(**amounts: int) -> ResourceSlots:
    return ResourceSlots(amounts)


def agent(agent_id: int, free: ResourceSlots, **fields: object) -> AgentView:
    defaults = {"architecture": "x86_64", "capacity": free}
    return AgentView(id=agent_id, free=free, **{**defaults, **fields})


def session(
    number: int, *kernels: ResourceSlots, designated: int | None = None, **fields: object
) -> PendingSession:
    """Session `number`, enqueued `number` seconds after NOW; its kernels are number*100, number*100 + 1, …"""
    ids = tuple(UUID(int=number * 100 + index) for index in range(len(kernels)))
    defaults = {"enqueued_at": NOW + timedelta(seconds=number), "kernel_ids": ids}
    return PendingSession(
        id=UUID(int=number),
        requirements=Requirements("x86_64", kernels, designated),
        **{**defaults, **fields},
    )


def decide(
    agents: list[AgentView], *pending: PendingSession, strategy: Strategy = Strategy.CONCENTRATED
) -> Plan:
    return plan(Snapshot(1, "lab", 7, tuple(agents), pending, Rules(strategy=strategy)), NOW)


def agents_by_session(decided: Plan) -> dict[int, list[int]]:
    return {placement.session.id.int: list(placement.agent_ids) for placement in decided.placements}


def reasons(decided: Plan) -> dict[int, ReasonCode]:
    return {deferral.session_id.int: deferral.reason for deferral in decided.deferrals}


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_request_without_memory_fits_agent_without_free_memory(strategy, order):
    all_memory, none = order
    pending = session(all_memory, slots(cpu=1000, mem=4)), session(none, slots(cpu=1000))
    decided = decide([agent(1, slots(cpu=2000, mem=4))], *pending, strategy=strategy)
    assert agents_by_session(decided) == {1: [1], 2: [1]}


def test_a_plan_names_its_group_epoch_and_instant():
    decided = decide([])
    assert (decided.group_id, decided.epoch, decided.planned_at) == (1, 7, NOW)


def test_concentrated_takes_the_fullest_agent_with_room():
    agents = [agent(1, slots(cpu=8000)), agent(2, slots(cpu=2000)), agent(3, slots(cpu=500))]
    assert agents_by_session(decide(agents, session(1, slots(cpu=1000)))) == {1: [2]}


def test_dispersed_takes_the_emptiest_agent():
    agents = [agent(1, slots(cpu=8000)), agent(2, slots(cpu=2000)), agent(3, slots(cpu=7500))]
    pending = [session(number, slots(cpu=1000)) for number in (1, 2)]
    assert agents_by_session(decide(agents, *pending, strategy=Strategy.DISPERSED)) == {1: [1], 2: [3]}


def test_round_robin_goes_on_behind_the_last_and_passes_over_the_full():
    agents = [
        agent(1, slots(cpu=8000)),
        agent(2, slots(cpu=500)),
        agent(3, slots(cpu=2000)),
        agent(4, slots(cpu=1000)),
    ]
    pending = [session(number, slots(cpu=1000)) for number in range(1, 7)]
    snapshot = Snapshot(1, "lab", 7, tuple(agents), tuple(pending), Rules(strategy=Strategy.ROUND_ROBIN))
    turns = {1: [1], 2: [3], 3: [4], 4: [1], 5: [3], 6: [1]}
    assert agents_by_session(plan(snapshot, NOW)) == turns
    behind = {1: [4], 2: [1], 3: [3], 4: [1], 5: [3], 6: [1]}
    assert agents_by_session(plan(replace(snapshot, last_agent_id=3), NOW)) == behind
    gone = replace(snapshot, agents=(agents[0], agents[1], agents[3]), last_agent_id=3)
    assert agents_by_session(plan(gone, NOW))[1] == [4]
    assert agents_by_session(plan(replace(snapshot, last_agent_id=4), NOW)) == turns


@pytest.mark.parametrize("strategy", Strategy)
def test_a_session_without_devices_spares_machines_with_devices(strategy):
    agents = [agent(1, slots(cpu=1000, cuda=8000)), agent(2, slots(cpu=64000))]
    assert agents_by_session(decide(agents, session(1, slots(cpu=1000)), strategy=strategy)) == {1: [2]}


def test_a_session_without_devices_uses_machines_with_devices_when_the_others_are_full():
    agents = [agent(1, slots(cpu=1000, cuda=8000)), agent(2, slots(cpu=500))]
    assert agents_by_session(decide(agents, session(1, slots(cpu=1000)))) == {1: [1]}


def test_every_slot_must_fit_on_the_same_agent():
    agents = [agent(1, slots(cpu=4000, mem=100)), agent(2, slots(cpu=1000, mem=900))]
    decided = decide(agents, session(1, slots(cpu=2000, mem=500)), session(2, slots(cpu=1000, mem=500)))
    assert agents_by_session(decided) == {2: [2]}
    assert reasons(decided) == {1: ReasonCode.NEVER_FITS}


def test_older_sessions_go_first_and_higher_priority_before_them():
    pending = [
        session(1, slots(cpu=1000)),
        session(2, slots(cpu=1000)),
        session(3, slots(cpu=1000), priority=1),
    ]
    decided = decide([agent(1, slots(cpu=2000))], *reversed(pending))
    assert list(agents_by_session(decided)) == [3, 1]
    assert [(each.session_id.int, each.position) for each in decided.deferrals] == [(2, 1)]


def test_a_blocked_head_does_not_idle_the_cluster():
    decided = decide([agent(1, slots(cpu=2000))], session(1, slots(cpu=3000)), session(2, slots(cpu=2000)))
    assert agents_by_session(decided) == {2: [1]}


def test_a_gang_gets_an_agent_for_each_kernel_largest_first():
    agents = [agent(1, slots(cpu=3000)), agent(2, slots(cpu=2000))]
    decided = decide(agents, session(1, slots(cpu=1000), slots(cpu=2000), slots(cpu=2000)))
    assert agents_by_session(decided) == {1: [1, 2, 1]}


def test_gang_that_does_not_fit_whole_takes_nothing():
    agents = [agent(1, slots(cpu=2000)), agent(2, slots(cpu=2000))]
    gang = session(1, *[slots(cpu=1500)] * 3)
    decided = decide(agents, gang, session(2, slots(cpu=2000)), session(3, slots(cpu=2000)))
    assert agents_by_session(decided) == {2: [1], 3: [2]}
    assert reasons(decided) == {1: ReasonCode.NEVER_FITS}


def test_a_designated_agent_is_the_only_one_tried():
    agents = [agent(1, slots(cpu=2000)), agent(2, slots(cpu=9000))]
    pending = [session(number, slots(cpu=2000), designated=1) for number in (1, 2)]
    decided = decide(agents, *pending)
    assert agents_by_session(decided) == {1: [1]}
    assert reasons(decided) == {2: ReasonCode.NO_CAPACITY}


def preferring(number: int, *kernels: ResourceSlots, designated: int) -> PendingSession:
    preferred = session(number, *kernels, designated=designated)
    return replace(preferred, requirements=replace(preferred.requirements, may_run_elsewhere=True))


def test_a_preferred_agent_is_tried_first_and_then_the_others():
    agents = [agent(1, slots(cpu=2000)), agent(2, slots(cpu=2000)), agent(3, slots(cpu=4000))]
    pending = [preferring(number, slots(cpu=2000), designated=3) for number in (1, 2, 3)]
    assert agents_by_session(decide(agents, *pending)) == {1: [3], 2: [3], 3: [1]}


def test_kernels_stand_together_on_a_preferred_agent_as_far_as_it_has_room():
    agents = [agent(1, slots(cpu=2000)), agent(2, slots(cpu=4000))]
    pending = preferring(1, *[slots(cpu=2000)] * 3, designated=2)
    assert agents_by_session(decide(agents, pending)) == {1: [2, 2, 1]}


@pytest.mark.parametrize(
    "preferred",
    [
        agent(2, slots(cpu=9000)),
        agent(2, slots(cpu=9000, cuda=1000), is_schedulable=False),
        agent(2, slots(cpu=9000, cuda=1000), architecture="aarch64"),
        agent(3, slots(cpu=9000, cuda=1000)),
    ],
    ids=["without the device", "not schedulable", "another architecture", "absent"],
)
def test_where_the_preferred_agent_cannot_host_it_others_do(preferred):
    pending = preferring(1, slots(cpu=1000, cuda=1000), designated=2)
    decided = decide([agent(1, slots(cpu=1000, cuda=1000)), preferred], pending)
    assert set(agents_by_session(decided)) == {1}


@pytest.mark.parametrize(
    "present",
    [
        agent(2, slots(cpu=9000)),
        agent(1, slots(cpu=9000), is_schedulable=False),
        agent(1, slots(cpu=9000), architecture="aarch64"),
    ],
    ids=["absent", "not schedulable", "another architecture"],
)
def test_message_names_unavailable_designated_agent(present):
    decided = decide([present], session(1, slots(cpu=1000), designated=1))
    assert reasons(decided) == {1: ReasonCode.AGENT_UNAVAILABLE}


@pytest.mark.parametrize(
    "agents",
    [
        [],
        [agent(1, slots(cpu=9000), is_schedulable=False)],
        [agent(1, slots(cpu=9000), architecture="aarch64")],
    ],
    ids=["none", "not schedulable", "another architecture"],
)
def test_message_says_that_no_agent_is_possible(agents):
    assert reasons(decide(agents, session(1, slots(cpu=1000)))) == {1: ReasonCode.NO_AGENTS}


def test_more_than_is_free_is_no_capacity_with_the_nearest_agent():
    agents = [
        agent(1, slots(cpu=1000, mem=900), capacity=slots(cpu=4000, mem=900)),
        agent(2, slots(cpu=2000, mem=800), capacity=slots(cpu=4000, mem=900)),
    ]
    deferral = decide(agents, session(1, slots(cpu=4000, mem=500))).deferrals[0]
    assert deferral.reason is ReasonCode.NO_CAPACITY
    assert deferral.explanation.best_agent == slots(cpu=2000, mem=800)
    assert deferral.explanation.group_total == slots(cpu=3000, mem=1700)


def test_enough_in_all_but_not_on_one_agent_is_fragmented():
    agents = [agent(number, slots(cpu=3000), capacity=slots(cpu=8000)) for number in (1, 2)]
    deferral = decide(agents, session(1, slots(cpu=4000))).deferrals[0]
    assert deferral.reason is ReasonCode.FRAGMENTED
    assert (deferral.explanation.best_agent, deferral.explanation.group_total) == (
        slots(cpu=3000),
        slots(cpu=6000),
    )


def test_what_only_an_unschedulable_agent_could_hold_may_still_fit_one_day():
    agents = [agent(1, slots(cpu=2000)), agent(2, slots(cpu=64000), is_schedulable=False)]
    assert reasons(decide(agents, session(1, slots(cpu=32000)))) == {1: ReasonCode.NO_CAPACITY}


def test_never_fits_shows_what_the_largest_agent_has_at_all():
    agents = [agent(1, slots(), capacity=slots(cpu=4000)), agent(2, slots(), capacity=slots(cpu=2000))]
    deferral = decide(agents, session(1, slots(cpu=5000))).deferrals[0]
    assert deferral.reason is ReasonCode.NEVER_FITS
    assert (deferral.explanation.best_agent, deferral.explanation.group_total) == (
        slots(cpu=4000),
        slots(cpu=6000),
    )


def test_a_slot_that_no_agent_has_never_fits():
    decided = decide([agent(1, slots(cpu=9000))], session(1, slots(cpu=1000, cuda=1000)))
    assert reasons(decided) == {1: ReasonCode.NEVER_FITS}


def test_an_amount_beyond_any_machine_never_fits_however_large_the_agent_says_it_is():
    decided = decide([agent(1, slots(mem=MAX_AMOUNT * 8))], session(1, slots(mem=MAX_AMOUNT * 4)))
    assert reasons(decided) == {1: ReasonCode.NEVER_FITS}


def test_an_agent_that_lost_capacity_below_its_use_gets_nothing():
    shrunk = agent(1, slots(cpu=1000, mem=500) - slots(mem=900), capacity=slots(cpu=1000, mem=500))
    assert reasons(decide([shrunk], session(1, slots(cpu=500, mem=1)))) == {1: ReasonCode.NO_CAPACITY}


def test_a_session_that_asks_for_nothing_runs_on_a_full_agent():
    assert agents_by_session(decide([agent(1, slots(), capacity=slots(cpu=1))], session(1, slots()))) == {
        1: [1]
    }


def test_equal_needs_get_equal_reasons_at_their_own_positions():
    decided = decide([agent(1, slots(cpu=1000))], *[session(number, slots(cpu=2000)) for number in (1, 2)])
    first, second = decided.deferrals
    assert (second.session_id.int, second.position) == (2, 2)
    assert second.explanation is first.explanation


def test_a_session_without_kernels_is_refused():
    with pytest.raises(ValueError, match="at least one kernel"):
        session(1)


def test_a_negative_request_is_refused():
    with pytest.raises(ValueError, match="negative"):
        session(1, slots(cpu=-1))


def test_a_session_names_each_of_its_kernels():
    with pytest.raises(ValueError, match="names 1 kernels and needs 2"):
        session(1, slots(cpu=1), slots(cpu=1), kernel_ids=(UUID(int=1),))


@pytest.mark.parametrize("strategy", Strategy)
def test_memory_that_is_spent_hides_no_agent_that_has_some(strategy):
    """Many agents with cores and without memory stand before the one that has both."""
    agents = [agent(number, slots(cpu=4000, mem=100, cuda=1000)) for number in range(1, 200)]
    agents.append(agent(200, slots(cpu=4000, mem=900, cuda=1000)))
    decided = decide(agents, session(1, slots(cpu=1500, mem=500, cuda=500)), strategy=strategy)
    assert agents_by_session(decided) == {1: [200]}


@pytest.mark.parametrize("strategy", Strategy)
def test_a_second_kind_of_device_must_fit_too(strategy):
    both = slots(cpu=9000, cuda=1000, rocm=1000)
    agents = [agent(1, slots(cpu=9000, cuda=1000), capacity=both), agent(2, both)]
    decided = decide(agents, session(1, slots(cpu=1, rocm=1000)), strategy=strategy)
    assert agents_by_session(decided) == {1: [2]}


@pytest.mark.parametrize("strategy", Strategy)
def test_agents_larger_than_any_cell_are_used_to_the_end(strategy):
    huge = slots(cpu=10**8, mem=100, cuda=10**6)
    pending = [session(number, slots(cpu=5 * 10**7, cuda=5 * 10**5)) for number in (1, 2, 3)]
    decided = decide([agent(1, huge), agent(2, slots(cpu=10**6))], *pending, strategy=strategy)
    assert agents_by_session(decided) == {1: [1], 2: [1]}


@pytest.mark.parametrize("strategy", Strategy)
def test_an_agent_is_found_behind_those_with_devices_and_too_few_cores(strategy):
    kinds = slots(cpu=8000, cuda=8000)
    agents = [
        agent(1, slots(cpu=1000, cuda=2000), capacity=kinds),
        agent(2, slots(cpu=4000, cuda=4000), capacity=kinds),
        agent(3, slots(cpu=1000, cuda=8000), capacity=kinds),
    ]
    decided = decide(agents, session(1, slots(cpu=2000, cuda=1000)), strategy=strategy)
    assert agents_by_session(decided) == {1: [2]}


def test_planner_forgets_requirements_without_sessions(monkeypatch):
    monkeypatch.setattr("scheduler.engine.index.agent_index.MAX_CLASSES", 2)
    monkeypatch.setattr("scheduler.engine.policy.quota_tracker.MAX_SCOPE_LISTS", 2)
    planner, agents = Planner(), (agent(1, slots(cpu=9000)),)
    limits = tuple(Quota(f"user:{number}", "user", "ann", {"cpu": 9000}, {}) for number in range(4))
    for _ in range(3):
        pending = tuple(
            session(number, slots(cpu=1000 + number), scopes=(f"user:{number}",)) for number in range(4)
        )
        told = Snapshot(1, "lab", 7, agents, pending, quotas=limits)
        assert planner.plan(told, NOW) == plan(told, NOW)
        limits = (replace(limits[0], allocated={"cpu": 1000}), *limits[1:])


def test_planner_accepts_slots_not_requested_before():
    agents = (agent(1, slots(cpu=8000)),)
    first = Snapshot(1, "lab", 7, agents, (session(1, slots(cpu=1000)),))
    other = replace(first, pending=(session(2, slots(cpu=1000, rocm=1000)),))
    planner = Planner()
    planner.plan(first, NOW)
    assert planner.plan(other, NOW) == plan(other, NOW)


def paused(*pending: PendingSession) -> Snapshot:
    agents = (agent(1, slots(cpu=4)), agent(2, slots(cpu=2, mem=1)))
    return Snapshot(1, "lab", 7, agents, pending, Rules(is_paused=True))


def test_in_a_paused_group_all_keep_their_place_in_the_line():
    told = paused(session(2, slots(cpu=1)), session(1, slots(cpu=1)), session(3, slots(cpu=9), priority=1))
    decided = plan(told, NOW)
    assert [(each.session_id.int, each.position) for each in decided.deferrals] == [(3, 1), (1, 2), (2, 3)]
    assert {each.reason for each in decided.deferrals} == {ReasonCode.GROUP_PAUSED}
    assert decided.placements == ()


def test_forecast_of_one_session_equals_the_plan():
    first, second, third = (session(number, slots(cpu=3)) for number in (1, 2, 3))
    open_too = replace(paused(first, second, third), rules=Rules())
    for told in (paused(first, second, third), open_too):
        decided = plan(told, NOW)
        for each in told.pending:
            foreseen = Planner().what_if(told, each, NOW)
            assert [foreseen.placement] == [p for p in decided.placements if p.session is each] or [None]
            assert foreseen.deferral == next((d for d in decided.deferrals if d.session_id == each.id), None)
            place = 0 if foreseen.deferral is None else foreseen.deferral.position - 1
            assert tuple(foreseen.ahead) == (
                decided.deferrals[:place] if foreseen.deferral else decided.deferrals
            )


@pytest.mark.parametrize("strategy", Strategy)
def test_a_planner_goes_on_with_what_agents_have_free_and_begins_anew_where_more_changed(strategy: Strategy):
    full, planner = slots(cpu=8, mem=8), Planner()
    asleep = agent(3, full, is_schedulable=False)
    agents = (agent(1, full), agent(2, full), asleep)
    fewer = (agent(1, slots(cpu=1, mem=8), capacity=full), agents[1], replace(asleep, free=slots(cpu=2)))
    asked = tuple(session(number, slots(cpu=2, mem=1), scopes=("a",)) for number in range(1, 6))
    begun = Snapshot(1, "lab", 0, agents, asked, Rules(strategy=strategy))
    limited = (Quota("a", "project", "a", {"cpu": 6, "npu": 1}, {}),)
    others = next(each for each in Strategy if each is not strategy)
    for told in (
        begun,
        replace(begun, agents=fewer),
        replace(begun, quotas=limited),
        replace(begun, quotas=(*limited, replace(limited[0], key="b"))),
        replace(begun, rules=Rules(strategy=others)),
    ):
        assert planner.plan(told, NOW) == plan(told, NOW)


def test_the_emptiest_is_one_that_has_all_that_is_asked_for():
    """Both have few cores, so they lie in one place of the grid; the first, with more memory, has too few of them."""
    agents = [agent(1, slots(cpu=1, mem=9)), agent(2, slots(cpu=2, mem=3))]
    decided = decide(agents, session(1, slots(cpu=2, mem=4)), strategy=Strategy.DISPERSED)
    assert reasons(decided) == {1: ReasonCode.NEVER_FITS}
    decided = decide(agents, session(1, slots(cpu=2, mem=2)), strategy=Strategy.DISPERSED)
    assert agents_by_session(decided) == {1: [2]}


def test_sessions_of_one_model_get_capacity_of_its_agents_as_reason():
    agents = [
        agent(1, slots(gpu=1), device_model="a", capacity=slots(gpu=4)),
        agent(2, slots(gpu=3), device_model="b"),
    ]
    asked = [session(number, slots(gpu=2)) for number in (1, 2)]
    asked = [replace(each, requirements=replace(each.requirements, device_model="a")) for each in asked]
    decided = decide(agents, *asked)
    assert [each.explanation.best_agent for each in decided.deferrals] == [slots(gpu=1)] * 2
