"""News of machines."""

from dataclasses import dataclass

from common.messaging.events import Event


@dataclass(frozen=True, slots=True)
class AgentLost(Event):
    """A machine does not answer any more. What runs there may still run."""

    agent_id: int
    resource_group_id: int


@dataclass(frozen=True, slots=True)
class CapacityChanged(Event):
    """A resource group may have room that it had not: a machine came, came back, or grew."""

    resource_group_id: int
