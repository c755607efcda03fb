"""Amounts of resources: parsing, arithmetic and display."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.values.resources import (
    ResourceSlots,
    format_amount,
    format_bytes,
    format_share,
    format_slots,
    parse_bytes,
    parse_slots,
)

names = st.sampled_from(["cpu", "mem", "cuda", "cuda-mig-1g"])
amounts = st.dictionaries(names, st.integers(0, 2**40)).map(ResourceSlots)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("512m", 512 * 2**20),
        ("4g", 4 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("1.5GB", 3 * 2**29),
        ("1T", 2**40),
        ("0", 0),
        (1024, 1024),
        ("64K", 2**16),
        ("1,000.5 MiB", 2001 * 2**19),
    ],
)
def test_memory_is_read_as_people_write_it(text: str | int, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "text", ["", "g", "-1g", "1x", "1e9", "nan", "1,5g", "1,500m", "9" * 16, "١g", True, None, 1.5, "1g\n2"]
)
def test_what_is_no_amount_of_memory_is_refused_with_the_value(text: object) -> None:
    with pytest.raises(ValueError, match="memory"):
        parse_bytes(text)  # type: ignore[arg-type]


def test_more_memory_than_a_slot_can_count_is_refused() -> None:
    with pytest.raises(ValueError, match="more memory"):
        parse_bytes("999p")


@pytest.mark.parametrize(
    ("raw", "slots"),
    [
        ({"cpu": 1, "mem": "4g"}, {"cpu": 1000, "mem": 2**32}),
        ({"cpu": "0.5"}, {"cpu": 500}),
        ({"cpu": 0.1, "cuda": 0.25}, {"cpu": 100, "cuda": 250}),
        ({"cuda": 0}, {}),
    ],
)
def test_requests_become_base_units(raw: dict[str, str | float], slots: dict[str, int]) -> None:
    assert parse_slots(raw) == ResourceSlots(slots)


@pytest.mark.parametrize(
    "raw",
    [
        {"cpu": -1},
        {"cpu": "many"},
        {"cpu": float("nan")},
        {"cpu": float("inf")},
        {"cpu": True},
        {"cpu": 0.0001},
        {"cpu": 10**15},
        {"CPU": 1},
        {"": 1},
        {"cpu\n": 1},
        {"x" * 40: 1},
    ],
)
def test_requests_without_meaning_are_refused(raw: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        parse_slots(raw)


@given(amounts, amounts)
def test_adding_and_taking_away_again_changes_nothing(a: ResourceSlots, b: ResourceSlots) -> None:
    assert a + b - b == a
    assert a + b == b + a
    assert hash(a + b) == hash(b + a)


@given(amounts, amounts)
def test_a_part_fits_in_the_whole(a: ResourceSlots, b: ResourceSlots) -> None:
    assert a.fits_in(a + b)
    assert a.fits_in(b) == all(a[name] <= b[name] for name in {*a, *b})


@given(amounts)
def test_zero_amounts_are_the_same_as_absent_ones(slots: ResourceSlots) -> None:
    assert ResourceSlots({**slots, "tpu": 0}) == slots
    assert slots["tpu"] == 0
    assert "tpu" not in slots
    assert ResourceSlots(slots.to_json()) == slots


@given(st.integers(0, 2**46))
def test_what_is_shown_reads_back_as_nearly_the_same(amount: int) -> None:
    assert abs(parse_bytes(format_bytes(amount)) - amount) <= amount * 0.06


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 1000, "1 core"),
        ("cpu", 500, "0.5 cores"),
        ("cpu", 0, "0 cores"),
        ("mem", 2**29, "512 MiB"),
        ("cuda", 2000, "2 × NVIDIA GPU"),
    ],
)
def test_amounts_read_well(name: str, amount: int, text: str) -> None:
    assert format_amount(name, amount) == text


def test_slots_read_cpu_and_memory_first() -> None:
    assert format_slots({"cuda": 1000, "mem": 2**32, "cpu": 4000}) == "4 cores, 4 GiB, 1 × NVIDIA GPU"
    assert format_slots({}) == "nothing"


def test_slots_multiply_by_a_count() -> None:
    assert ResourceSlots({"cpu": 500, "mem": 2**30}) * 3 == ResourceSlots({"cpu": 1500, "mem": 3 * 2**30})


@pytest.mark.parametrize(
    ("name", "used", "limit", "words"),
    [
        ("cpu", 2000, 64000, ("2", "64 cores")),
        ("cpu", 100, 1000, ("0.1", "1 core")),
        ("cpu", 0, 12_800_000, ("0", "12,800 cores")),
        ("mem", 0, 2**35, ("0", "32 GiB")),
        ("mem", 2**30, 2**35, ("1", "32 GiB")),
        ("mem", 2**29, 2**35, ("512 MiB", "32 GiB")),
        ("cuda", 500, 4000, ("0.5", "4 × NVIDIA GPU")),
    ],
)
def test_of_what_is_used_and_its_limit_the_unit_is_said_once(
    name: str, used: int, limit: int, words: tuple[str, str]
) -> None:
    assert format_share(name, used, limit) == words
