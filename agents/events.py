"""Events about agents and their capacity."""

from dataclasses import dataclass
from datetime import datetime

from common.messaging.events import Event


@dataclass(frozen=True, slots=True)
class AgentLost(Event):
    """An agent stopped answering. Its containers may still run."""

    agent_id: int
    resource_group_id: int


@dataclass(frozen=True, slots=True)
class AgentDrained(Event):
    """An administrator drained an agent at `at`, or put it into maintenance. Its sessions continue."""

    agent_id: int
    name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class CapacityChanged(Event):
    """A resource group may have new free capacity: an agent was added, came back or grew."""

    resource_group_id: int


@dataclass(frozen=True, slots=True)
class DevicesInTrouble(Event):
    """Accelerators got a warning, or were withheld because they are ill. Their sessions continue."""

    device_ids: tuple[int, ...]
    because: str


@dataclass(frozen=True, slots=True)
class ImageTransferProgressed(Event):
    """More of an image has arrived on an agent."""

    agent_id: int
    reference: str


@dataclass(frozen=True, slots=True)
class ImageTransferEnded(Event):
    """An image has arrived on an agent, or could not be brought there."""

    agent_id: int
    reference: str
