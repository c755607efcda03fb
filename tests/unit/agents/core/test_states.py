"""States, usable capacity and addresses of agents."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.core.states import STATE_TITLES, TRANSITIONS, AgentState, is_legal
from agents.core.usable_capacity import usable_capacity
from agents.runtime.port import RuntimeUnavailable
from agents.runtime.registry import adopt_runtime, async_runtime_for, runtime_for
from tests.doubles.runtimes import LostRuntime

GIB = 2**30


def test_each_state_has_ways_and_a_title() -> None:
    assert set(TRANSITIONS) == set(STATE_TITLES) == set(AgentState)


def test_only_machines_that_should_answer_can_be_lost() -> None:
    assert {state for state in AgentState if is_legal(state, AgentState.LOST)} == {
        state for state in AgentState if state.is_watched
    }


@pytest.mark.parametrize("state", [state for state in AgentState if state is not AgentState.RETIRED])
def test_machine_can_be_retired_from_any_state(state: AgentState) -> None:
    assert is_legal(state, AgentState.RETIRED)


@pytest.mark.parametrize(
    ("mem_bytes", "reserved"),
    [(GIB // 2, GIB // 4), (2 * GIB, GIB // 2), (40 * GIB, 2 * GIB), (512 * GIB, 4 * GIB)],
)
def test_machine_keeps_memory_for_itself(mem_bytes: int, reserved: int) -> None:
    assert usable_capacity(2000, mem_bytes)["mem"] == mem_bytes - reserved


@given(st.lists(st.integers(2**20, 2**45), min_size=2))
def test_more_memory_is_never_less_capacity(sizes: list[int]) -> None:
    capacities = [usable_capacity(1000, size)["mem"] for size in sorted(sizes)]
    assert all(less <= more for less, more in pairwise(capacities))
    assert min(capacities) > 0


def test_agent_has_one_runtime_per_process() -> None:
    address = "simulated://unit-one?cpu=4&mem_gib=8&image=berth/python:1"
    assert runtime_for(address) is runtime_for(address)
    assert runtime_for(address).info().cpu_milli == 4000
    assert runtime_for(address).inspect_image("berth/python:1") is not None


def test_double_that_is_lost_answers_nothing() -> None:
    lost = LostRuntime(name="unit-lost")
    adopt_runtime("simulated://unit-lost", lost)
    lost.is_lost = True
    with pytest.raises(RuntimeUnavailable):
        runtime_for("simulated://unit-lost").list_images()


async def test_agent_has_one_runtime_per_event_loop() -> None:
    address = "simulated://unit-two"
    assert async_runtime_for(address) is async_runtime_for(address)
