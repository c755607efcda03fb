"""Gangs with a layout, and sessions placed near others of their group."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    Gang,
    GroupHost,
    PendingSession,
    PlacementGroup,
    PlacementRule,
    Plan,
    PreemptibleAllocation,
    PreemptionClaim,
    PreemptionRule,
    ReasonCode,
    Requirements,
    ReservationWindow,
    Rules,
    RunningAllocation,
    Snapshot,
    Strategy,
    plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LEAVING = Rules(preemption=PreemptionRule(0, timedelta(), timedelta(seconds=30)))
SPREAD, PACK = PlacementRule.SPREAD, PlacementRule.PACK
STRICT_SPREAD, STRICT_PACK = PlacementRule.STRICT_SPREAD, PlacementRule.STRICT_PACK


def cores(count: int) -> ResourceSlots:
    return ResourceSlots({"cpu": count * 1000})


def agent(agent_id: int, free: int = 8, **fields: object) -> AgentView:
    return replace(AgentView(agent_id, "x86_64", cores(8), cores(free)), **fields)


def session(
    number: int, *kernels: int, rule: PlacementRule | None = None, lasts: int | None = None, **needs: object
) -> PendingSession:
    placement_group = None if rule is None else PlacementGroup("web", rule)
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW + timedelta(microseconds=number),
        requirements=Requirements(
            "x86_64", tuple(map(cores, kernels)), placement_group=placement_group, **needs
        ),
        kernel_ids=tuple(UUID(int=number * 10 + index) for index in range(len(kernels))),
        max_runtime=None if lasts is None else timedelta(minutes=lasts),
    )


def busy_with(agent_id: int, count: int) -> AgentView:
    """Something that may be made to leave."""
    held = PreemptibleAllocation(UUID(int=900 + agent_id), -1, NOW - timedelta(hours=1), cores(count))
    return agent(agent_id, 8 - count, preemptible=(held,))


def decide(
    agents: list[AgentView],
    *pending: PendingSession,
    hosts: dict[int, int] | None = None,
    rules: Rules | None = None,
) -> Plan:
    placement_group = {} if hosts is None else {"web": tuple(GroupHost(*each) for each in hosts.items())}
    return plan(
        Snapshot(1, "lab", 0, tuple(agents), pending, rules or Rules(), group_hosts=placement_group), NOW
    )


def placed(decided: Plan) -> dict[int, tuple[int, ...]]:
    return {placement.session.id.int: placement.agent_ids for placement in decided.placements}


def reasons(decided: Plan) -> dict[int, ReasonCode]:
    return {deferral.session_id.int: deferral.reason for deferral in decided.deferrals}


def test_a_gang_on_one_machine_takes_the_one_that_holds_all():
    agents = [agent(1, 4), agent(2, 7)]
    assert placed(decide(agents, session(1, 3, 2, 2, gang=Gang.ONE_MACHINE))) == {1: (2, 2, 2)}


def test_a_gang_that_is_spread_has_each_container_on_another_machine():
    agents = [agent(1), agent(2), agent(3)]
    decided = decide(agents, session(1, 1, 4, 1, gang=Gang.SPREAD), session(2, 1, 1, 1, 1, gang=Gang.SPREAD))
    assert sorted(placed(decided)[1]) == [1, 2, 3]
    assert reasons(decided) == {2: ReasonCode.NEVER_FITS}
    assert decided.deferrals[0].explanation.agents_with_room == 3


def test_on_one_machine_that_promises_more_than_it_has_no_container_gets_more_than_it_has():
    agents = [agent(1, real_capacity=cores(3))]
    together = {"gang": Gang.ONE_MACHINE}
    assert placed(decide(agents, session(1, 3, 3, **together))) == {1: (1, 1)}
    assert reasons(decide(agents, session(1, 4, 2, **together))) == {1: ReasonCode.NEVER_FITS}
    busy = [agent(1, 4, real_capacity=cores(3))]
    assert reasons(decide(busy, session(1, 3, 3, **together))) == {1: ReasonCode.NO_CAPACITY}
    lost = [agent(1, real_capacity=cores(3), is_schedulable=False), agent(2, 1)]
    assert reasons(decide(lost, session(1, 3, 3, **together))) == {1: ReasonCode.NO_CAPACITY}


def test_gang_preempts_nobody():
    victim = PreemptibleAllocation(UUID(int=99), -1, NOW - timedelta(hours=1), cores(8))
    rules = Rules(preemption=PreemptionRule(0, timedelta(), timedelta(seconds=30)))
    gang = session(1, 4, 4, gang=Gang.ONE_MACHINE)
    decided = decide([agent(1, 0, preemptible=(victim,))], gang, rules=rules)
    assert (decided.evictions, reasons(decided)) == ((), {1: ReasonCode.NO_CAPACITY})
    promised = replace(gang, preemption_claim=PreemptionClaim(1, NOW + timedelta(minutes=1)))
    assert reasons(decide([agent(1, 0)], promised)) == {1: ReasonCode.NO_CAPACITY}


def test_no_two_of_a_group_share_a_machine_and_the_last_waits():
    agents = [agent(1), agent(2), agent(3)]
    decided = decide(agents, *(session(number, 1, rule=STRICT_SPREAD) for number in (1, 2, 3)), hosts={2: 1})
    assert placed(decided) == {1: (1,), 2: (3,)}
    assert reasons(decided) == {3: ReasonCode.PLACEMENT_RULE}
    assert decided.deferrals[0].explanation.host_count == 3


def test_agents_without_capacity_are_not_counted_as_excluded_by_rule():
    decided = decide([agent(1), agent(2, 0)], session(1, 1, rule=STRICT_SPREAD), hosts={1: 1, 2: 1})
    assert decided.deferrals[0].explanation.host_count == 1


@pytest.mark.parametrize("strategy", Strategy)
def test_soft_spread_prefers_agents_with_fewest_members(strategy):
    agents = [agent(1), agent(2), agent(3, 1)]
    waiting = [session(number, 1, rule=SPREAD) for number in range(1, 8)]
    decided = decide(agents, *waiting, hosts={1: 2}, rules=Rules(strategy=strategy))
    counts = [[each[0] for each in placed(decided).values()].count(number) for number in (1, 2, 3)]
    assert counts == [2, 4, 1]


def test_together_takes_the_machine_with_the_most_of_them_then_any():
    agents = [agent(1), agent(2, 2), agent(3, 1)]
    decided = decide(agents, *(session(number, 1, rule=PACK) for number in range(1, 6)), hosts={2: 1, 3: 4})
    assert placed(decided) == {1: (3,), 2: (2,), 3: (2,), 4: (1,), 5: (1,)}


def test_strict_packing_waits_for_its_agents_even_if_they_are_unavailable():
    waits = session(1, 1, rule=STRICT_PACK)
    full = decide([agent(1), agent(2, 0)], waits, hosts={2: 1})
    assert (reasons(full), full.deferrals[0].explanation.host_count) == ({1: ReasonCode.PLACEMENT_RULE}, 1)
    gone = decide([agent(1), agent(2, is_schedulable=False)], waits, hosts={2: 1})
    assert (reasons(gone), gone.deferrals[0].explanation.host_count) == ({1: ReasonCode.PLACEMENT_RULE}, 0)


def test_one_that_may_be_nowhere_else_is_tried_again_once_another_of_its_group_is_there():
    """The first two want the machine of their group, which is full; the third makes another one of it."""
    decided = decide(
        [agent(1), agent(2, 0)],
        session(1, 1, rule=STRICT_PACK),
        session(2, 1, rule=SPREAD),
        session(3, 1, rule=STRICT_PACK),
        hosts={2: 1},
    )
    assert placed(decided) == {2: (1,), 3: (1,)}


def test_a_named_machine_counts_no_more_than_the_rule():
    must, may = {"designated_agent_id": 1}, {"designated_agent_id": 1, "may_run_elsewhere": True}
    agents = [agent(1), agent(2)]
    asked = session(1, 1, rule=STRICT_SPREAD, **must), session(2, 1, rule=STRICT_SPREAD, **may)
    decided = decide(agents, *asked, hosts={1: 1})
    assert (placed(decided), reasons(decided)) == ({2: (2,)}, {1: ReasonCode.PLACEMENT_RULE})
    assert placed(decide(agents, session(1, 1, rule=SPREAD, **may), hosts={1: 1})) == {1: (2,)}


def test_together_uses_no_machine_that_it_may_not_use():
    closes = ReservationWindow(3, NOW + timedelta(minutes=5), NOW + timedelta(hours=1))
    other = AgentView(2, "aarch64", cores(8), cores(8))
    agents = [agent(1, next_window=closes), other, agent(3)]
    decided = decide(agents, session(1, 1, rule=PACK, lasts=60), hosts={1: 1, 2: 1})
    assert placed(decided) == {1: (3,)}
    models = [agent(1, device_model="A"), agent(2, device_model="B")]
    assert placed(decide(models, session(1, 1, rule=PACK, device_model="B"), hosts={1: 1})) == {1: (2,)}


def test_reservation_and_preemption_obey_placement_rule():
    victim = PreemptibleAllocation(UUID(int=99), -1, NOW - timedelta(hours=1), cores(8))
    busy = {"free": 0, "preemptible": (victim,)}
    rules = Rules(preemption=PreemptionRule(0, timedelta(), timedelta(seconds=30)), patience=timedelta())
    for rule, expected in ((STRICT_SPREAD, 2), (STRICT_PACK, 1), (SPREAD, 1)):
        agents = [agent(1, **busy), agent(2, **busy)]
        decided = decide(agents, session(1, 1, rule=rule), hosts={1: 1}, rules=rules)
        assert [each.agent_id for each in decided.evictions] == [expected]
    plain = decide(
        [agent(1, 0), agent(2, 0)],
        replace(session(1, 1, rule=STRICT_SPREAD), enqueued_at=NOW),
        hosts={1: 1},
        rules=Rules(patience=timedelta()),
    )
    assert [each.agent_ids for each in plain.reservations] == [(2,)]


def test_no_agent_is_reserved_if_the_group_starts_elsewhere():
    """The second would find room on the idle machine, but it is to be where the first will be."""
    full = agent(1, 0, running=(RunningAllocation(cores(8), NOW + timedelta(hours=3)),))
    first, second = session(1, 8, rule=STRICT_PACK, designated_agent_id=1), session(2, 8, rule=STRICT_PACK)
    decided = decide([full, agent(2)], first, second, session(3, 8))
    assert [each.session_id.int for each in decided.reservations] == [1]
    assert placed(decided) == {3: (2,)}


def test_preemption_is_only_on_the_agent_where_the_group_starts():
    agents = [busy_with(1, 8), busy_with(2, 8)]
    waiting = [session(number, 4, rule=STRICT_PACK) for number in (1, 2)]
    decided = decide(agents, *waiting, hosts={}, rules=LEAVING)
    assert [(each.session_id.int, each.agent_id) for each in decided.evictions] == [(1, 1)]


def test_no_preemption_on_agent_taken_by_the_group_meanwhile():
    """The third asks for as much as the first, for whom both machines were weighed."""
    agents = [busy_with(1, 8), busy_with(2, 6)]
    waiting = [session(number, count, rule=STRICT_SPREAD) for number, count in ((1, 6), (2, 2), (3, 6))]
    decided = decide(agents, *waiting, rules=LEAVING)
    assert placed(decided) == {2: (2,)}
    assert [(each.session_id.int, each.agent_id) for each in decided.evictions] == [(1, 1)]


@pytest.mark.parametrize(
    ("rule", "may_be_lent"), [(STRICT_PACK, False), (STRICT_SPREAD, False), (SPREAD, True)]
)
def test_time_limit_is_suggested_only_if_rule_allows_reserved_capacity(rule, may_be_lent):
    """The machine with room is kept for a stranger, and its group is to begin on the other; or it is kept for one of its group that
    is to run apart."""
    half = RunningAllocation(cores(4), NOW + timedelta(hours=3))
    agents = [agent(1, 0, running=(half, half)), agent(2, 4, running=(half,))]
    ahead = session(1, 8, rule=rule, designated_agent_id=1 if rule is STRICT_PACK else 2)
    stranger = session(2, 8, designated_agent_id=2 if rule is STRICT_PACK else 1)
    decided = decide(agents, ahead, stranger, session(3, 4, rule=rule))
    assert reasons(decided)[3] is ReasonCode.KEPT_FREE
    assert decided.deferrals[2].explanation.is_end_known is may_be_lent


def test_session_that_ends_in_time_uses_reserved_capacity_if_rule_allows():
    running = agent(1, 4, running=())
    agents = [replace(running, id=number) for number in (1, 2)]
    rules = Rules(patience=timedelta())
    first = session(1, 8, 8)
    short = session(2, 1, rule=STRICT_SPREAD, lasts=5)
    decided = decide(agents, replace(first, max_runtime=None), short, hosts={1: 1}, rules=rules)
    assert placed(decided) in ({}, {2: (2,)})


def test_reserved_machines_are_counted_one_for_each_container_of_a_gang_that_is_spread():
    window = ReservationWindow(9, NOW, NOW + timedelta(hours=1))
    agents = [agent(1, window=window), agent(2, window=window)]
    assert reasons(decide(agents, session(1, 2, 2, gang=Gang.SPREAD))) == {1: ReasonCode.RESERVATION}
    mixed = [agent(1, window=window), agent(2, 0)]
    assert reasons(decide(mixed, session(1, 2, 2, gang=Gang.SPREAD))) == {1: ReasonCode.NO_CAPACITY}


def test_packed_group_without_members_waits_for_capacity():
    assert reasons(decide([agent(1, 0)], session(1, 1, rule=PACK), hosts={})) == {1: ReasonCode.NO_CAPACITY}


def test_where_machines_promise_more_than_they_have_those_apart_count_what_one_container_gets():
    agents = [
        agent(1, real_capacity=cores(3)),
        agent(2, real_capacity=cores(3)),
        agent(3, 2, real_capacity=cores(3)),
    ]
    decided = decide(agents, session(1, 3, 3, 3, gang=Gang.SPREAD))
    assert reasons(decided) == {1: ReasonCode.FRAGMENTED}
    assert decided.deferrals[0].explanation.agents_with_room == 2
