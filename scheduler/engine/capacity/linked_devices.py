"""Count the free devices of an agent that are linked with each other, while a pass places kernels.

Which devices a placement gets is only decided at commit, so those that the pass takes on an agent
count as the worst ones: the agent is used if any others would still be linked.
"""

from collections.abc import Container
from dataclasses import dataclass

from common.values.resources import MILLI
from scheduler.engine.accelerators import device_count, enough_for_links, surely_linked
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
        """Return the amount of the slot that is surely still free in one link group there."""
        devices = self._agents.views[agent_number].devices_of(slot_name)
        if devices is None:
            return 0
        shift = self._layout.shift_of(device_field(slot_name, self._layout))
        before, now = self._agents.free[agent_number], self._ledger.free(agent_number)
        taken = (before >> shift & FIELD_MASK) - (now >> shift & FIELD_MASK)
        return MILLI * surely_linked(devices.free_links, device_count(taken))

    def suffice(self, agent_number: int, requirements: Requirements) -> bool:
        """Return True if enough free devices there are linked, now and at commit."""
        return all(self.left(agent_number, name) >= amount for name, amount in requirements.linked_amounts)

    def surplus(self, agent_number: int, requirements: Requirements) -> int:
        """Return what must be free there beside the request, as a vector, so that enough of the free
        devices are linked, whichever they are.
        """
        view, surplus = self._agents.views[agent_number], dict[str, int]()
        for name, amount in requirements.linked_amounts:
            devices, count = view.devices_of(name), device_count(amount)
            if devices is not None:
                surplus[name] = MILLI * (enough_for_links(devices, count) - count)
        return self._layout.pack_request(surplus)


@dataclass(frozen=True, slots=True)
class LinkedHosts(Container[int]):
    """Container of the agents that have enough linked devices for such requirements at this moment."""

    devices: LinkedDevices
    requirements: Requirements

    def __contains__(self, agent_number: object) -> bool:
        return isinstance(agent_number, int) and self.devices.suffice(agent_number, self.requirements)
