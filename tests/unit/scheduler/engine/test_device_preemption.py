"""Preemption for devices: releases that happen anyway are counted first."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine import (
    AgentView,
    DeviceShare,
    PartlyFreeDevice,
    PendingSession,
    PreemptibleAllocation,
    PreemptionRule,
    Requirements,
    Rules,
    RunningAllocation,
    SlotDevices,
    Snapshot,
    plan,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RULES = Rules(preemption=PreemptionRule(0, timedelta(), timedelta(minutes=1)))


def at(minute: int) -> datetime:
    return NOW + timedelta(minutes=minute)


def slots(gpu: int) -> ResourceSlots:
    return ResourceSlots({"cpu": 1000, "gpu": gpu})


def machine(*runs: tuple[int, int | None]) -> AgentView:
    """`runs`: how much, and until which minute. Those with a part share the first device, whoever has more has others alone."""
    here = tuple(
        PreemptibleAllocation(
            UUID(int=number),
            -1,
            at(-number),
            slots(amount),
            (DeviceShare("gpu", 10, amount),) if amount < 1000 else (),
            None if until is None else at(until),
        )
        for number, (amount, until) in enumerate(runs)
    )
    shared = sum(amount for amount, _ in runs if amount < 1000)
    total = sum(amount for amount, _ in runs if amount >= 1000) + (1000 if shared else 0)
    left = (PartlyFreeDevice(10, 1000 - shared),) if 0 < shared < 1000 else ()
    return AgentView(
        1,
        "x86_64",
        ResourceSlots({"cpu": 8000, "gpu": total}),
        ResourceSlots({"cpu": 8000 - 1000 * len(here), "gpu": sum(each.free for each in left)}),
        running=tuple(
            RunningAllocation(each.slots, each.ends_at, each.shares) for each in here if each.ends_at
        ),
        preemptible=here,
        devices=(SlotDevices("gpu", total // 1000, 0, left),),
    )


def asks(gpu: int, *, number: int = 1, minutes: int | None = None) -> PendingSession:
    lasts = None if minutes is None else timedelta(minutes=minutes)
    needs = Requirements("x86_64", (slots(gpu),))
    return PendingSession(
        UUID(int=number), NOW, needs, (UUID(int=number),), priority=number, max_runtime=lasts
    )


def leave(view: AgentView, *pending: PendingSession) -> set[int]:
    decided = plan(Snapshot(1, "lab", 0, (view,), pending, RULES), NOW)
    return {each.int for eviction in decided.evictions for each in eviction.victims}


def test_of_a_shared_device():
    assert leave(machine((300, None), (300, None), (300, None)), asks(700)) == {0, 1}
    view = machine((300, 1), (300, None), (300, None))
    assert leave(view, asks(400)) == set()
    assert leave(view, asks(700)) == {1}
    assert leave(view, asks(1000)) == {1, 2}
    assert leave(machine((300, 2), (300, None), (300, None)), asks(700)) == {0, 1}


def test_of_a_shared_device_that_is_full():
    view = machine((400, 1), (300, None), (300, None))
    assert leave(view, asks(700)) == {1}
    assert leave(view, asks(1000)) == {1, 2}


def test_preemption_of_whole_devices():
    view = machine((1000, 1), (1000, None), (1000, None))
    assert leave(view, asks(1000)) == set()
    assert leave(view, asks(2000)) == {1}
    assert leave(machine((1000, 2), (1000, None)), asks(2000)) == {0, 1}


def test_a_device_is_whole_again_when_some_leave_it_and_the_others_end():
    assert leave(machine((1000, None), (300, 1), (300, None)), asks(2000)) == {0, 2}
    assert leave(machine((1000, None), (300, 1), (300, 1)), asks(2000)) == {0}


def test_of_parts_that_were_just_placed():
    view = machine((300, None), (400, None))
    assert leave(view, asks(300, number=2, minutes=1), asks(700)) == {1}
    assert leave(view, asks(300, number=2, minutes=2), asks(700)) == {0, 1}
    assert leave(view, asks(300, number=2, minutes=1), asks(1000)) == {0, 1}
    assert leave(view, asks(300, number=2, minutes=2), asks(1000)) == set()
