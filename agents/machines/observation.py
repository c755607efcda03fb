"""What an engine says about its machine at one moment, what its containers use and what its accelerators do. Talks to engines,
never to the database."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

import structlog

from agents.discovery import discover_devices, measure_devices
from agents.discovery.base import AcceleratorDevice, DeviceUse
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
from agents.runtime.simulated.runtime import SimulatedRuntime
from agents.runtime.usage import ContainerUsage
from agents.selectors import async_runtime_of, runtime_of

log = structlog.get_logger(__name__)

OBSERVERS = 16
CONNECTIONS = 1024
MEASURED_AT_ONCE = 64
"""Containers that one engine is asked about at the same time, fewer where there are many machines: CONNECTIONS in all, but
LEAST_AT_ONCE of each. Engine 20.10 looks at all that are asked for once a second: each answer takes that second, and many
take no longer than one."""
LEAST_AT_ONCE = 4

LOCAL = "unix://"


@dataclass(frozen=True, slots=True)
class Observation:
    """`devices` is None where nobody knows: of other machines, and where the vendor's tools fail."""

    info: EngineInfo
    images: tuple[ImageInfo, ...]
    devices: tuple[AcceleratorDevice, ...] | None = None


def observe(runtime: ContainerRuntime, address: str) -> Observation:
    """Raises RuntimeFault."""
    devices = discover_devices() if address.startswith(LOCAL) else None
    return Observation(runtime.info(), tuple(runtime.list_images()), devices)


def observe_all(agents: Iterable[Agent]) -> Iterator[tuple[Agent, Observation | RuntimeFault]]:
    """Each agent with what it said, or with why it did not, as the answers come: a silent one does not hold up the
    others."""
    with ThreadPoolExecutor(OBSERVERS, thread_name_prefix="heartbeat") as pool:
        asked = {pool.submit(_observation_or_fault, agent): agent for agent in agents}
        for answer in as_completed(asked):
            yield asked[answer], answer.result()


@dataclass(frozen=True, slots=True)
class Measurements:
    """`usages`: {container: what it has used so far}, of those whose engine answered in time. `faults`: {agent id: why
    others of that machine are missing}."""

    usages: dict[str, ContainerUsage] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)


async def measure_containers(wanted: Mapping[Agent, Sequence[str]], *, within_s: float) -> Measurements:
    """Measure these containers, those named first of each machine first, MEASURED_AT_ONCE of a machine at a time. Takes at
    most `within_s`; what has been answered by then is returned, and one machine's silence costs no other its answers."""
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
    askers = [
        asyncio.create_task(_measure_next(agent, waiting, found)) for _ in range(min(at_once, len(names)))
    ]
    done, late = await asyncio.wait(askers, timeout=within_s)
    for asker in late:
        asker.cancel()
    ends = await asyncio.gather(*done, *late, return_exceptions=True)
    errors = [end for end in ends if isinstance(end, Exception)]
    if errors:
        log.error("measure.failed", agent=agent.name, exc_info=errors[0])
    if errors or late:
        why = repr(errors[0]) if errors else f"Not all were answered within {within_s} s."
        found.faults.setdefault(agent.pk, why)


async def _measure_next(agent: Agent, waiting: Iterator[str], found: Measurements) -> None:
    """Measure one after the other of those that wait and nobody else has taken."""
    for name in waiting:
        try:
            found.usages[name] = await async_runtime_of(agent).measure_container(name)
        except ContainerGone:
            continue
        except RuntimeFault as fault:
            found.faults[agent.pk] = str(fault)


def can_measure_devices(agent: Agent) -> bool:
    """Whether this process can ask the accelerators of that machine: no engine tells of them, so those of machines that are
    reached over the network cannot be asked."""
    return agent.is_simulated or agent.address.startswith(LOCAL)


def measure_devices_of(agent: Agent) -> tuple[DeviceUse, ...]:
    """What the accelerators of one machine do now, by one use of their vendors' tools; those that do not tell are absent."""
    runtime = runtime_of(agent)
    if isinstance(runtime, SimulatedRuntime):
        return runtime.accelerators.measure()
    return measure_devices() if can_measure_devices(agent) else ()


def demand_own_engine(agent: Agent, runtime: ContainerRuntime) -> EngineInfo:
    """Another engine at the same address has none of the agent's containers, and those it has are another agent's.
    Raises RuntimeUnavailable; the heartbeat finds out too, and the agent is lost soon."""
    info = runtime.info()
    if info.engine_id != agent.engine_id:
        raise RuntimeUnavailable(f"Another engine answers at {agent.address}.")
    return info


def _observation_or_fault(agent: Agent) -> Observation | RuntimeFault:
    try:
        return observe(runtime_of(agent), agent.address)
    except RuntimeFault as fault:
        return fault
