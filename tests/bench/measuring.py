"""Measure one metrics collection of an agent's containers on a real engine.

The engine is used as it is, and with a delay of one second before each answer.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

from agents.machines.observation import measure_containers
from agents.models import Agent
from agents.runtime.docker.sync_runtime import DockerRuntime
from sessions_app.metrics.collector import ROUND_S
from tests import engines
from tests.bench.frame import Measure, Options, Row, measure_in_turns, never_above, say
from tests.faults.proxy import FaultyEngine

COUNTS = (1, 10, 100)
WITHIN_S = 60
DELAY_S = 1.0


def bench(options: Options) -> list[Row]:
    engine = Path(engines.ADDRESS.removeprefix("unix://"))
    engines.make_tiny_image()
    try:
        with tempfile.TemporaryDirectory() as folder:
            slow = FaultyEngine(Path(folder), engine)
            slow.delay("/stats", DELAY_S)
            names = start_containers(max(COUNTS))
            measures = [
                Measure(
                    f"{count} measured{', an engine that waits a second' if address == slow.address else ''}",
                    "s",
                    ours=one_round(Agent(pk=1, name="bench", address=address), names[:count]),
                    target=never_above(ROUND_S),
                )
                for address in (engines.ADDRESS, slow.address)
                for count in COUNTS
            ]
            try:
                return measure_in_turns(measures, options)
            finally:
                slow.close()
    finally:
        engines.remove_everything()


def start_containers(count: int) -> list[str]:
    say(f"starting {count} containers")
    runtime = DockerRuntime(engines.ADDRESS)
    names = [f"berth-bench-{uuid4().hex[:12]}" for _ in range(count)]

    def start(name: str) -> None:
        runtime.ensure_container(engines.tiny_spec(name, cpu_milli=100, mem_bytes=16 * 2**20))
        runtime.start_container(name)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(start, names))
    runtime.close()
    return names


def one_round(agent: Agent, names: list[str]) -> Callable[[], float]:
    def seconds() -> float:
        began_at = time.monotonic()
        found = asyncio.run(measure_containers({agent: names}, within_s=WITHIN_S))
        assert set(found.usages) == set(names), found.faults
        return time.monotonic() - began_at

    return seconds
