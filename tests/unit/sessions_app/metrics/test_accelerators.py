"""Utilisation of kernels from that of their devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.accelerators.base import DeviceProcess, DeviceUse
from sessions_app.metrics.accelerators import (
    Amount,
    DeviceAllocation,
    DeviceShare,
    DeviceUsage,
    amounts_of,
    device_milli_of,
    device_usage_by_kernel,
    known_sum,
    own_memory,
)

GIB = 2**30


def use(device_id: str, percent: int | None, mem_bytes: int | None = GIB) -> DeviceUse:
    return DeviceUse(device_id=device_id, percent=percent, mem_bytes=mem_bytes)


def used(allocated: list[DeviceAllocation], *uses: DeviceUse) -> dict[object, DeviceUsage]:
    return device_usage_by_kernel(allocated, {each.device_id: each for each in uses})


def held(kernel_id: str, milli: int, *device_ids: str) -> DeviceAllocation:
    return DeviceAllocation(kernel_id, milli, dict.fromkeys(device_ids, 80 * GIB))


def test_a_kernel_does_the_mean_of_its_devices_and_takes_the_sum_of_their_memory() -> None:
    [present] = used([held("k", 2000, "a", "b")], use("a", 90), use("b", 10), use("c", 0)).values()
    assert (present.percent, present.mem_bytes) == (50, 2 * GIB)
    assert present.share == DeviceShare(milli=2000, count=2, mem_bytes=160 * GIB, is_alone=True)


def test_a_little_on_one_of_many_devices_is_not_nothing() -> None:
    names = [f"d{index}" for index in range(8)]
    uses = [use(name, int(name == "d3")) for name in names]
    assert used([held("k", 8000, *names)], *uses)["k"].percent == 1


def test_a_device_that_does_not_tell_hides_what_its_kernel_does() -> None:
    found = used(
        [held("lost", 2000, "a", "gone"), held("split", 1000, "b"), held("fine", 1000, "c")],
        use("a", 5),
        use("b", None),
        use("c", 7),
    )
    assert [(found[name].percent, found[name].mem_bytes) for name in ("lost", "split", "fine")] == [
        (None, None),
        (None, GIB),
        (7, GIB),
    ]


def test_shared_devices_have_several_users_and_free_shares_none() -> None:
    found = used(
        [held("half", 500, "a"), held("tenth", 100, "a"), held("sole", 300, "b")], use("a", 50), use("b", 5)
    )
    assert {name: found[name].share.is_alone for name in found} == {
        "half": False,
        "tenth": False,
        "sole": True,
    }
    assert found["half"].percent == found["tenth"].percent == 50


def test_devices_of_several_kinds_are_told_together() -> None:
    [present] = used([held("k", 1000, "a"), held("k", 1000, "n")], use("a", 20), use("n", 40)).values()
    assert (present.percent, present.share.count, present.share.is_alone) == (30, 2, True)


def test_a_tenth_of_a_device_that_is_used_for_a_tenth_of_the_time_is_used_fully() -> None:
    whole = DeviceShare(milli=2000, count=2, mem_bytes=160 * GIB, is_alone=True)
    assert amounts_of(whole, 25, 40 * GIB) == (Amount(500, 2000), Amount(40 * GIB, 160 * GIB))
    tenth = DeviceShare(milli=100, count=1, mem_bytes=80 * GIB, is_alone=True)
    assert amounts_of(tenth, 10, 8 * GIB) == (Amount(100, 100), Amount(8 * GIB, 8 * GIB))


@given(percent=st.integers(0, 100), mem=st.integers(0, 80 * GIB), milli=st.integers(1, 999))
def test_use_of_a_shared_device_is_unknown_per_user(percent: int, mem: int, milli: int) -> None:
    shared = DeviceShare(milli=milli, count=1, mem_bytes=80 * GIB, is_alone=False)
    assert [amount.used for amount in amounts_of(shared, percent, mem)] == [None, None]


def test_what_was_not_measured_is_not_nothing() -> None:
    share = DeviceShare(milli=1000, count=1, mem_bytes=80 * GIB, is_alone=True)
    assert [amount.used for amount in amounts_of(share, None, None)] == [None, None]
    assert [known_sum(amounts) for amounts in ([1, 2], [1, None], [])] == [3, None, None]


@pytest.mark.parametrize(
    ("slots", "milli"), [({"cpu": 1000, "mem": GIB}, 0), ({"cpu": 1, "cuda": 500, "rocm": 1000}, 1500)]
)
def test_whatever_is_neither_cores_nor_memory_is_accelerators(slots: dict[str, int], milli: int) -> None:
    assert device_milli_of(slots) == milli


def test_memory_of_a_kernel_on_a_shared_device_is_that_of_its_processes() -> None:
    told = (
        DeviceProcess(pid=7, mem_bytes=GIB),
        DeviceProcess(pid=8, mem_bytes=2 * GIB),
        DeviceProcess(pid=9),
    )
    uses = {
        1: DeviceUse(device_id="a", processes=told[:2]),
        2: DeviceUse(device_id="b", processes=()),
        3: DeviceUse(device_id="c", processes=told),
        4: DeviceUse(device_id="d"),
    }
    assert own_memory([1, 2, 3, 4, 5], uses, {7}) == {1: GIB, 2: 0, 3: GIB}
    assert own_memory([3], uses, {9}) == {}, "the driver does not tell how much a process has"
    assert amounts_of(DeviceShare(500, 1, None, is_alone=True), 40, None) == (
        Amount(400, 500),
        Amount(None, 0),
    )
