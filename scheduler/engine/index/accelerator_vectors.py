"""Add fields for whole devices to resource vectors, only for slots whose devices are shared or
requested in parts.
"""

from collections.abc import Iterable, Mapping

from common.values.resources import MAX_AMOUNT, MILLI, ResourceSlots
from scheduler.engine.accelerators import (
    FractionalRequest,
    can_assign,
    fractional_slot,
    whole_slot,
)
from scheduler.engine.agent_views import AgentView
from scheduler.engine.index.resource_vector import Layout
from scheduler.engine.snapshot import Requirements, Snapshot

UNBOUNDED = MAX_AMOUNT - 1  # whole devices of agents with unknown devices: amounts alone decide


def shared_slots(snapshot: Snapshot) -> set[str]:
    """Return the slots of which some agent has less in whole devices than in total, or may have
    after this pass.
    """
    known = _known_slots(snapshot.agents)
    if not known:
        return set()
    asked = {session.requirements for session in snapshot.pending}
    found = {name for requirements in asked for name in _fractional_slots(requirements) if name in known}
    return found.union(*map(_split_slots, snapshot.agents))


def missing_fields(agent: AgentView, layout: Layout) -> bool:
    """Return True if the agent shares devices for which the layout has no field."""
    return bool(agent.devices) and not _split_slots(agent) <= {*layout.shared}


def device_counts(agent: AgentView) -> list[tuple[str, int, tuple[int, ...]]]:
    """Return slot names and numbers of devices of the agent, in all and by link group."""
    return [(devices.slot_name, devices.total, devices.links) for devices in agent.devices]


def device_field(slot_name: str, layout: Layout) -> str:
    """Return the field that counts the whole free devices of the slot."""
    return whole_slot(slot_name) if slot_name in layout.shared else slot_name


def can_assign_all(slots: Mapping[str, int], device_names: Iterable[str]) -> bool:
    """Return True if single devices of these slots can satisfy the request."""
    return all(can_assign(name, slots.get(name, 0)) for name in device_names)


class DeviceVectors:
    """Converter that adds whole-device fields to amounts of agents and recognises requests for
    parts.
    """

    def __init__(self, agents: Iterable[AgentView], layout: Layout) -> None:
        self._layout = layout
        self._shared = layout.shared
        self._known = _known_slots(agents)
        self._sizes: dict[object, ResourceSlots] = {}

    def free_amounts(self, agent: AgentView) -> Mapping[str, int]:
        """Return its free amounts with whole-device fields, each at most the free amount."""
        if not self._shared:
            return agent.free
        return self._with_whole(agent.free, {each.slot_name: each.whole for each in agent.devices})

    def capacity_amounts(self, agent: AgentView) -> ResourceSlots:
        return self._sized(agent, agent.capacity)

    def largest_amounts(self, agent: AgentView) -> ResourceSlots:
        return self._sized(agent, agent.largest)

    def ordering_slot(self, slot_name: str, device_names: Iterable[str]) -> str:
        """Return the slot name by which agents that know these devices are ordered."""
        return whole_slot(slot_name) if slot_name in device_names and slot_name in self._shared else slot_name

    def lacks_field(self, requirements: Requirements) -> bool:
        """Return True if it requests a part of a device for which the layout has no field."""
        return bool(self._known) and not (_fractional_slots(requirements) & self._known) <= {*self._shared}

    def fractional_requests(
        self, requirements: Requirements, requests: Mapping[ResourceSlots, int]
    ) -> dict[int, FractionalRequest]:
        """Return the shareable parts that kernels request, by request vector."""
        found = {}
        for slots in requirements.kernels if self._shared else ():
            name = fractional_slot(slots)
            if name in self._shared:
                request = requests[slots]
                whole = self._layout.pack_room({whole_slot(name): MILLI})
                found[request] = FractionalRequest(name, slots[name], request - whole)
        return found

    def _sized(self, agent: AgentView, amounts: ResourceSlots) -> ResourceSlots:
        if not self._shared:
            return amounts
        counts = tuple([(each.slot_name, each.total) for each in agent.devices])
        key = (amounts, counts)  # cache key: agents are mostly alike
        if key not in self._sizes:
            self._sizes[key] = ResourceSlots(self._with_whole(amounts, dict(counts)))
        return self._sizes[key]

    def _with_whole(self, amounts: ResourceSlots, whole: Mapping[str, int]) -> Mapping[str, int]:
        derived = {
            whole_slot(name): min(whole[name] * MILLI, amounts[name]) if name in whole else UNBOUNDED
            for name in self._shared
        }
        return {**amounts, **derived}


def _known_slots(agents: Iterable[AgentView]) -> set[str]:
    kinds = {agent.devices for agent in agents}
    return {devices.slot_name for kind in kinds for devices in kind}


def _fractional_slots(requirements: Requirements) -> set[str]:
    names = map(fractional_slot, requirements.kernels)
    return {name for name in names if name is not None}


def _split_slots(agent: AgentView) -> set[str]:
    """Return the slots of which something is free that is no whole device."""
    return {
        devices.slot_name
        for devices in agent.devices
        if devices.open or devices.whole * MILLI != max(agent.free[devices.slot_name], 0)
    }
