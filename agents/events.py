"""Events about agents and their capacity."""

from dataclasses import dataclass

from common.messaging.events import Event


@dataclass(frozen=True, slots=True)
class AgentLost(Event):
    """An agent stopped answering. Its containers may still run."""

    agent_id: int
    resource_group_id: int


@dataclass(frozen=True, slots=True)
class CapacityChanged(Event):
    """A resource group may have new free capacity: an agent was added, came back or grew."""

    resource_group_id: int


@dataclass(frozen=True, slots=True)
class DevicesInTrouble(Event):
    """Accelerators got a warning, or were withheld because they are ill. Their sessions continue."""

    device_ids: tuple[int, ...]
    because: str
