"""Count the free devices of an agent that are linked with each other, while a pass places kernels.

A snapshot has the most free devices of one link group per agent. Which devices a placement gets is
only decided at commit, so each device that the pass takes on an agent counts as one of that group.
"""

from collections.abc import Container
from dataclasses import dataclass

from common.values.resources import MILLI
from scheduler.engine.capacity.ledger import CapacityLedger
from scheduler.engine.index.accelerator_vectors import device_field
from scheduler.engine.index.agent_index import AgentIndex
from scheduler.engine.index.resource_vector import FIELD_MASK
from scheduler.engine.snapshot import Requirements


class LinkedDevices:
    """Linked devices of the agents (numbers) of a pass."""

    def __init__(self, agents: AgentIndex, ledger: CapacityLedger) -> None:
        self._agents, self._ledger, self._layout = agents, ledger, agents.layout

    def left(self, agent_number: int, slot_name: str) -> int:
        """Return an amount of the slot that is surely still free in one link group there."""
        shift = self._layout.shift_of(device_field(slot_name, self._layout))
        before, now = self._agents.free[agent_number], self._ledger.free(agent_number)
        taken = (before >> shift & FIELD_MASK) - (now >> shift & FIELD_MASK)
        return max(0, self._agents.views[agent_number].linked_free(slot_name) - taken)

    def suffice(self, agent_number: int, requirements: Requirements) -> bool:
        """Return True if enough free devices there are linked, now and at commit."""
        return all(self.left(agent_number, name) >= amount for name, amount in requirements.linked_amounts)

    def surplus(self, agent_number: int, requirements: Requirements) -> int:
        """Return what must be free there beside the request, as a vector, so that enough of the free
        devices are linked, whichever they are: all devices outside of the largest link group.
        """
        view, linked = self._agents.views[agent_number], dict(requirements.linked_amounts)
        outside = {
            devices.slot_name: MILLI * (devices.total - devices.linked)
            for devices in view.devices
            if devices.slot_name in linked
        }
        return self._layout.pack_request(outside) if outside else 0


@dataclass(frozen=True, slots=True)
class LinkedHosts(Container[int]):
    """Container of the agents that have enough linked devices for such requirements at this moment."""

    devices: LinkedDevices
    requirements: Requirements

    def __contains__(self, agent_number: object) -> bool:
        return isinstance(agent_number, int) and self.devices.suffice(agent_number, self.requirements)
