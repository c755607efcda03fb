"""Observation of engines: facts of a machine, and usage of its containers. Calls engines, never the
database.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from agents.models import Agent
from agents.runtime.port import (
    ContainerGone,
    ContainerRuntime,
    EngineInfo,
    ImageInfo,
    RuntimeFault,
    RuntimeUnavailable,
)
from agents.runtime.registry import close_async_runtimes
from agents.runtime.usage import ContainerUsage
from agents.selectors import async_runtime_of, runtime_of

log = structlog.get_logger(__name__)

OBSERVERS = 16
CONNECTIONS = 1024
MEASURED_AT_ONCE = 64
"""Maximum number of containers measured concurrently on one engine. It is reduced for many
machines, to CONNECTIONS in total but at least LEAST_AT_ONCE each. Engine 20.10 samples all
requested containers once a second, so each answer takes that second, and many take no longer than
one.
"""
LEAST_AT_ONCE = 4

LOCAL = "unix://"


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a machine; its accelerators are found by `discovery`."""

    info: EngineInfo
    images: tuple[ImageInfo, ...]


def observe(runtime: ContainerRuntime) -> Observation:
    """Return facts and images of the machine. Raises RuntimeFault."""
    return Observation(runtime.info(), tuple(runtime.list_images()))


def observe_all(agents: Iterable[Agent]) -> Iterator[tuple[Agent, Observation | RuntimeFault]]:
    """Yield each agent with its observation or fault, as the answers arrive, so that a silent one
    does not delay the others.
    """
    with ThreadPoolExecutor(OBSERVERS, thread_name_prefix="heartbeat") as pool:
        agent_by_future = {pool.submit(_observation_or_fault, agent): agent for agent in agents}
        for future in as_completed(agent_by_future):
            yield agent_by_future[future], future.result()


@dataclass(frozen=True, slots=True)
class Measurements:
    """`usages` is {container: usage so far} of containers whose engine answered in time. `faults`
    is {agent id: reason why other containers of that agent are missing}.
    """

    usages: dict[str, ContainerUsage] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)


async def measure_containers(wanted: Mapping[Agent, Sequence[str]], *, within_s: float) -> Measurements:
    """Measure these containers concurrently, in the given order on each machine.

    Takes at most `within_s` and returns the answers received by then; a silent machine does not
    affect the answers of others.
    """
    found = Measurements()
    at_once = max(LEAST_AT_ONCE, min(MEASURED_AT_ONCE, CONNECTIONS // max(1, len(wanted))))
    try:
        async with asyncio.TaskGroup() as machines:
            for agent, names in wanted.items():
                machines.create_task(_measure_machine(agent, names, found, at_once, within_s))
    finally:
        await close_async_runtimes()
    return found


async def _measure_machine(
    agent: Agent, names: Sequence[str], found: Measurements, at_once: int, within_s: float
) -> None:
    waiting = iter(names)
    workers = [
        asyncio.create_task(_measure_next(agent, waiting, found)) for _ in range(min(at_once, len(names)))
    ]
    done, late = await asyncio.wait(workers, timeout=within_s)
    for worker in late:
        worker.cancel()
    ends = await asyncio.gather(*done, *late, return_exceptions=True)
    errors = [end for end in ends if isinstance(end, Exception)]
    if errors:
        log.error("measure.failed", agent=agent.name, exc_info=errors[0])
    if errors or late:
        why = repr(errors[0]) if errors else f"Not all were answered within {within_s} s."
        found.faults.setdefault(agent.pk, why)


async def _measure_next(agent: Agent, waiting: Iterator[str], found: Measurements) -> None:
    """Measure containers from the shared iterator until it is exhausted."""
    for name in waiting:
        try:
            found.usages[name] = await async_runtime_of(agent).measure_container(name)
        except ContainerGone:
            continue
        except RuntimeFault as fault:
            found.faults[agent.pk] = str(fault)


def process_ids_of(agent: Agent, names: Iterable[str]) -> dict[str, set[int]]:
    """Return {container: its processes' ids on the machine}; omits containers that are gone. Raises
    RuntimeFault.
    """
    runtime, found = runtime_of(agent), dict[str, set[int]]()
    for name in names:
        with suppress(ContainerGone):
            found[name] = runtime.process_ids(name)
    return found


def require_own_engine(agent: Agent, runtime: ContainerRuntime) -> EngineInfo:
    """Check that the agent's own engine answers at its address. Another engine has none of the
    agent's containers; those that it has belong to another agent. Raises RuntimeUnavailable; the
    heartbeat detects it too and the agent becomes lost.
    """
    info = runtime.info()
    if info.engine_id != agent.engine_id:
        raise RuntimeUnavailable(f"Another engine answers at {agent.address}.")
    return info


def _observation_or_fault(agent: Agent) -> Observation | RuntimeFault:
    try:
        return observe(runtime_of(agent))
    except RuntimeFault as fault:
        return fault
