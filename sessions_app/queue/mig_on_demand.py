"""MIG partitions on demand: made on an empty device for sessions that wait for a profile of which none is
free, and removed when they are empty and a session waits for a whole device.

One device at a time for each profile of a group, and only by a sharing rule that allows it.
"""

from collections.abc import Iterable, Mapping

import structlog
from django.db.models import Exists, OuterRef, QuerySet

from agents.core.states import AgentState
from agents.models import AgentDevice, ResourceGroup, SharingRule, Withheld
from agents.sharing.mig_partitions import ALL_THAT_FIT, NVIDIA, want_layout
from agents.sharing.selectors import sharing_rules_for
from common.errors import BerthError
from common.values.resources import CPU, MEM, MIG, slot_title
from sessions_app.core.queue_options import Hold
from sessions_app.models import ComputeSession

log = structlog.get_logger(__name__)

MOST_CONSIDERED = 200
"""Number of waiting sessions of a group that are considered, the first in the queue."""


def partition_on_demand() -> None:
    """Request layouts for what waits now. Right when it runs twice; three queries for a group that waits
    for nothing of this kind.
    """
    groups = ResourceGroup.objects.filter(
        Exists(SharingRule.objects.filter(group=OuterRef("pk"), mig_on_demand=True)), deleted_at=None
    )
    for group in groups:
        waiting = list(
            ComputeSession.objects.waiting()
            .filter(resource_group=group, held_for=Hold.NOTHING.value)
            .order_by("queue_position", "created_at")[:MOST_CONSIDERED]
        )
        wanted = {
            slot: session
            for session in reversed(waiting)
            for slot in session.requested_slots
            if slot not in (CPU, MEM)
        }
        for slot, session in wanted.items():
            if slot.startswith(MIG):
                _split_for(group, slot, session)
            else:
                _join_for(group, slot, wanted)


def profile_of(slot: str) -> str:
    """Return the MIG profile of a slot: "1g.10gb" for "mig-1g-10gb"."""
    return slot_title(slot).removeprefix("MIG ")


def _split_for(group: ResourceGroup, slot: str, session: ComputeSession) -> None:
    profile, devices = profile_of(slot), _devices_of(group)
    if devices.filter(slot_name=slot, is_usable=True, occupied=0).exists():
        return
    if devices.filter(wanted_layout__has_key=profile).exists():
        return
    empty = list(devices.filter(vendor=NVIDIA, parent_id="", is_usable=True, occupied=0, warning=""))
    rules = sharing_rules_for(group, {device.model for device in empty})
    for device in empty:
        if rules[device.model].mig_on_demand and session.device_model in ("", device.model):
            _request(device, {profile: ALL_THAT_FIT}, is_on_demand=True)
            return


def _join_for(group: ResourceGroup, slot: str, wanted: Iterable[str]) -> None:
    devices = _devices_of(group)
    if devices.filter(slot_name=slot, is_usable=True, occupied=0).exists():
        return
    for device in devices.filter(
        slot_name=slot, is_split_on_demand=True, withheld=Withheld.PARTITIONED, wanted_layout__isnull=True
    ):
        parts = AgentDevice.objects.filter(agent_id=device.agent_id, parent_id=device.device_id)
        if (
            not parts.filter(occupied__gt=0).exists()
            and not parts.filter(slot_name__in=list(wanted)).exists()
        ):
            _request(device, {}, is_on_demand=False)
            return


def _devices_of(group: ResourceGroup) -> QuerySet[AgentDevice]:
    return AgentDevice.objects.filter(
        agent__resource_group=group, agent__state=AgentState.CONNECTED.value, is_present=True
    ).order_by("agent_id", "-index")


def _request(device: AgentDevice, layout: Mapping[str, int], *, is_on_demand: bool) -> None:
    try:
        want_layout(device.agent_id, device.pk, layout, is_on_demand=is_on_demand)
    except BerthError as refusal:  # it was taken meanwhile
        log.info("partition.not_requested", device_id=device.pk, error=refusal.message)
    else:
        log.info("partition.requested", device_id=device.pk, layout=dict(layout))
