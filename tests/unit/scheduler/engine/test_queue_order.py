"""Queue order by each policy of a resource group."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    PendingSession,
    Plan,
    Policy,
    Requirements,
    Rules,
    Snapshot,
    Tenant,
    plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ONE = Requirements("x86_64", (ResourceSlots({"cpu": 1000}),))


def session(
    number: int,
    *tenants: str,
    needs: Requirements = ONE,
    age_s: float = 0,
    priority: int = 0,
    head_rank: int = 0,
) -> PendingSession:
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - timedelta(seconds=age_s),
        requirements=needs,
        kernel_ids=(UUID(int=number),),
        priority=priority,
        tenants=tenants,
        head_rank=head_rank,
    )


def decide(
    rules: Rules, cores: int, *pending: PendingSession, tenants: dict[str, Tenant] | None = None
) -> Plan:
    """On one agent with this many cores free, of 100."""
    room = ResourceSlots({"cpu": cores * 1000, "mem": 1000})
    agents = (AgentView(1, "x86_64", ResourceSlots({"cpu": 100_000, "mem": 1000}), room),)
    return plan(Snapshot(1, "lab", 0, agents, pending, rules, tenants=tenants or {}), NOW)


def placed(decided: Plan) -> list[int]:
    return [placement.session.id.int for placement in decided.placements]


def owners(decided: Plan) -> Counter[str]:
    return Counter(placement.session.tenants[-1] for placement in decided.placements)


def test_lifo_tries_the_newest_first_inside_a_priority():
    pending = [
        session(1, age_s=9),
        session(2, age_s=1),
        session(3, age_s=5),
        session(4, age_s=99, priority=1),
    ]
    assert placed(decide(Rules(policy=Policy.LIFO), 9, *pending)) == [4, 2, 3, 1]


@pytest.mark.parametrize("policy", Policy)
def test_waiting_raises_a_session_above_a_higher_priority_in_time(policy):
    rules = Rules(policy=policy, ageing=timedelta(hours=1))
    old, urgent = session(1, "ann", age_s=3 * 3600), session(2, "bea", priority=2)
    assert placed(decide(rules, 1, urgent, old)) == [1]
    assert placed(decide(rules, 1, urgent, session(1, "ann", age_s=3600))) == [2]


def test_age_decides_within_one_effective_priority():
    rules = Rules(ageing=timedelta(hours=1))
    pending = [
        session(1, age_s=100, priority=1),
        session(2, age_s=4000),
        session(3, age_s=200, priority=1),
        session(4, age_s=7100),
        session(5, age_s=50),
        session(6, age_s=7100, priority=1),
    ]
    assert placed(decide(rules, 9, *pending)) == [6, 4, 2, 3, 1, 5]


def test_a_session_from_the_future_keeps_its_priority():
    rules = Rules(ageing=timedelta(hours=1))
    assert placed(decide(rules, 2, session(1, age_s=-9999), session(2))) == [2, 1]


def test_drf_serves_alternately_however_many_one_owner_asks_for():
    many = [session(number, "ann", age_s=50) for number in range(1, 9)]
    few = [session(number, "bea") for number in (11, 12)]
    assert owners(decide(Rules(policy=Policy.DRF), 4, *many, *few)) == {"ann": 2, "bea": 2}


def test_drf_counts_what_owners_hold_already():
    tenants = {"ann": Tenant(allocated=ResourceSlots({"cpu": 3000}))}
    pending = [session(1, "ann", age_s=9), *[session(number, "bea") for number in (2, 3, 4)]]
    assert placed(decide(Rules(policy=Policy.DRF), 3, *pending, tenants=tenants)) == [2, 3, 4]


def test_drf_compares_the_resource_that_each_holds_most_of():
    """Half of all memory is more than a tenth of all cores."""
    tenants = {
        "ann": Tenant(allocated=ResourceSlots({"mem": 500})),
        "bea": Tenant(allocated=ResourceSlots({"cpu": 10_000})),
    }
    pending = [session(1, "ann", age_s=9), session(2, "bea")]
    assert placed(decide(Rules(policy=Policy.DRF), 1, *pending, tenants=tenants)) == [2]


def test_drf_looks_at_the_owner_whatever_the_project():
    pending = [
        session(1, "d", "p1", "ann", age_s=9),
        session(2, "d", "p2", "ann", age_s=8),
        session(3, "d", "p1", "bea"),
    ]
    assert placed(decide(Rules(policy=Policy.DRF), 2, *pending)) == [1, 3]


def test_twice_the_weight_is_twice_the_share():
    pending = [session(number, owner) for number, owner in enumerate(["ann", "bea"] * 9)]
    tenants = {"ann": Tenant(weight=2)}
    for policy in (Policy.DRF, Policy.FAIR_SHARE):
        decided = decide(Rules(policy=policy), 9, *pending, tenants=tenants)
        assert owners(decided) == {"ann": 6, "bea": 3}


def test_fair_share_is_between_domains_first_then_projects_then_owners():
    crowd = [session(number, "big", "p", f"person{number}") for number in range(1, 9)]
    lone = [session(number, "small", "q", "ann") for number in range(11, 19)]
    assert Counter(
        placement.session.tenants[0]
        for placement in decide(Rules(policy=Policy.FAIR_SHARE), 8, *crowd, *lone).placements
    ) == {"big": 4, "small": 4}


def test_fair_share_counts_past_use_and_drf_does_not():
    pending = [session(1, "ann", age_s=9), session(2, "bea")]
    tenants = {"ann": Tenant(past_share=0.5)}
    assert placed(decide(Rules(policy=Policy.FAIR_SHARE), 1, *pending, tenants=tenants)) == [2]
    assert placed(decide(Rules(policy=Policy.DRF), 1, *pending, tenants=tenants)) == [1]


def test_fair_share_counts_an_owner_of_two_projects_once():
    tenants = ("d", "p"), ("d", "q")
    pending = [
        session(1, *tenants[0], "ann", age_s=9),
        session(2, *tenants[1], "ann", age_s=8),
        session(3, *tenants[1], "bea", age_s=7),
        session(4, *tenants[0], "ann", age_s=6),
    ]
    assert placed(decide(Rules(policy=Policy.FAIR_SHARE), 2, *pending)) == [1, 3]


def test_fair_share_counts_what_an_owner_got_by_the_last_session_of_a_project():
    pending = [
        session(1, "lab", "vision", "ann", age_s=9),
        session(2, "lab", "speech", "ann", age_s=8),
        session(3, "lab", "speech", "bea", age_s=7),
    ]
    assert placed(decide(Rules(policy=Policy.FAIR_SHARE), 2, *pending)) == [1, 3]


@pytest.mark.parametrize("policy", [Policy.DRF, Policy.FAIR_SHARE])
def test_unplaceable_session_of_one_owner_does_not_block_others(policy):
    large = Requirements("x86_64", (ResourceSlots({"cpu": 50_000}),))
    pending = [session(1, "ann", needs=large, age_s=9), session(2, "ann", age_s=8), session(3, "bea")]
    assert placed(decide(Rules(policy=policy), 2, *pending)) == [2, 3]


@pytest.mark.parametrize("policy", Policy)
def test_sessions_without_owner_share_as_one(policy):
    assert placed(decide(Rules(policy=policy), 2, session(1, age_s=2), session(2, age_s=2))) in (
        [1, 2],
        [2, 1],
    )


def test_a_group_that_has_nothing_shares_nothing():
    empty = Requirements("x86_64", (ResourceSlots(),))
    agents = (AgentView(1, "x86_64", ResourceSlots(), ResourceSlots()),)
    pending = (session(1, "ann", needs=empty), session(2, "bea"))
    decided = plan(Snapshot(1, "lab", 0, agents, pending, Rules(policy=Policy.DRF)), NOW)
    assert placed(decided) == [1]


def test_ten_owners_with_two_hundred_sessions_each_get_equal_shares():
    """Arrivals owner by owner; Jain's index of what they hold is 1."""
    pending = [session(number, f"owner{number // 200}", age_s=2000 - number) for number in range(2000)]
    decided = decide(Rules(policy=Policy.DRF), 80, *pending)
    assert set(owners(decided).values()) == {8}


@pytest.mark.parametrize("weight", [0, -1, float("nan")])
def test_a_weight_is_above_zero(weight):
    with pytest.raises(ValueError, match="above 0"):
        Tenant(weight=weight)


HEADS = [
    session(1, "d", "p", "ann", age_s=2, head_rank=2),
    session(2, "d", "p", "ann", age_s=3, head_rank=1),
]
OTHERS = [session(3, "d", "p", "ann", age_s=9), session(4, "d", "q", "bea"), session(5, "d", "q", "bea")]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (Policy.FIFO, [3, 2, 1, 4, 5]),
        (Policy.LIFO, [2, 1, 5, 4, 3]),
        (Policy.DRF, [2, 1, 4, 5, 3]),
        (Policy.FAIR_SHARE, [2, 1, 4, 5, 3]),
    ],
)
def test_session_with_reservation_is_tried_first_in_its_band_and_charged(policy, order):
    assert placed(decide(Rules(policy=policy), 9, *OTHERS, *HEADS)) == order


@pytest.mark.parametrize("policy", [Policy.LIFO, Policy.DRF, Policy.FAIR_SHARE])
def test_higher_priority_precedes_session_with_reservation(policy):
    urgent = session(9, "d", "p", "ann", priority=1)
    assert placed(decide(Rules(policy=policy), 9, *HEADS, urgent)) == [9, 2, 1]
