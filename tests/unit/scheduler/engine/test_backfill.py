"""Backfill: sessions that pass the first pending session never delay its start."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    BackfillReservation,
    Gang,
    PendingSession,
    PlacementGroup,
    PlacementRule,
    Plan,
    Quota,
    ReasonCode,
    Requirements,
    Rules,
    RunningAllocation,
    Snapshot,
    plan,
)
from scheduler.explain.messages import message_for, who_may_raise

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CAPACITY = 8


def cores(count: int) -> ResourceSlots:
    return ResourceSlots({"cpu": count * 1000})


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def agent(agent_id: int, *running: tuple[int, float], unknown: int = 0) -> AgentView:
    """8 cores, of which (so many cores, for so many minutes) are in use, and some nobody knows for how long."""
    used = sum(count for count, _ in running) + unknown
    ends = tuple(RunningAllocation(cores(count), at(minutes)) for count, minutes in running)
    return AgentView(agent_id, "x86_64", cores(CAPACITY), cores(CAPACITY - used), running=ends)


def session(
    number: int,
    *kernels: int,
    minutes: float | None = None,
    waited: float = 0,
    designated: int | None = None,
    gang: Gang = Gang.ANYWHERE,
    placement_group: PlacementGroup | None = None,
) -> PendingSession:
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=at(-waited) + timedelta(seconds=number),
        requirements=Requirements(
            "x86_64",
            tuple(cores(count) for count in kernels),
            designated,
            gang=gang,
            placement_group=placement_group,
        ),
        kernel_ids=tuple(UUID(int=number * 10 + index) for index in range(len(kernels))),
        max_runtime=None if minutes is None else timedelta(minutes=minutes),
    )


def decide(agents: list[AgentView], *pending: PendingSession) -> Plan:
    return plan(Snapshot(1, "lab", 0, tuple(agents), pending, Rules(patience=timedelta(minutes=10))), NOW)


def placed(decided: Plan) -> dict[int, tuple[int, ...]]:
    return {placement.session.id.int: placement.agent_ids for placement in decided.placements}


def reasons(decided: Plan) -> dict[int, ReasonCode]:
    return {deferral.session_id.int: deferral.reason for deferral in decided.deferrals}


def test_session_that_would_delay_the_first_waits_and_one_that_ends_before_starts():
    agents = [agent(1, (4, 30))]
    decided = decide(
        agents, session(1, 8), session(2, 2), session(3, 2, minutes=60), session(4, 2, minutes=30)
    )
    assert placed(decided) == {4: (1,)}
    assert reasons(decided) == {1: ReasonCode.NO_CAPACITY, 2: ReasonCode.KEPT_FREE, 3: ReasonCode.KEPT_FREE}
    assert decided.reservations == (BackfillReservation(UUID(int=1), (1,), at(30)),)


def test_session_that_would_end_in_time_waits_if_reserved_capacity_is_in_use():
    agents = [agent(1, (4, 30))]
    decided = decide(
        agents, session(1, 8), session(2, 4), session(3, 3, minutes=30), session(4, 4, minutes=20)
    )
    assert placed(decided) == {3: (1,)}
    assert reasons(decided)[4] is ReasonCode.NO_CAPACITY


def test_capacity_beyond_the_reservation_is_open_to_all():
    decided = decide([agent(1, (4, 30))], session(1, 6), session(2, 1), session(3, 1), session(4, 1))
    assert placed(decided) == {2: (1,), 3: (1,)}


def test_other_agents_are_open_to_all():
    agents = [agent(1, (4, 30)), agent(2, (2, 90))]
    assert placed(decide(agents, session(1, 8), session(2, 6), session(3, 4))) == {2: (2,)}


def test_reservation_is_on_the_agent_that_is_free_first():
    agents = [agent(1, (4, 50)), agent(2, (4, 20), (2, 30)), agent(3, unknown=1)]
    assert decide(agents, session(1, 8)).reservations[0].agent_ids == (2,)


def test_known_ends_count_before_unknown_ends():
    decided = decide([agent(1, (1, 600)), agent(2, unknown=1)], session(1, 8, waited=60))
    assert decided.reservations == (BackfillReservation(UUID(int=1), (1,), at(600)),)


def test_sessions_placed_in_the_same_pass_count_with_their_ends():
    decided = decide([agent(1)], session(1, 4, minutes=15), session(2, 8), session(3, 4, minutes=20))
    assert placed(decided) == {1: (1,)}
    assert decided.reservations == (BackfillReservation(UUID(int=2), (1,), at(15)),)


def test_without_known_ends_reservation_starts_after_long_wait():
    agents = [agent(1, unknown=4)]
    assert placed(decide(agents, session(1, 8, waited=9), session(2, 4, waited=8))) == {2: (1,)}
    decided = decide(agents, session(1, 8, waited=11), session(2, 4, waited=8), session(3, 1, minutes=1))
    assert placed(decided) == {}
    assert decided.reservations == (BackfillReservation(UUID(int=1), (1,), None),)


def test_a_later_session_of_the_same_shape_that_waited_long_is_enough():
    pending = [session(1, 8, waited=1), session(2, 8, waited=11), session(3, 4)]
    decided = plan(
        Snapshot(
            1,
            "lab",
            0,
            (agent(1, unknown=4),),
            tuple(pending),
            Rules(policy="lifo", patience=timedelta(minutes=10)),
        ),
        NOW,
    )
    assert [each.session_id.int for each in decided.reservations] == [2]


def test_gang_reserves_on_all_its_agents():
    agents = [agent(1, (6, 10)), agent(2, (6, 40)), agent(3, (6, 20))]
    decided = decide(agents, session(1, 8, 8), session(2, 2), session(3, 2), session(4, 2, minutes=20))
    assert decided.reservations == (BackfillReservation(UUID(int=1), (1, 3), at(20)),)
    assert placed(decided) == {2: (2,), 4: (1,)}


def test_gang_of_unequal_kernels_reserves_largest_for_each():
    decided = decide([agent(1, (8, 10)), agent(2, (8, 20))], session(1, 2, 6))
    assert decided.reservations == (BackfillReservation(UUID(int=1), (1, 2), at(20)),)


def test_gang_on_one_agent_reserves_its_total_there():
    agents = [agent(1, (6, 30)), agent(2, (4, 60))]
    decided = decide(
        agents, session(1, 4, 4, gang=Gang.ONE_MACHINE), session(2, 2), session(3, 2, minutes=20)
    )
    assert [(each.agent_ids, each.starts_at) for each in decided.reservations] == [((1,), at(30))]
    assert placed(decided) == {2: (2,), 3: (1,)}
    assert reasons(decided) == {1: ReasonCode.NO_CAPACITY}


def test_spread_gang_reserves_on_one_agent_per_kernel():
    agents = [agent(1), agent(2, (8, 30)), agent(3, (8, 60))]
    decided = decide(agents, session(1, 4, 4, gang=Gang.SPREAD), session(2, 8, minutes=40), session(3, 4))
    assert [(each.agent_ids, each.starts_at) for each in decided.reservations] == [((1, 2), at(30))]
    assert placed(decided) == {3: (1,)}
    assert next((each.explanation.agents_with_room, each.reason) for each in decided.deferrals) == (
        1,
        ReasonCode.NO_CAPACITY,
    )


def test_spread_group_leaves_the_agent_reserved_for_its_first():
    apart = PlacementGroup("web", PlacementRule.STRICT_SPREAD)
    agents = [agent(1, (4, 30))]
    first, second = session(1, 8, placement_group=apart), session(2, 2, minutes=20, placement_group=apart)
    assert placed(decide(agents, first, second)) == {}
    assert placed(decide(agents, first, session(2, 2, minutes=20))) == {2: (1,)}


def test_packed_group_starts_on_the_agent_reserved_for_its_first():
    together = PlacementGroup("web", PlacementRule.STRICT_PACK)
    agents = [agent(1, (4, 30)), agent(2, (4, 60))]
    others = [session(number, 2, minutes=20, placement_group=together) for number in (2, 3, 4)]
    decided = decide(agents, session(1, 8, placement_group=together), *others)
    assert placed(decided) == {2: (1,), 3: (1,)}
    assert reasons(decided)[4] is ReasonCode.PLACEMENT_RULE


def test_one_agent_may_hold_several_of_a_gang():
    decided = decide([agent(1, (4, 10), (4, 30))], session(1, 4, 4))
    assert decided.reservations == (BackfillReservation(UUID(int=1), (1, 1), at(30)),)


def test_impossible_session_gets_no_reservation():
    decided = decide([agent(1, (4, 30))], session(1, 9, waited=99), session(2, 4))
    assert placed(decided) == {2: (1,)}
    assert decided.reservations == ()


def test_pool_reserves_for_its_first_session_only():
    agents = [agent(1, (4, 30)), agent(2, (4, 40))]
    decided = decide(agents, session(1, 8), session(2, 8), session(3, 4))
    assert [each.session_id.int for each in decided.reservations] == [1]
    assert placed(decided) == {3: (2,)}


def test_session_with_designated_agent_reserves_there_beside_the_first_of_the_pool():
    agents = [agent(1, (4, 30)), agent(2, (4, 40))]
    decided = decide(
        agents,
        session(1, 8, designated=1),
        session(2, 8, designated=1),
        session(3, 8),
        session(4, 4, minutes=30),
    )
    assert [(each.session_id.int, each.agent_ids) for each in decided.reservations] == [(1, (1,)), (3, (2,))]
    assert placed(decided) == {4: (1,)}


def test_session_with_designated_agent_uses_open_capacity_only():
    pending = [session(1, 6), session(2, 2, designated=1), session(3, 1, designated=1)]
    decided = decide([agent(1, (4, 30))], *pending)
    assert placed(decided) == {2: (1,)}
    assert reasons(decided)[3] is ReasonCode.KEPT_FREE


def test_partly_placed_gang_beside_reservation_returns_everything():
    agents = [agent(1, (4, 30))]
    pending = [
        session(1, 6),
        session(2, 2, 2, minutes=99),
        session(3, 3, 3, minutes=9),
        session(4, 2),
        session(5, 2, minutes=9),
    ]
    assert placed(decide(agents, *pending)) == {4: (1,), 5: (1,)}


def test_without_known_ends_all_freed_capacity_accumulates():
    """Half of the agent is in endless use and the first wants as much: what small ones give back is not given away."""
    agents = [AgentView(1, "x86_64", cores(16), cores(4), running=())]
    decided = decide(agents, session(1, 8, waited=11), session(2, 1), session(3, 4))
    assert placed(decided) == {}
    assert set(reasons(decided).values()) == {ReasonCode.NO_CAPACITY, ReasonCode.KEPT_FREE}


def test_message_counts_sessions_of_higher_priority_ahead():
    agents = [agent(1, (4, 30)), agent(2, (4, 30))]
    first = replace(session(1, 8), priority=5)
    decided = decide(
        agents, first, replace(session(2, 7), priority=5), session(3, 4), session(4, 4, minutes=99)
    )
    assert placed(decided) == {3: (2,)}
    assert reasons(decided)[4] is ReasonCode.PRIORITY
    assert [each.explanation.ahead for each in decided.deferrals] == [0, 0, 2]
    assert "with a higher priority (2) are ahead" in str(message_for(decided.deferrals[2].explanation, "lab"))
    assert "raise its priority" in str(who_may_raise(decided.deferrals[2].explanation))
    assert not who_may_raise(decided.deferrals[0].explanation)


def test_reservation_for_equal_priority_is_not_explained_by_priority():
    agents = [agent(1, (4, 30)), agent(2, (4, 30))]
    pending = [
        replace(session(1, 8, designated=1), priority=5),
        session(2, 8, designated=2),
        session(3, 4, designated=2),
        session(4, 4, designated=1),
        session(5, 2),
        session(6, 2),
    ]
    assert reasons(decide(agents, *pending)) == {
        1: ReasonCode.NO_CAPACITY,
        2: ReasonCode.NO_CAPACITY,
        3: ReasonCode.KEPT_FREE,
        4: ReasonCode.PRIORITY,
        5: ReasonCode.PRIORITY,
        6: ReasonCode.PRIORITY,
    }


def test_what_should_have_ended_by_now_may_never():
    agents = [agent(1, (4, -5)), agent(2, (4, 30))]
    assert decide(agents, session(1, 8)).reservations == (BackfillReservation(UUID(int=1), (2,), at(30)),)


def test_without_known_ends_reservation_is_where_least_is_missing():
    agents = [agent(1, unknown=8), agent(2, unknown=1), agent(3, (1, 20), unknown=4)]
    assert decide(agents, session(1, 8, waited=11)).reservations[0].agent_ids == (2,)


def test_session_that_fits_several_pools_uses_no_reserved_capacity():
    gpus = AgentView(
        9,
        "x86_64",
        ResourceSlots({"cpu": 8000, "cuda": 1000}),
        ResourceSlots({"cpu": 7000}),
        running=(RunningAllocation(ResourceSlots({"cpu": 1000, "cuda": 1000}), at(10)),),
    )
    wants_gpu = replace(
        session(2, 8), requirements=Requirements("x86_64", (ResourceSlots({"cpu": 8000, "cuda": 1000}),))
    )
    decided = decide([agent(1, (4, 5)), gpus], session(1, 8), wants_gpu, session(3, 7))
    assert [(each.session_id.int, each.agent_ids) for each in decided.reservations] == [(1, (1,)), (2, (9,))]
    assert placed(decided) == {}


def test_session_that_ends_in_time_leaves_open_capacity_to_others():
    decided = decide(
        [agent(1, (4, 30)), agent(2, (7, 90))], session(1, 8), session(2, 1, minutes=9), session(3, 1)
    )
    assert placed(decided) == {2: (1,), 3: (2,)}


def test_rest_of_a_limit_accumulates_for_a_long_waiting_session():
    limit = Quota("p", "project", "vision", {"cpu": 8000}, {"cpu": 4000})
    large, small = (
        replace(session(number, count, waited=waited), scopes=("p",))
        for number, count, waited in ((1, 8, 11), (2, 2, 5))
    )
    other, never = session(3, 2), replace(session(4, 9, waited=99), scopes=("p",))

    def decide_within(*pending: PendingSession) -> Plan:
        rules = Rules(patience=timedelta(minutes=10))
        return plan(Snapshot(1, "lab", 0, (agent(1),), pending, rules, (limit,)), NOW)

    decided = decide_within(large, small, other)
    assert placed(decided) == {3: (1,)}
    assert reasons(decided) == {1: ReasonCode.LIMIT_REACHED, 2: ReasonCode.KEPT_FREE}
    urgent = replace(large, priority=1)
    assert reasons(decide_within(urgent, small, other))[2] is ReasonCode.PRIORITY
    impatient = replace(large, enqueued_at=at(-9))
    assert set(placed(decide_within(impatient, small, other))) == {2, 3}
    assert set(placed(decide_within(never, small, other))) == {2, 3}


def test_many_full_agents_cost_no_look_each():
    """A look at each of 4,000 full agents for each of 4,000 sessions would be sixteen million."""
    full = [
        AgentView(
            number, "x86_64", cores(CAPACITY), cores(0), running=(RunningAllocation(cores(CAPACITY), at(5)),)
        )
        for number in range(1, 4001)
    ]
    waiting = [session(number, 1, minutes=9) for number in range(1, 4001)]
    decided = decide([*full, agent(4001)], *waiting)
    assert len(decided.placements) == CAPACITY
    assert len(decided.reservations) == 1


ASKED = st.tuples(
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(1, 5),
    st.none() | st.integers(1, 3),
    st.sampled_from(Gang),
)


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), max_size=2), min_size=1, max_size=3),
    st.lists(st.tuples(st.just(0), ASKED), min_size=1, max_size=7),
    st.lists(st.tuples(st.integers(1, 12), ASKED), max_size=12),
)
def test_the_first_session_starts_no_later_than_alone(running, waiting, later):
    """Minute by minute until it starts, with ends that are kept to the minute. Others wait already, and others go on coming."""
    live = [(number, count, end) for number, each in enumerate(running, 1) for count, end in each]
    queue = [
        session(number, *[count] * kernels, minutes=lasts, waited=-minute, designated=designated, gang=gang)
        for number, (minute, (count, kernels, lasts, designated, gang)) in enumerate([*waiting, *later], 1)
    ]
    alone = _starts_at(queue[:1], list(live), len(running))
    assert alone is None or _starts_at(queue, list(live), len(running)) <= alone


def _starts_at(queue: list[PendingSession], live: list[tuple[int, int, int]], agents: int) -> int | None:
    """The minute in which the first of `queue` starts, by ticks of the engine once a minute; None: it never can."""
    for minute in range(60):
        live = [each for each in live if each[2] > minute]
        views = tuple(
            agent(number, *((count, end) for where, count, end in live if where == number))
            for number in range(1, agents + 1)
        )
        there = tuple(each for each in queue if each.enqueued_at < at(minute + 1))
        for waiting, agent_ids in plan(Snapshot(1, "lab", 0, views, there), at(minute)).placements:
            if waiting.id.int == 1:
                return minute
            ends = minute + int(waiting.max_runtime.total_seconds()) // 60
            live += [
                (agent_id, waiting.requirements.kernels[0]["cpu"] // 1000, ends) for agent_id in agent_ids
            ]
            queue = [each for each in queue if each.id != waiting.id]
    return None
