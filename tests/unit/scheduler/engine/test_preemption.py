"""Preemption of lower priorities: the fewest sessions that suffice, each once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    BackfillReservation,
    Eviction,
    PendingSession,
    Plan,
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
    plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RULE = PreemptionRule(max_priority=0, min_runtime=timedelta(minutes=10), grace=timedelta(minutes=1))
SOON = NOW + RULE.grace


def cores(count: int) -> ResourceSlots:
    return ResourceSlots({"cpu": count * 1000})


def runs(
    number: int, count: int, *, priority: int = 0, minutes: int = 60, ends_s: int | None = None
) -> PreemptibleAllocation:
    ends_at = None if ends_s is None else NOW + timedelta(seconds=ends_s)
    since = NOW - timedelta(minutes=minutes)
    return PreemptibleAllocation(UUID(int=number), priority, since, cores(count), ends_at=ends_at)


def agent(agent_id: int, *preemptible: PreemptibleAllocation, others: int = 0) -> AgentView:
    """8 cores, in use by these and by others that nobody may end."""
    used = sum((each.slots for each in preemptible), cores(others))
    running = tuple(RunningAllocation(each.slots, each.ends_at) for each in preemptible if each.ends_at)
    return AgentView(agent_id, "x86_64", cores(8), cores(8) - used, preemptible=preemptible, running=running)


def waits(
    number: int, *kernels: int, priority: int = 10, designated: int | None = None, minutes: int | None = None
) -> PendingSession:
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW + timedelta(seconds=number),
        requirements=Requirements("x86_64", tuple(cores(count) for count in kernels), designated),
        kernel_ids=tuple(UUID(int=number * 10 + index) for index in range(len(kernels))),
        priority=priority,
        max_runtime=None if minutes is None else timedelta(minutes=minutes),
    )


def decide(agents: list[AgentView], *pending: PendingSession, rule: PreemptionRule | None = RULE) -> Plan:
    return plan(Snapshot(1, "lab", 0, tuple(agents), pending, Rules(preemption=rule)), NOW)


def victims(decided: Plan) -> dict[int, set[int]]:
    """By the session for which they end."""
    return {each.session_id.int: {victim.int for victim in each.victims} for each in decided.evictions}


def test_lower_priority_is_preempted_and_its_capacity_reserved():
    decided = decide([agent(1, runs(101, 8))], waits(1, 4), waits(2, 4, priority=-5))
    assert decided.evictions == (Eviction(UUID(int=1), 1, (UUID(int=101),), SOON),)
    assert decided.reservations[0] == BackfillReservation(UUID(int=1), (1,), SOON)
    [first, second] = decided.deferrals
    assert (first.reason, first.explanation.until) == (ReasonCode.MAKING_ROOM, SOON)
    assert second.reason is ReasonCode.NO_CAPACITY


def test_without_preemption_rule_nothing_is_preempted():
    assert not decide([agent(1, runs(101, 8))], waits(1, 4), rule=None).evictions


def test_equal_and_higher_priorities_stay():
    agents = [agent(1, runs(101, 8, priority=0))]
    assert not decide(agents, waits(1, 4, priority=0)).evictions
    assert not decide(agents, waits(1, 4, priority=-1)).evictions


def test_priority_raised_by_ageing_preempts_nothing():
    rules = Rules(preemption=RULE, ageing=timedelta(seconds=1))
    old = replace(waits(1, 4, priority=0), enqueued_at=NOW - timedelta(hours=1))
    assert not plan(Snapshot(1, "lab", 0, (agent(1, runs(101, 8)),), (old,), rules), NOW).evictions


def test_sessions_above_rule_priority_or_just_started_are_not_preempted():
    assert not decide([agent(1, runs(101, 8, priority=5))], waits(1, 4)).evictions
    assert not decide([agent(1, runs(101, 8, minutes=9))], waits(1, 4)).evictions


def test_nothing_is_preempted_if_it_would_not_suffice():
    assert not decide(
        [agent(1, runs(101, 4), others=4), agent(2, runs(102, 3), others=5)], waits(1, 6)
    ).evictions


def test_the_lowest_priority_goes_first_then_the_shortest_run():
    agents = [agent(1, runs(101, 4), runs(102, 4, priority=-3)), agent(2, runs(103, 4), others=4)]
    assert victims(decide(agents, waits(1, 4))) == {1: {102}}
    agents = [agent(1, runs(101, 4, minutes=90), runs(102, 4, minutes=30))]
    assert victims(decide(agents, waits(1, 4))) == {1: {102}}


def test_fewer_end_rather_than_more():
    agents = [agent(1, *(runs(number, 2) for number in range(101, 105))), agent(2, runs(105, 8))]
    assert victims(decide(agents, waits(1, 8))) == {1: {105}}


def test_superfluous_victims_are_spared():
    agents = [agent(1, runs(101, 1, priority=-5), runs(102, 7, priority=-1))]
    assert victims(decide(agents, waits(1, 7))) == {1: {102}}


def test_each_victim_serves_one_session():
    agents = [agent(1, runs(101, 8)), agent(2, runs(102, 8))]
    assert victims(decide(agents, waits(1, 4), waits(2, 4), waits(3, 4))) == {1: {101}, 2: {102}}


def test_a_session_on_two_machines_ends_once():
    both = runs(101, 8)
    assert victims(decide([agent(1, both), agent(2, both)], waits(1, 8), waits(2, 8))) == {1: {101}}


def test_ways_are_weighed_anew_when_another_took_of_the_room():
    agents = [agent(1, runs(101, 3), runs(102, 3)), agent(2, runs(103, 8, minutes=900))]
    decided = decide(agents, waits(3, 2, priority=20), waits(1, 5), waits(2, 5))
    assert [each.session.id.int for each in decided.placements] == [3]
    assert victims(decided) == {1: {103}, 2: {101, 102}}


def test_preemption_is_recomputed_after_a_placement():
    agents = [
        agent(1, runs(101, 3), runs(102, 3)),
        agent(2, runs(103, 8, minutes=900)),
        agent(3, runs(104, 8, minutes=20)),
    ]
    decided = decide(agents, waits(1, 5), waits(2, 2), waits(3, 5))
    assert [each.session.id.int for each in decided.placements] == [2]
    assert victims(decided) == {1: {104}, 3: {103}}


def test_sessions_of_several_kernels_preempt_nothing():
    assert not decide([agent(1, runs(101, 8))], waits(1, 2, 2)).evictions


def test_a_designated_agent_is_cleared():
    agents = [agent(1, runs(101, 8)), agent(2, runs(102, 2), others=6)]
    assert victims(decide(agents, waits(1, 2, designated=1))) == {1: {101}}
    assert not decide(agents, waits(1, 2, designated=9)).evictions


def test_nothing_is_preempted_for_capacity_that_is_free_as_soon():
    ending = replace(agent(1, others=8), running=(RunningAllocation(cores(8), NOW + timedelta(seconds=30)),))
    assert not decide([ending, agent(2, runs(101, 8))], waits(1, 4)).evictions
    ending = replace(ending, running=(RunningAllocation(cores(8), NOW + timedelta(minutes=30)),))
    assert victims(decide([ending, agent(2, runs(101, 8))], waits(1, 4))) == {1: {101}}


def test_nothing_is_preempted_for_capacity_that_is_free_as_soon_beside_a_waiting_gang():
    """The gang is first, and keeps the two machines that are large enough for it."""
    ending = (RunningAllocation(cores(2), SOON), RunningAllocation(cores(2), SOON))
    third = AgentView(3, "x86_64", cores(4), cores(0), running=ending, preemptible=(runs(103, 4),))
    agents = [agent(1, runs(101, 8)), agent(2, runs(102, 8)), third]
    gang = replace(waits(1, 8, 8), enqueued_at=NOW - timedelta(hours=1))
    decided = decide(agents, gang, waits(2, 4))
    assert victims(decided) == {}
    assert decided.reservations == (
        BackfillReservation(UUID(int=1), (1, 2), None),
        BackfillReservation(UUID(int=2), (3,), SOON),
    )
    later = replace(third, running=(RunningAllocation(cores(4), SOON + RULE.grace),))
    assert victims(decide([*agents[:2], later], gang, waits(2, 4), waits(3, 4))) == {2: {103}}


def test_victim_is_spared_if_another_session_ends_in_time():
    others = runs(102, 3), runs(103, 3)
    assert victims(decide([agent(1, runs(101, 2), *others)], waits(1, 5))) == {1: {101, 102}}
    assert victims(decide([agent(1, runs(101, 2, ends_s=60), *others)], waits(1, 5))) == {1: {102}}
    assert victims(decide([agent(1, runs(101, 2, ends_s=61), *others)], waits(1, 5))) == {1: {101, 102}}


def test_victim_is_spared_if_a_new_placement_ends_in_time():
    short = replace(waits(3, 2, priority=20), max_runtime=RULE.grace)
    for lasts, leave in ((RULE.grace, {101}), (RULE.grace * 2, {101, 102})):
        agents = [agent(1, runs(101, 3), runs(102, 3))]
        decided = decide(agents, replace(short, max_runtime=lasts), waits(1, 5))
        assert [each.session.id.int for each in decided.placements] == [3]
        assert victims(decided) == {1: leave}


def test_nothing_is_preempted_if_natural_ends_suffice():
    decided = decide([agent(1, runs(101, 4, ends_s=30), runs(102, 4))], waits(1, 4))
    assert not decided.evictions
    assert decided.reservations == (BackfillReservation(UUID(int=1), (1,), NOW + timedelta(seconds=30)),)


def test_session_that_its_time_limit_ends_in_time_is_not_preempted():
    agents = [agent(1, runs(101, 4, priority=-5, ends_s=60), runs(102, 4))]
    assert victims(decide(agents, waits(1, 8))) == {1: {102}}


def test_later_end_counts_once():
    assert not decide([agent(1, runs(101, 4, ends_s=61), others=4)], waits(1, 8)).evictions
    assert victims(decide([agent(1, runs(101, 4, ends_s=61), others=4)], waits(1, 4))) == {1: {101}}


def test_overdue_session_is_preempted():
    agents = [agent(1, runs(101, 4, ends_s=0), runs(102, 4, ends_s=-5))]
    assert victims(decide(agents, waits(1, 8))) == {1: {101, 102}}


def test_capacity_freed_for_another_session_is_not_counted():
    """It may stay, as soon as the other does not need its room."""
    leaving = RunningAllocation(cores(4), SOON, is_being_preempted=True)
    here = replace(agent(1, runs(101, 4), others=4), running=(leaving,))
    assert not decide([here], waits(1, 8)).evictions
    here = replace(here, running=(leaving._replace(is_being_preempted=False),))
    assert victims(decide([here], waits(1, 8))) == {1: {101}}


def test_surplus_of_preempted_capacity_is_open_to_others():
    here = agent(1, runs(101, 2, ends_s=30), runs(102, 5))
    for asks, placed in ((7, [2]), (8, [])):
        decided = decide([here], waits(1, asks), waits(2, 1, priority=-1))
        assert victims(decided) == {1: {102}}
        assert [each.session.id.int for each in decided.placements] == placed


def test_preemption_claim_is_kept_and_preempts_no_more():
    leaving = replace(agent(1, others=8), running=(RunningAllocation(cores(8), SOON),))
    session = replace(waits(1, 4), preemption_claim=PreemptionClaim(1, SOON))
    decided = decide([leaving, agent(2, runs(101, 8))], session, waits(2, 4, priority=-1, minutes=60))
    assert not decided.evictions
    assert decided.reservations == (BackfillReservation(session.id, (1,), SOON),)
    assert decided.deferrals[0].explanation.until == SOON


def test_victims_that_are_late_keep_their_promise():
    late = NOW - timedelta(seconds=5)
    session = replace(waits(1, 4), preemption_claim=PreemptionClaim(1, late))
    decided = decide([agent(1, others=8), agent(2, runs(101, 8))], session)
    assert not decided.evictions
    assert decided.reservations == (BackfillReservation(session.id, (1,), None),)


def test_claim_on_a_removed_agent_preempts_nothing_else_meanwhile():
    session = replace(waits(1, 4), preemption_claim=PreemptionClaim(9, SOON))
    decided = decide([agent(1, runs(101, 8))], session)
    assert not decided.evictions
    assert decided.deferrals[0].reason is ReasonCode.NO_CAPACITY


def test_preemption_serves_only_as_many_as_a_limit_allows():
    agents = [agent(number, runs(1000 + number, 8)) for number in range(1, 6)]
    asking = [replace(waits(number, 8), scopes=("ann",)) for number in range(1, 5)]
    asking[0] = replace(asking[0], preemption_claim=PreemptionClaim(1, SOON))
    limit = Quota("ann", "user", "Ann", cores(24), cores(0))
    snapshot = Snapshot(1, "lab", 0, tuple(agents), tuple(asking), Rules(preemption=RULE), (limit,))
    assert victims(plan(snapshot, NOW)) == {2: {1002}, 3: {1003}}


def test_when_they_have_ended_it_gets_the_room():
    session = replace(waits(1, 8), preemption_claim=PreemptionClaim(1, SOON))
    small = [waits(number, 1, priority=9) for number in range(2, 9)]
    decided = decide([agent(1)], *small, session)
    assert [each.session.id.int for each in decided.placements] == [1]


def test_a_pass_ends_so_many_at_most():
    agents = [agent(number, runs(1000 + number, 8)) for number in range(1, 103)]
    decided = decide(agents, *(waits(number, 8) for number in range(1, 103)))
    assert len(decided.evictions) == 100


def test_a_machine_that_is_cleared_for_another_size_is_passed_over():
    agents = [agent(number, runs(100 + number, 8)) for number in (1, 2, 3)]
    decided = decide(agents, waits(1, 4), waits(2, 5), waits(3, 4))
    assert victims(decided) == {1: {101}, 2: {102}, 3: {103}}


def test_claim_is_dropped_if_a_reservation_begins_too_soon():
    until = SOON + timedelta(hours=1)
    leaving = replace(agent(1, others=8), running=(RunningAllocation(cores(8), SOON),))
    closing = replace(leaving, next_window=ReservationWindow(7, until, until + timedelta(hours=1)))
    asking = replace(waits(1, 4, minutes=90), preemption_claim=PreemptionClaim(1, SOON))
    assert decide([closing], asking).reservations == ()
    assert decide([leaving], asking).reservations == (BackfillReservation(asking.id, (1,), SOON),)
