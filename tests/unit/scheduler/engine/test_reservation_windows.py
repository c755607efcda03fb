"""Reserved agents: who may use them, who may before, and the messages for others."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from common.values.resources import ResourceSlots
from scheduler.engine import (
    Accumulation,
    AgentView,
    Gang,
    PartlyFreeDevice,
    PendingSession,
    Plan,
    Planner,
    ReasonCode,
    Requirements,
    ReservationWindow,
    Rules,
    RunningAllocation,
    SlotDevices,
    Snapshot,
    Strategy,
    plan,
)
from scheduler.engine.values import ASSUMED_RUNTIME
from scheduler.explain.messages import message_for

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
OPEN = ReservationWindow(7, NOW - HOUR, NOW + 2 * HOUR)
SOON = ReservationWindow(8, NOW + 2 * HOUR, NOW + 4 * HOUR)
MINE = frozenset({7, 8})


def agent(number: int, cpu: int = 4, **columns: object) -> AgentView:
    slots = ResourceSlots({"cpu": cpu})
    return AgentView(number, "x86_64", slots, slots, **columns)  # type: ignore[arg-type]


def partly(number: int, cpu: int) -> AgentView:
    """So many of its cores are free."""
    return replace(agent(number), free=ResourceSlots({"cpu": cpu}))


def session(
    number: int,
    *cpus: int,
    hours: float | None = None,
    reservations: frozenset[int] = frozenset(),
    on: int | None = None,
) -> PendingSession:
    kernels = tuple(ResourceSlots({"cpu": cpu}) for cpu in cpus or (1,))
    return PendingSession(
        id=UUID(int=number),
        enqueued_at=NOW - timedelta(seconds=60 - number),
        requirements=Requirements("x86_64", kernels, on, reservations),
        kernel_ids=tuple(UUID(int=100 * number + index) for index in range(len(kernels))),
        max_runtime=None if hours is None else hours * HOUR,
    )


def decide(agents: list[AgentView], *pending: PendingSession, **rules: object) -> Plan:
    return plan(Snapshot(1, "lab", 0, tuple(agents), pending, Rules(**rules)), NOW)  # type: ignore[arg-type]


def with_devices(number: int, gpu: int, cpu: int, *shared: int, **columns: object) -> AgentView:
    """As many devices, none of them whole: what is left of those that are shared; and free cores, of 4."""
    opened = tuple(PartlyFreeDevice(number * 10 + index, left) for index, left in enumerate(shared))
    view = AgentView(
        number,
        "x86_64",
        ResourceSlots({"cpu": 4, "gpu": gpu * 1000}),
        ResourceSlots({"cpu": cpu, "gpu": sum(shared)}),
        devices=(SlotDevices("gpu", gpu, 0, opened),),
    )
    return replace(view, **columns)


def asking(one: PendingSession, gpus: Sequence[int], **needs: object) -> PendingSession:
    """The same, with so much of devices for each kernel."""
    kernels = tuple(ResourceSlots({"cpu": 1, "gpu": gpu}) for gpu in gpus)
    ids = tuple(UUID(int=100 + index) for index in range(len(kernels)))
    return replace(one, requirements=replace(one.requirements, kernels=kernels, **needs), kernel_ids=ids)


def places(decided: Plan) -> dict[int, tuple[int, ...]]:
    return {each.session_id.int: each.agent_ids for each in decided.placements}


def why(decided: Plan) -> ReasonCode:
    (deferral,) = decided.deferrals
    return deferral.reason


@pytest.mark.parametrize("strategy", Strategy)
def test_an_open_reservation_is_for_its_own_alone_and_they_use_it_first(strategy: Strategy) -> None:
    agents = [agent(1), agent(2, window=OPEN)]
    decided = decide(agents, session(1), session(2, reservations=MINE), strategy=strategy)
    assert places(decided) == {1: (1,), 2: (2,)}


def test_its_own_may_use_the_others_too() -> None:
    decided = decide([agent(1), agent(2, window=OPEN)], session(1, 4, 4, reservations=MINE))
    assert places(decided) == {1: (2, 1)}


@pytest.mark.parametrize(("hours", "is_placed"), [(1, True), (2, True), (2.1, False), (None, False)])
@pytest.mark.parametrize("on", [None, 1])
def test_before_a_reservation_only_what_surely_ends_runs_there(
    hours: float | None, is_placed: bool, on: int | None
) -> None:
    for reservations in (frozenset(), MINE):
        decided = decide(
            [agent(1, next_window=SOON)], session(1, hours=hours, on=on, reservations=reservations)
        )
        assert bool(decided.placements) == is_placed


def test_what_has_no_time_limit_may_run_where_the_reservation_is_far() -> None:
    far = ReservationWindow(9, NOW + ASSUMED_RUNTIME, NOW + ASSUMED_RUNTIME + HOUR)
    agents = [agent(1, next_window=far)]
    assert decide(agents, session(1)).placements
    assert not decide(agents, session(1, hours=200)).placements


def test_shorter_session_is_tried_after_equal_size_found_no_capacity() -> None:
    agents = [agent(1, next_window=SOON)]
    decided = decide(agents, session(1), session(2, hours=9), session(3, hours=5), session(4, hours=1))
    assert places(decided) == {4: (1,)}


def test_session_that_ends_in_time_leaves_unreserved_capacity_to_others() -> None:
    decided = decide([agent(1), agent(2, next_window=SOON)], session(1, 4, hours=1), session(2, 4))
    assert places(decided) == {1: (2,), 2: (1,)}


def test_head_reserves_where_it_ends_before_a_reservation() -> None:
    held = RunningAllocation(ResourceSlots({"cpu": 4}), NOW + HOUR)
    full = agent(1, next_window=SOON)
    full = AgentView(1, "x86_64", full.capacity, ResourceSlots(), running=(held,), next_window=SOON)
    assert decide([full], session(1, 4, hours=1)).reservations[0].starts_at == NOW + HOUR
    assert not decide([full], session(1, 4, hours=1.5)).reservations
    assert not decide([full], session(1, 4)).reservations


def test_gang_does_not_reserve_where_its_common_start_is_too_late() -> None:
    def full(number: int, hours: float, window: ReservationWindow) -> AgentView:
        slots = ResourceSlots({"cpu": 4})
        running = (RunningAllocation(slots, NOW + hours * HOUR),)
        return AgentView(number, "x86_64", slots, ResourceSlots(), running=running, next_window=window)

    later = ReservationWindow(9, NOW + 9 * HOUR, NOW + 10 * HOUR)
    agents = [full(1, 0.5, SOON), full(2, 1.5, later)]
    assert decide(agents, session(1, 4, 4, hours=0.5)).reservations
    assert not decide(agents, session(1, 4, 4, hours=1)).reservations


def test_message_states_until_when_agents_are_reserved() -> None:
    (deferral,) = decide([agent(1, window=OPEN), agent(2, window=OPEN)], session(1)).deferrals
    reserved = deferral.explanation.reserved
    assert deferral.reason is ReasonCode.RESERVATION
    assert reserved is not None
    assert (reserved.agents, reserved.until, reserved.starts_at) == (2, OPEN.ends_at, None)


def test_message_states_from_when_agents_are_reserved() -> None:
    (deferral,) = decide([agent(1, 1), agent(2, 8, next_window=SOON)], session(1, 4)).deferrals
    reserved = deferral.explanation.reserved
    assert reserved is not None
    assert (reserved.agents, reserved.until, reserved.starts_at) == (1, SOON.ends_at, SOON.starts_at)


def test_message_states_when_own_reservation_begins() -> None:
    mine = frozenset({SOON.reservation_id})
    later = ReservationWindow(9, NOW + HOUR, NOW + 3 * HOUR)
    for agents, asked, starts_at in (
        ([agent(1, next_window=SOON)], 1, SOON.starts_at),
        ([agent(1, next_window=SOON), agent(2, next_window=later)], 1, SOON.starts_at),
        ([agent(1, next_window=SOON), agent(2, 8, next_window=later)], 8, later.starts_at),
    ):
        (deferral,) = decide(agents, session(1, asked, reservations=mine)).deferrals
        reserved = deferral.explanation.reserved
        assert reserved is not None
        assert (reserved.starts_at, reserved.is_own) == (starts_at, asked == 1)
        is_told = "A reservation that it may use begins" in str(message_for(deferral.explanation, "lab"))
        assert is_told == reserved.is_own


@pytest.mark.parametrize(
    ("agents", "asked", "reason"),
    [
        ([agent(1, 2), agent(2, 4, window=OPEN)], (8,), ReasonCode.NEVER_FITS),
        ([agent(1, 2, window=OPEN)], (2,), ReasonCode.RESERVATION),
        ([agent(1, 2), agent(2, 4, window=OPEN)], (4,), ReasonCode.RESERVATION),
        ([agent(1, 2), agent(2, 2, window=OPEN)], (2, 2), ReasonCode.RESERVATION),
        ([partly(1, 2), agent(2, window=OPEN)], (4, 2), ReasonCode.RESERVATION),
        ([partly(1, 2), agent(2, window=OPEN)], (4, 3), ReasonCode.NO_CAPACITY),
        ([agent(1, 4, next_window=ReservationWindow(9, NOW + 900 * HOUR, NOW + 901 * HOUR))], (5,), ReasonCode.NEVER_FITS),
        ([], (1,), ReasonCode.NO_AGENTS),
    ],
)  # fmt: skip
def test_the_reason(agents: list[AgentView], asked: tuple[int, ...], reason: ReasonCode) -> None:
    assert why(decide(agents, session(1, *asked))) is reason


def test_reason_is_capacity_if_reserved_agents_are_full_too() -> None:
    full = AgentView(2, "x86_64", ResourceSlots({"cpu": 4}), ResourceSlots(), window=OPEN)
    half = AgentView(1, "x86_64", ResourceSlots({"cpu": 4}), ResourceSlots({"cpu": 1}))
    assert why(decide([half, full], session(1, 2))) is ReasonCode.NO_CAPACITY
    two = AgentView(2, "x86_64", ResourceSlots({"cpu": 4}), ResourceSlots({"cpu": 2}), window=OPEN)
    assert why(decide([half, two], session(1, 2, 2))) is ReasonCode.NO_CAPACITY


def test_a_planner_notices_that_a_reservation_begins_and_ends() -> None:
    planner, pending = Planner(), (session(1),)
    snapshots = [
        Snapshot(1, "lab", 0, (each,), pending)
        for each in (agent(1), agent(1, next_window=SOON), agent(1, window=OPEN), agent(1))
    ]
    assert [bool(planner.plan(each, NOW).placements) for each in snapshots] == [True, False, False, True]


def test_each_gets_the_agent_that_its_reservation_and_its_end_let_it_use() -> None:
    agents = (agent(1, window=OPEN), agent(2, next_window=SOON))
    pending = (session(2, 4, reservations=MINE), session(3, 4, hours=1), session(4, 4))
    decided = plan(Snapshot(1, "lab", 0, agents, pending), NOW)
    assert {each.session_id.int: each.agent_ids for each in decided.placements} == {2: (1,), 3: (2,)}


def test_snapshot_lists_usable_reservations_of_a_user() -> None:
    empty = Snapshot(1, "lab", 0, (), ())
    some = replace(empty, reservations={"user:1": frozenset({7}), "project:2": frozenset({8})})
    assert empty.reservations_for(("user:1",)) == frozenset()
    assert some.reservations_for(("user:1", "project:2", "domain:3")) == {7, 8}


def test_a_wait_for_a_reservation_names_it_in_its_sentence() -> None:
    [deferral] = decide([agent(1, window=OPEN)], session(1)).deferrals
    assert "The machines that could run it now (1) are reserved" in str(
        message_for(deferral.explanation, "lab")
    )
    with pytest.raises(ValueError, match="names no reservation"):
        message_for(replace(deferral.explanation, reserved=None), "lab")


def test_a_preferred_agent_that_will_be_reserved_takes_what_ends_before() -> None:
    agents = [agent(1, 8), agent(2, next_window=SOON)]
    for hours, expected in ((1, 2), (3, 1)):
        one = session(1, hours=hours, on=2)
        one = replace(one, requirements=replace(one.requirements, may_run_elsewhere=True))
        assert places(decide(agents, one)) == {1: (expected,)}


def test_equal_requests_wait_for_the_same_reservation():
    first, second = session(1, 2), session(2, 2, 2)
    decided = decide([agent(1, window=OPEN)], first, second)
    assert [each.explanation.reserved for each in decided.deferrals] == [
        decided.deferrals[0].explanation.reserved
    ] * 2
    assert {each.reason for each in decided.deferrals} == {ReasonCode.RESERVATION}


def test_a_reserved_machine_with_room_for_a_part_of_a_device_is_named() -> None:
    agents = [with_devices(1, 2, 4, 700, window=OPEN), with_devices(2, 2, 4)]
    (deferral,) = decide(agents, asking(session(1), [500])).deferrals
    assert deferral.explanation.reserved is not None
    assert deferral.explanation.reserved.agents == 1


@pytest.mark.parametrize(
    ("shared", "gpus", "needs", "reason"),
    [
        ((700,), [500, 500], {}, ReasonCode.NO_CAPACITY),
        ((700, 600), [500, 500], {}, ReasonCode.RESERVATION),
        ((700, 300), [500, 500], {}, ReasonCode.NO_CAPACITY),
        ((700, 600), [500, 500], {"gang": Gang.ONE_MACHINE}, ReasonCode.RESERVATION),
        ((700, 300), [500, 500], {"gang": Gang.ONE_MACHINE}, ReasonCode.NO_CAPACITY),
        ((700, 600), [500, 500], {"gang": Gang.SPREAD}, ReasonCode.NO_CAPACITY),
    ],
)
def test_a_gang_waits_for_a_reservation_where_that_has_devices_for_all_its_parts(
    shared: tuple[int, ...], gpus: list[int], needs: dict[str, object], reason: ReasonCode
) -> None:
    """The machine that is open has devices, but nothing of them is left."""
    agents = [with_devices(1, 2, 4, *shared, window=OPEN), with_devices(2, 2, 4)]
    assert why(decide(agents, asking(session(1), gpus, **needs))) is reason


def test_machines_that_could_never_run_it_are_none_that_are_reserved() -> None:
    full = with_devices(2, 4, 0, window=OPEN)
    (deferral,) = decide([agent(1, window=OPEN), full], asking(session(1), [1000])).deferrals
    assert deferral.explanation.reserved is not None
    assert deferral.explanation.reserved.agents == 1


@pytest.mark.parametrize("hours", [1, None])
def test_what_will_be_reserved_and_could_never_run_it_is_an_agent_as_others(hours: float | None) -> None:
    """Else it would wait for the reserved ones, which have no room."""
    without = agent(1, next_window=ReservationWindow(9, NOW + 72 * HOUR, NOW + 96 * HOUR))
    full = with_devices(2, 4, 0, window=OPEN)
    assert why(decide([without, full], asking(session(1, hours=hours), [1000]))) is ReasonCode.NO_CAPACITY


def test_reserved_devices_that_cannot_be_given_so_are_not_waited_for() -> None:
    """One and a half: whole ones or a part of one is all that there is."""
    reserved, full = with_devices(1, 3, 4, 900, 900, window=OPEN), with_devices(2, 3, 4)
    assert why(decide([reserved, full], asking(session(1), [1500]))) is ReasonCode.NO_CAPACITY
    devices = (SlotDevices("gpu", 3, 3),)
    whole = replace(reserved, free=reserved.capacity, devices=devices)
    assert why(decide([whole, full], asking(session(1), [1500]))) is ReasonCode.NO_CAPACITY


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([], ReasonCode.NEVER_FITS),
        ([agent(2, 8, is_schedulable=False)], ReasonCode.NO_AGENTS),
        ([agent(2, 8, window=OPEN)], ReasonCode.RESERVATION),
    ],
)
def test_what_no_reserved_machine_is_large_enough_for_waits_for_none(
    others: list[AgentView], reason: ReasonCode
) -> None:
    assert why(decide([agent(1, window=OPEN), *others], session(1, 8))) is reason


def test_no_shorter_time_limit_helps_where_all_that_is_lent_is_reserved_for_others() -> None:
    """Of the open machine nobody knows when the first gets it; of the reserved one it is known."""
    half = ResourceSlots({"cpu": 2})
    mine = replace(agent(1, window=OPEN), free=half, running=(RunningAllocation(half, NOW + HOUR),))
    agents = [mine, replace(agent(2), free=half)]
    ahead = replace(session(1, 4, on=2), enqueued_at=NOW - HOUR)
    deferrals = decide(agents, ahead, session(2, 4, reservations=MINE), session(3, 1)).deferrals
    assert [each.reason for each in deferrals][2] is ReasonCode.KEPT_FREE
    assert not deferrals[2].explanation.is_end_known
    ours = decide(agents, ahead, session(2, 4, reservations=MINE), session(3, 1, reservations=MINE)).deferrals
    assert ours[2].explanation.is_end_known


@pytest.mark.parametrize("was_there", [False, True])
def test_no_accumulation_where_it_ends_too_late_for_a_reservation(was_there: bool) -> None:
    """On the first it is expected after an hour, half an hour too late; on the other after three."""
    ends = [NOW + HOUR, NOW + 3 * HOUR]
    used = [
        replace(partly(number, 3), expected_ends=(RunningAllocation(ResourceSlots({"cpu": 1}), at),))
        for number, at in enumerate(ends, 1)
    ]
    used[0] = replace(used[0], next_window=SOON)
    waits = session(1, 4, hours=1.5)
    if was_there:
        waits = replace(waits, accumulation=Accumulation(waits.id, (1,), NOW - HOUR, NOW))
    [gathered] = plan(
        Snapshot(1, "lab", 0, tuple(used), (waits,), Rules(patience=timedelta())), NOW
    ).accumulations
    assert gathered.agent_ids == (2,)


def test_room_that_comes_too_late_before_a_reservation_is_not_waited_for():
    """The first machine is free half an hour before it is reserved, which a session of an hour cannot use."""
    none, all_of_it = ResourceSlots({"cpu": 0}), ResourceSlots({"cpu": 4})
    early = agent(1, running=(RunningAllocation(all_of_it, NOW + 1.5 * HOUR),), next_window=SOON)
    late = agent(2, running=(RunningAllocation(all_of_it, NOW + 10 * HOUR),))
    decided = decide([replace(early, free=none), replace(late, free=none)], session(1, 4, hours=1))
    assert [kept.agent_ids for kept in decided.reservations] == [(2,)]
