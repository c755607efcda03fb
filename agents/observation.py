"""What an engine says about its machine at one moment. Talks to engines, never to the database."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agents.discovery import discover_devices
from agents.discovery.base import AcceleratorDevice
from agents.models import Agent
from agents.runtime.base import ContainerRuntime, EngineInfo, ImageInfo, RuntimeFault
from agents.selectors import runtime_of

OBSERVERS = 16
LOCAL = "unix://"


@dataclass(frozen=True, slots=True)
class Observation:
    """`devices` is None where this process cannot look: on other machines."""

    info: EngineInfo
    images: tuple[ImageInfo, ...]
    devices: tuple[AcceleratorDevice, ...] | None = None


def observe(runtime: ContainerRuntime, address: str) -> Observation:
    """Raises RuntimeFault."""
    devices = discover_devices() if address.startswith(LOCAL) else None
    return Observation(runtime.info(), tuple(runtime.list_images()), devices)


def observe_all(agents: Iterable[Agent]) -> Iterator[tuple[Agent, Observation | RuntimeFault]]:
    """Each agent with what it said, or with why it did not; a silent one does not hold up the others."""
    with ThreadPoolExecutor(OBSERVERS, thread_name_prefix="heartbeat") as pool:
        listed = list(agents)
        yield from zip(listed, pool.map(_observation_or_fault, listed), strict=True)


def _observation_or_fault(agent: Agent) -> Observation | RuntimeFault:
    try:
        return observe(runtime_of(agent), agent.address)
    except RuntimeFault as fault:
        return fault
