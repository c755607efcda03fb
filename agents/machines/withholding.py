"""Withholds devices from new sessions, and gives them out again."""

from collections.abc import Collection
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import Q

from agents.core.states import AgentState
from agents.events import CapacityChanged
from agents.machines.accelerators import usable_devices
from agents.machines.lifecycle import push_agent_change
from agents.machines.service import write_capacity
from agents.models import Agent, AgentDevice, Withheld
from common import clock
from common.messaging.events import publish

log = structlog.get_logger(__name__)

REASON_LENGTH = 500
TRIED_AGAIN_AFTER = timedelta(minutes=30)
"""Time after which a device that an engine could not give is given out again, if it is still there."""


@transaction.atomic
def withhold_devices(
    agent_id: int, device_ids: Collection[int], *, kind: Withheld, because: str
) -> list[int]:
    """Give these devices of the agent to no new session; return the ids of those that were usable. Their
    sessions continue. A device that is withheld already keeps its reason.
    """
    agent, devices = _lock(agent_id, Q(pk__in=device_ids, withheld=Withheld.NOTHING))
    changed = [device.pk for device in devices]
    AgentDevice.objects.filter(pk__in=changed).update(
        withheld=kind, withheld_because=because[:REASON_LENGTH], withheld_since=clock.now()
    )
    if changed:
        log.warning(
            "devices.withheld", agent_id=agent_id, device_ids=changed, kind=kind.value, because=because
        )
        _publish_change(agent)
    return changed


@transaction.atomic
def release_devices(agent_id: int, device_ids: Collection[int], *, kind: Withheld) -> list[int]:
    """Give these devices to sessions again; return the ids of those that were withheld for `kind`."""
    agent, devices = _lock(agent_id, Q(pk__in=device_ids, withheld=kind))
    changed = [device.pk for device in devices]
    AgentDevice.objects.filter(pk__in=changed).update(
        withheld=Withheld.NOTHING, withheld_because="", withheld_since=None
    )
    if changed:
        log.info("devices.released", agent_id=agent_id, device_ids=changed, kind=kind.value)
        _publish_change(agent)
    return changed


def release_unavailable_devices() -> None:
    """Give out again the devices that an engine could not give a while ago, and that its machine has
    reported since then. One query if there are none.
    """
    due = AgentDevice.objects.filter(
        withheld=Withheld.UNAVAILABLE,
        withheld_since__lte=clock.now() - TRIED_AGAIN_AFTER,
        is_present=True,
        agent__state=AgentState.CONNECTED.value,
    )
    by_agent: dict[int, list[int]] = {}
    for pk, agent_id in due.order_by("agent_id", "pk").values_list("pk", "agent_id"):
        by_agent.setdefault(agent_id, []).append(pk)
    for agent_id, device_ids in by_agent.items():
        release_devices(agent_id, device_ids, kind=Withheld.UNAVAILABLE)


def _lock(agent_id: int, which: Q) -> tuple[Agent, list[AgentDevice]]:
    """Return the locked agent and those of its devices, in the order of ADR 8: agent, slots, devices."""
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    list(agent.slots.order_by("pk").select_for_update(no_key=True))
    return agent, list(agent.devices.filter(which).order_by("pk").select_for_update(no_key=True))


def _publish_change(agent: Agent) -> None:
    """Write the capacity that the usable devices make, and tell schedulers and pages."""
    capacity = {slot.slot_name: slot.capacity for slot in agent.slots.all()}
    write_capacity(agent, capacity | usable_devices(agent))
    publish(CapacityChanged(agent.resource_group_id))
    push_agent_change(agent)
