"""Observation of engines: facts of a machine, and usage of its containers. Calls engines, never the
database.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial

import structlog
from django.conf import settings
from django.db import connection

from agents.models import Agent
from agents.runtime.port import (
    ContainerGone,
    ContainerRuntime,
    EngineInfo,
    ImageInfo,
    RuntimeFault,
    RuntimeRefused,
    RuntimeUnavailable,
)
from agents.runtime.registry import close_async_runtimes
from agents.runtime.usage import ContainerUsage
from agents.selectors import async_runtime_of, runtime_of

log = structlog.get_logger(__name__)

OBSERVERS = 64
CONNECTIONS = 1024
MEASURED_AT_ONCE = 64
"""Maximum number of containers measured concurrently on one engine. It is reduced for many
machines, to CONNECTIONS in total but at least LEAST_AT_ONCE each. Engine 20.10 samples all
requested containers once a second, so each answer takes that second, and many take no longer than
one.
"""
LEAST_AT_ONCE = 4

LOCAL = "unix://"
MOST_FACTS = 2**20
"""Characters of the facts that an engine tells of its machine."""

MOST_IMAGES = 10_000


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a machine; its accelerators are found by `discovery`."""

    info: EngineInfo
    images: tuple[ImageInfo, ...]


def observe(runtime: ContainerRuntime) -> Observation:
    """Return facts and images of the machine. Raises RuntimeFault, also if there are more than a row holds
    well.
    """
    seen = Observation(runtime.info(), tuple(runtime.list_images()))
    if len(repr(seen.info)) > MOST_FACTS or len(seen.images) > MOST_IMAGES:
        raise RuntimeRefused("The engine reports more than any machine has.")
    return seen


Answer = Observation | RuntimeFault
OnLate = Callable[[Agent, Observation], object]
_observers = ThreadPoolExecutor(OBSERVERS, thread_name_prefix="heartbeat")
_late = ThreadPoolExecutor(settings.BERTH_POOL_THREADS["late-heartbeats"], thread_name_prefix="late")
_under_way: dict[int, Future[Answer]] = {}


def observe_all(
    agents: Iterable[Agent], *, within_s: float, on_late: OnLate
) -> Iterator[tuple[Agent, Answer]]:
    """Yield each agent with its observation or fault, as the answers arrive.

    Takes `within_s`. An agent that has not answered by then is yielded with a fault. `on_late` is called
    in a thread when its answer comes, so that a slow machine is not taken for a silent one, whichever
    process has the next round. An agent whose turn did not come is omitted. Earlier agents have the
    first turns.
    """
    agent_by_future: dict[Future[Answer], Agent] = {}
    new = set[Future[Answer]]()
    for agent in agents:
        future = _under_way.get(agent.pk)
        if future is None or future.done():
            future = _under_way[agent.pk] = _observers.submit(_observation_or_fault, agent)
            new.add(future)
        agent_by_future[future] = agent
    try:
        for future in as_completed(agent_by_future, timeout=within_s):
            agent = agent_by_future.pop(future)
            del _under_way[agent.pk]
            yield agent, future.result()
    except TimeoutError:
        for future, agent in agent_by_future.items():
            if future.cancel():
                del _under_way[agent.pk]
                continue
            if future in new:
                future.add_done_callback(partial(_take_late, agent, on_late))
            yield agent, RuntimeUnavailable(f"Engine {agent.address} does not answer within {within_s} s.")


def _take_late(agent: Agent, on_late: OnLate, answered: Future[Answer]) -> None:
    answer = answered.result()
    if isinstance(answer, Observation):
        _late.submit(_hand_over, agent, answer, on_late)


def _hand_over(agent: Agent, answer: Observation, on_late: OnLate) -> None:
    try:
        with closing(connection):  # else this thread keeps it for good
            on_late(agent, answer)
    except Exception as error:  # whatever a machine answers, the thread goes on
        log.warning("observation.failed", agent=agent.name, exc_info=error)


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
    except Exception as error:  # whatever a machine answers, the others are observed
        log.warning("observation.failed", agent=agent.name, exc_info=error)
        return RuntimeUnavailable(f"Engine {agent.address} answers like no engine: {error!r}")
