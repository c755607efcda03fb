"""A round of measurements is bounded by the slowest answer, not by the sum of answers."""

import asyncio
import time
from itertools import count
from threading import Event

import pytest

from agents.machines.observation import MEASURED_AT_ONCE, Measurements, measure_containers
from agents.models import Agent
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from sessions_app.metrics.collector import run_round
from tests import engines

_numbers = count(1)


def machine(containers: int, *, answers_in_s: float) -> tuple[Agent, list[str]]:
    """A machine whose engine is slow, and the names of the containers that run there."""
    number = next(_numbers)
    runtime = SimulatedRuntime(name=f"measured-{number}", images=[engines.TINY_IMAGE])
    names = [f"{number}-{index}" for index in range(containers)]
    for name in names:
        runtime.ensure_container(engines.tiny_spec(name))
        runtime.start_container(name)
    runtime.delay_s = answers_in_s
    agent = Agent(pk=number, name=f"measured-{number}", address=f"simulated://measured-{number}")
    adopt_runtime(agent.address, runtime)
    return agent, names


@pytest.mark.parametrize("containers", [1, 10, 100])
async def test_a_slow_engine_is_measured_whole(containers: int) -> None:
    agent, names = machine(containers, answers_in_s=0.1)
    found = await measure_containers({agent: names}, within_s=5)  # one after another would take ten
    assert set(found.usages) == set(names)
    assert not found.faults


async def test_answers_in_time_are_stored() -> None:
    agent, names = machine(2 * MEASURED_AT_ONCE, answers_in_s=0.3)
    found = await measure_containers({agent: names}, within_s=0.5)
    assert list(found.usages) == names[:MEASURED_AT_ONCE]
    assert "0.5 s" in found.faults[agent.pk]


async def test_a_machine_that_hangs_costs_no_other_its_answers() -> None:
    hanging, hung = machine(1, answers_in_s=60)
    agent, names = machine(1, answers_in_s=0)
    began_at = time.monotonic()
    found = await measure_containers({hanging: hung, agent: names}, within_s=0.2)
    assert list(found.usages) == names
    assert list(found.faults) == [hanging.pk]
    assert time.monotonic() - began_at < 10


def test_a_round_does_not_wait_for_a_name_that_is_still_looked_up() -> None:
    is_over = Event()

    async def round_with_slow_names() -> Measurements:
        asyncio.get_running_loop().run_in_executor(
            None, is_over.wait, 30
        )  # as a look-up, it cannot be cancelled
        return Measurements()

    began_at = time.monotonic()
    run_round(round_with_slow_names())
    assert time.monotonic() - began_at < 10
    is_over.set()


async def test_a_container_that_is_gone_is_no_fault() -> None:
    agent, names = machine(1, answers_in_s=0)
    found = await measure_containers({agent: ["gone", *names]}, within_s=5)
    assert (list(found.usages), found.faults) == (names, {})
