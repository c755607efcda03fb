"""Limits on the total resources of a domain, project, user or token in one pass."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    PendingSession,
    Plan,
    Planner,
    Quota,
    ReasonCode,
    Requirements,
    Snapshot,
    plan,
)
from scheduler.explain.messages import message_for, who_may_raise

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROOM = ResourceSlots({"cpu": 64000, "cuda": 8000})


def session(number: int, *scopes: str, kernels: int = 1, cpu: int = 1000) -> PendingSession:
    ids = tuple(UUID(int=number * 100 + index) for index in range(kernels))
    needs = Requirements("x86_64", (ResourceSlots({"cpu": cpu}),) * kernels)
    return PendingSession(UUID(int=number), NOW, needs, ids, scopes=scopes)


def decide(allowances: list[Quota], *pending: PendingSession, room: ResourceSlots = ROOM) -> Plan:
    agents = (AgentView(1, "x86_64", ROOM, room),)
    return plan(Snapshot(1, "lab", 7, agents, pending, quotas=tuple(allowances)), NOW)


def placed(decided: Plan) -> list[int]:
    return [placement.session.id.int for placement in decided.placements]


def project(limit: dict[str, int], held: dict[str, int] | None = None) -> Quota:
    return Quota("project:7", "project", "vision", limit, held or {})


def test_sessions_beyond_what_their_scope_may_hold_wait_and_those_of_others_pass_them() -> None:
    pending = [session(number, "project:7") for number in (1, 2, 3)] + [session(4, "project:8")]
    decided = decide([project({"cpu": 3000}, {"cpu": 1000})], *pending)
    assert placed(decided) == [1, 2, 4]
    assert [deferral.reason for deferral in decided.deferrals] == [ReasonCode.LIMIT_REACHED]


def test_slots_without_a_limit_and_scopes_without_limits_are_free() -> None:
    assert placed(decide([project({"cuda": 0})], session(1, "project:7", "user:1"), session(2))) == [1, 2]


def test_a_gang_counts_with_all_its_kernels() -> None:
    assert placed(decide([project({"cpu": 3000})], session(1, "project:7", kernels=4))) == []
    assert placed(decide([project({"cpu": 4000})], session(1, "project:7", kernels=4))) == [1]


def test_a_scope_that_is_named_twice_counts_once() -> None:
    assert placed(decide([project({"cpu": 3000})], session(1, "project:7", "project:7", cpu=2000))) == [1]


def test_all_scopes_of_a_session_must_have_it_left() -> None:
    tight = Quota("user:1", "user", "a@berth.example", {"cpu": 1000}, {})
    decided = decide([project({"cpu": 9000}), tight], *(session(n, "project:7", "user:1") for n in (1, 2)))
    assert placed(decided) == [1]
    [deferral] = decided.deferrals
    assert deferral.explanation.excess is not None
    assert deferral.explanation.excess.quota == tight


def test_reason_is_capacity_while_the_limit_suffices() -> None:
    decided = decide([project({"cpu": 4000})], session(1, "project:7"), room=ResourceSlots({"cpu": 500}))
    assert [deferral.reason for deferral in decided.deferrals] == [ReasonCode.NO_CAPACITY]


@pytest.mark.parametrize(
    ("level", "who"),
    [
        ("domain", "the domain “vision”"),
        ("project", "the project “vision”"),
        ("user", "vision"),
        ("keypair", "the token “vision”"),
    ],
)
def test_message_states_use_and_value_of_the_limit(level: str, who: str) -> None:
    allowance = Quota("x:7", level, "vision", {"cpu": 4000}, {"cpu": 3500})
    said = [
        str(message_for(decide([allowance], session(1, "x:7", cpu=cpu)).deferrals[0].explanation, "lab"))
        for cpu in (1000, 8000)
    ]
    assert said == [
        f"Waits for 1 core: sessions of {who} have 3.5 cores of 4 cores allocated. It starts when some of them end.",
        f"Asks for 8 cores, but the limit of all sessions of {who} is 4 cores: cancel it and ask for less.",
    ]


LIMIT = "the limit “By day” of resource group “lab”"


@pytest.mark.parametrize(
    ("level", "until", "said"),
    [
        ("group", None, [
            f"Waits for 1 core: {LIMIT} is 4 cores for all sessions together, with 3.5 cores allocated. It starts when some of them end.",
            f"Asks for 8 cores, but {LIMIT} is 4 cores for all sessions together: cancel it and ask for less.",
        ]),
        ("group", NOW, [
            (f"Waits for 1 core: {LIMIT} is 4 cores for all sessions together until 2030-01-01 00:00 UTC, with 3.5 cores allocated."
            " It starts when some of them end, or then."),
            f"Waits until 2030-01-01 00:00 UTC: until then {LIMIT} is 4 cores for all sessions together, and it asks for 8 cores.",
        ]),
        ("group_user", None, [
            (f"Waits for 1 core: {LIMIT} is 4 cores per person, with 3.5 cores allocated to sessions of its owner."
            " It starts when some of them end."),
            f"Asks for 8 cores, but {LIMIT} is 4 cores per person: cancel it and ask for less.",
        ]),
        ("group_user", NOW, [
            (f"Waits for 1 core: {LIMIT} is 4 cores per person until 2030-01-01 00:00 UTC, with 3.5 cores allocated"
            " to sessions of its owner. It starts when some of them end, or then."),
            (f"Waits until 2030-01-01 00:00 UTC: until then {LIMIT} is 4 cores per person, and it asks"
            " for 8 cores."),
        ]),
    ],
)  # fmt: skip
def test_message_states_until_when_a_group_limit_applies(
    level: str, until: datetime | None, said: list[str]
) -> None:
    allowance = Quota("x:7", level, "By day", {"cpu": 4000}, {"cpu": 3500}, until=until)
    whys = [decide([allowance], session(1, "x:7", cpu=cpu)).deferrals[0].explanation for cpu in (1000, 8000)]
    assert [str(message_for(why, "lab")) for why in whys] == said
    assert [str(who_may_raise(why)) for why in whys] == [
        "A superadmin may change the limits of the resource group."
    ] * 2


def test_session_without_budget_waits_despite_free_capacity() -> None:
    spent = replace(project({}), is_exhausted=True)
    pending = replace(session(1, "project:7"), enqueued_at=NOW - timedelta(days=1))
    decided = decide([spent], pending, session(2))
    assert placed(decided) == [2]
    [deferral] = decided.deferrals
    assert deferral.reason is ReasonCode.BUDGET_SPENT
    assert deferral.explanation.excess is not None
    assert deferral.explanation.excess.quota is spent


def test_accumulation_is_passed_by_sessions_without_the_scarce_slot() -> None:
    limit = project({"cpu": 4000, "cuda": 4000}, {"cuda": 1000})
    asked = [{"cpu": 2000, "cuda": 4000}, {"cuda": 1000}, {"cpu": 2000}, {"cpu": 1000}]
    pending = [
        replace(session(number, "project:7"), requirements=Requirements("x86_64", (ResourceSlots(slots),)))
        for number, slots in enumerate(asked, 1)
    ]
    first = replace(pending[0], enqueued_at=NOW - timedelta(days=1))
    decided = decide([limit], first, *pending[1:])
    assert placed(decided) == [3], "of the cores too is left what the first asks for"
    why = {each.session_id.int: each.explanation for each in decided.deferrals}
    assert why[2].is_quota_reserved
    assert why[4].is_quota_reserved


def test_a_deferral_for_a_limit_names_it() -> None:
    [deferral] = decide([project({"cpu": 0})], session(1, "project:7")).deferrals
    nameless = replace(deferral.explanation, excess=None)
    with pytest.raises(ValueError, match="names no limit"):
        message_for(nameless, "lab")


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)), max_size=8),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=3),
)
def test_no_scope_ever_holds_more_than_it_may(asked, limits) -> None:
    allowances = [
        Quota(f"project:{key}", "project", str(key), {"cpu": most}, {"cpu": held})
        for key, (most, held) in enumerate(limits)
    ]
    pending = {
        n: session(n, f"project:{key}", kernels=k, cpu=cpu) for n, (cpu, k, key) in enumerate(asked, 1)
    }
    decided = decide(allowances, *pending.values())
    for allowance in allowances:
        got = sum(
            pending[n].requirements.total["cpu"]
            for n in placed(decided)
            if allowance.key in pending[n].scopes
        )
        assert got == 0 or allowance.allocated["cpu"] + got <= allowance.limit["cpu"]


def test_a_planner_counts_a_limit_anew_in_each_pass() -> None:
    agents = (AgentView(1, "x86_64", ROOM, ROOM),)
    limits = (project({"cpu": 3000}),)
    planner = Planner()
    for first in (1, 11, 21):
        pending = tuple(session(number, "project:7") for number in range(first, first + 4))
        told = Snapshot(1, "lab", 7, agents, pending, quotas=limits)
        assert placed(planner.plan(told, NOW)) == [first, first + 1, first + 2]


def test_a_domain_may_hold_more_memory_than_any_machine_has() -> None:
    large = ResourceSlots({"mem": 2**40})
    agents = tuple(AgentView(number, "x86_64", large, large) for number in range(300))
    needs = Requirements("x86_64", (large,))
    pending = tuple(
        PendingSession(UUID(int=number), NOW, needs, (UUID(int=number),), scopes=("project:7",))
        for number in range(300)
    )
    told = Snapshot(1, "lab", 7, agents, pending, quotas=(project({"mem": 256 * 2**40}),))
    assert len(plan(told, NOW).placements) == 256
