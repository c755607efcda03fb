"""Agents with less memory than any request are left out of the index without effect on results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.index import bin_index as index_bin_index
from scheduler.engine.index.bin_index import CORES_OF_BUCKET, MEMORY, BinIndex, EmptiestFirstIndex
from scheduler.engine.index.resource_vector import Layout
from scheduler.engine.index.round_robin_index import RoundRobinIndex

LAYOUT = Layout(("cpu", "mem", "cuda"))
AGENTS = 4
agents = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(0, 2)), min_size=AGENTS, max_size=AGENTS
)
requests = st.tuples(st.integers(0, 2), st.integers(2, 4), st.integers(0, 1))
# A request that is placed, or one of those that were placed ends.
steps = st.lists(st.one_of(requests, st.integers(0, 5)), max_size=25)


def packed(amounts: tuple[int, int, int], ordinal: int = 0) -> int:
    cores, memory, devices = amounts
    return LAYOUT.pack_room({"cpu": cores * 1000, "mem": memory, "cuda": devices * 1000}, ordinal)


def follow(grid: BinIndex, free: list[int], told: list[tuple[int, int, int] | int]) -> list[int | None]:
    """Who is taken for each request."""
    found: list[int | None] = []
    placed: list[tuple[int, int]] = []
    for step in told:
        if isinstance(step, tuple):
            request = packed(step)
            found.append(ordinal := grid.take(grid.query(request)))
            if ordinal is not None:
                placed.append((ordinal, request))
        elif step < len(placed):
            ordinal, request = placed.pop(step)
            grid.set_free(ordinal, free[ordinal] + request)
    return found


@pytest.mark.parametrize("kind", [BinIndex, EmptiestFirstIndex, RoundRobinIndex])
@given(has=agents, told=steps)
def test_agents_left_out_change_no_result(
    kind: type[BinIndex], has: list[tuple[int, int, int]], told: list[tuple[int, int, int] | int]
) -> None:
    free = [packed(each, ordinal) for ordinal, each in enumerate(has)]
    grid = kind(free, LAYOUT, "cuda")
    grid.fill(free)
    least = packed((0, 2, 0)) & MEMORY
    one, other = free[:], free[:]
    assert follow(grid.copy(one), one, told) == follow(grid.copy(other, least), other, told)
    assert one == other


def test_they_are_in_no_cell_until_they_have_more_again() -> None:
    free = [packed((4, 6, 0))]
    grid = BinIndex(free, LAYOUT, None)
    grid.fill(free)
    left = free[:]
    twin = grid.copy(left, packed((0, 2, 0)) & MEMORY)
    assert twin.take(twin.query(packed((1, 5, 0)))) == 0
    assert not twin._bins
    twin.set_free(0, packed((3, 1, 0)))
    assert not twin._bins
    twin.set_free(0, packed((3, 3, 0)))
    assert twin.take(twin.query(packed((3, 3, 0)))) == 0


def test_the_numbers_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_bin_index, "MAX_CACHED_NUMBERS", 2)
    numbers = index_bin_index._BinNumbers(None)
    assert [numbers[CORES_OF_BUCKET * number] for number in (0, 1, 2, 3, 1)] == [0, 1, 2, 3, 1]
    assert len(numbers) <= 2
