"""Laws of shares and weights, in one pass and over time."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import AgentView, PendingSession, Policy, Requirements, Rules, Snapshot, Tenant, plan
from scheduler.engine.policy.fair_share import PAST_WEIGHT
from tests.bench.scheduler_day import gpu_hours_of_a_day
from tests.bench.scheduler_workload import jain

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ONE = Requirements("x86_64", (ResourceSlots({"cpu": 1}),))
CORES = 100
PEOPLE = ("ann", "bea", "cem", "dov")
# Of each a domain and a project, so that there are some in the same and some in others.
HOMES = {"ann": ("d", "p"), "bea": ("d", "p"), "cem": ("d", "q"), "dov": ("e", "r")}


@st.composite
def tenants(draw: st.DrawFn) -> dict[str, Tenant]:
    weights = st.sampled_from([0.001, 0.5, 1.0, 1.0, 3.0, 1000.0])
    lately = st.floats(0, 1)
    holders = {*PEOPLE, *(key for home in HOMES.values() for key in home)}
    return {
        key: Tenant(draw(weights), ResourceSlots({"cpu": draw(st.integers(0, 9))}), draw(lately))
        for key in sorted(holders)
        if draw(st.booleans())
    }


def crowd(people: tuple[str, ...], each: int = CORES) -> tuple[PendingSession, ...]:
    """So many sessions of one core, of each."""
    made = [
        (person, UUID(int=1 + place * len(people) + who))
        for place in range(each)
        for who, person in enumerate(people)
    ]
    return tuple(
        PendingSession(number, NOW, ONE, (number,), tenants=(*HOMES[person], person))
        for person, number in made
    )


def group(
    free: int,
    pending: tuple[PendingSession, ...],
    known: dict[str, Tenant],
    policy: Policy = Policy.FAIR_SHARE,
) -> Snapshot:
    agent = AgentView(1, "x86_64", ResourceSlots({"cpu": CORES}), ResourceSlots({"cpu": free}))
    return Snapshot(1, "lab", 0, (agent,), pending, Rules(policy=policy), tenants=known)


def placed(snapshot: Snapshot) -> Counter[tuple[str, ...]]:
    """How many of each path."""
    found: Counter[tuple[str, ...]] = Counter()
    for placement in plan(snapshot, NOW).placements:
        path = placement.session.tenants
        found.update(path[:length] for length in (1, 2, 3))
    return found


@given(tenants(), st.integers(0, 60))
def test_tenant_with_least_use_by_weight_is_served_first(known: dict[str, Tenant], free: int) -> None:
    """Among those in the same domain or project, who all want more: before the last that one got, nobody had less."""
    got = placed(group(free, crowd(PEOPLE), known))
    assert sum(amount for path, amount in got.items() if len(path) == 1) == free

    def share(path: tuple[str, ...], amount: int) -> float:
        tenant = known.get(path[-1], Tenant())
        held = tenant.allocated["cpu"] + amount
        return (held / CORES + PAST_WEIGHT * tenant.past_share) / tenant.weight

    paths = {(*HOMES[person], person)[:length] for person in PEOPLE for length in (1, 2, 3)}
    for path in paths:
        siblings = {other for other in paths if other[:-1] == path[:-1]}
        for other in siblings if got[path] else ():
            assert share(path, got[path] - 1) <= share(other, got[other]) + 1e-9


@given(tenants(), st.integers(0, 60), st.permutations(crowd(PEOPLE, 9)))
def test_the_same_is_decided_in_whatever_order_rows_come(
    known: dict[str, Tenant], free: int, pending: list[PendingSession]
) -> None:
    usual = group(free, crowd(PEOPLE, 9), known)
    other = replace(usual, pending=tuple(pending), tenants=dict(reversed(known.items())))
    assert plan(usual, NOW).placements == plan(other, NOW).placements


@pytest.mark.parametrize("policy", [Policy.DRF, Policy.FAIR_SHARE])
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, CORES))
def test_weights_divide_what_one_pass_has(policy: Policy, one: int, other: int, free: int) -> None:
    got = placed(group(free, crowd(("ann", "bea")), {"ann": Tenant(one), "bea": Tenant(other)}, policy))
    ann, bea = got["d", "p", "ann"], got["d", "p", "bea"]
    assert ann + bea == free
    assert abs(ann / one - bea / other) <= max(1 / one, 1 / other) + 1e-9


@pytest.mark.parametrize("weights", [{}, {0: 3.0, 1: 3.0, 2: 3.0, 5: 0.5}], ids=["equal", "three to one"])
def test_use_over_a_day_follows_weights(weights: dict[int, float]) -> None:
    """Whatever size the sessions have, and however long they last."""
    hours = gpu_hours_of_a_day(Policy.FAIR_SHARE, weights=weights)
    assert jain(list(hours.values())) >= 0.99


def test_tenant_with_much_use_waits_until_others_had_as_much() -> None:
    known = {"ann": Tenant(past_share=0.5)}
    got = placed(group(20, crowd(("ann", "bea")), known))
    assert (got["d", "p", "ann"], got["d", "p", "bea"]) == (0, 20)
    forgotten = {"ann": Tenant(past_share=0.5 * 0.5 ** (timedelta(days=70) / timedelta(days=7)))}
    assert placed(group(20, crowd(("ann", "bea")), forgotten))["d", "p", "ann"] == 10
