"""What an engine says about its machine at one moment, and what its accelerators do. Talks to engines, never to the database."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from agents.discovery import discover_devices, measure_devices
from agents.discovery.base import AcceleratorDevice, DeviceUse
from agents.models import Agent
from agents.runtime.base import ContainerRuntime, EngineInfo, ImageInfo, RuntimeFault, RuntimeUnavailable
from agents.runtime.simulated import SimulatedRuntime
from agents.selectors import runtime_of

OBSERVERS = 16
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
