"""Layouts of MIG partitions: requested by an administrator or for a waiting session, and made by a helper.

A request only writes what is wanted and withholds the device; `apply_layouts` makes it, again and again
until it is done. Discovery then shows what is there, also after a crash in the middle.
"""

import json
import re
from collections.abc import Mapping

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.core.states import AgentState
from agents.events import CapacityChanged
from agents.machines.accelerators import usable_devices
from agents.machines.discovery import record_discovery
from agents.machines.probing import discover
from agents.machines.service import write_capacity
from agents.machines.split_devices import withhold_split_devices
from agents.models import Agent, AgentDevice, ResourceGroup, Withheld
from agents.runtime.port import RuntimeUnavailable
from agents.selectors import access_agent, runtime_of
from agents.sharing.helper_containers import NOTE_LENGTH, run_nvml_admin
from agents.vendors.selectors import known_vendors
from common.actors import Actor
from common.audit import audit_log
from common.db.advisory_locks import try_exclusive
from common.errors import Conflict, InvalidInput, NotFound
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.events import publish
from common.values.text import quoted
from images.selectors import built_image_ids

log = structlog.get_logger(__name__)

NVIDIA = "nvidia"
PROFILE = re.compile(r"[1-9]\d?g\.\d{1,4}gb(\+[a-z.]{1,12})?\Z")
MOST_PARTITIONS = 7
ALL_THAT_FIT = -1
Layout = Mapping[str, int]


@transaction.atomic
def request_layout(*, actor: Actor, agent_id: int, device_id: int, layout: Layout) -> AgentDevice:
    """Have the device split into these partitions, {profile: count}; {}: into none. Until it is done the
    device is withheld. Raises PermissionDenied, NotFound, InvalidInput, Conflict (sessions hold it, it is
    withheld for another reason, or it cannot be split).
    """
    require_superadmin(actor)
    access_agent(actor, agent_id)
    check_layout(layout)
    device = want_layout(agent_id, device_id, layout, is_on_demand=False)
    changes = {"device": device.device_id, "layout": dict(layout)}
    audit_log.record(actor=actor, action="agents.partition_device", target=device.agent, changes=changes)
    return device


def request_layout_of_model(
    *, actor: Actor, group: ResourceGroup, model: str, layout: Layout
) -> list[Conflict]:
    """Request the layout for all devices of a model in the group; return the refusals of those that keep
    theirs. Raises PermissionDenied, InvalidInput.
    """
    require_superadmin(actor)
    check_layout(layout)
    refusals = []
    found = AgentDevice.objects.filter(
        agent__resource_group=group, model=model, parent_id="", is_present=True
    )
    for agent_id, device_id in found.order_by("agent_id", "index").values_list("agent_id", "pk"):
        try:
            request_layout(actor=actor, agent_id=agent_id, device_id=device_id, layout=layout)
        except Conflict as refusal:
            refusals.append(refusal)
    return refusals


def check_layout(layout: Layout) -> None:
    """Raise InvalidInput for what cannot be a layout on any device."""
    unknown = [name for name in layout if not PROFILE.match(name)]
    if unknown:
        sentence = _("{profile} is not a MIG profile. Write it like 1g.10gb.").format(
            profile=quoted(unknown[0])
        )
        raise InvalidInput.at("layout", sentence)
    counts = layout.values()
    if any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in counts):
        raise InvalidInput.at("layout", _("Give a number of partitions from 1 for each profile."))
    if sum(counts) > MOST_PARTITIONS:
        sentence = _("A device has at most {count} partitions.").format(count=MOST_PARTITIONS)
        raise InvalidInput.at("layout", sentence)


@transaction.atomic
def want_layout(agent_id: int, device_id: int, layout: Layout, *, is_on_demand: bool) -> AgentDevice:
    """Write what is wanted of a device that nobody holds, and withhold it with its partitions until that
    is made. Raises NotFound, Conflict.
    """
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    list(agent.slots.order_by("pk").select_for_update(no_key=True))
    rows = list(agent.devices.order_by("pk").select_for_update(no_key=True))
    device = next((row for row in rows if row.pk == device_id and not row.parent_id), None)
    if device is None:
        raise NotFound(_("“{agent}” has no such device.").format(agent=agent.name))
    _check_splittable(device)
    held = [row for row in rows if row.occupied and device.device_id in (row.device_id, row.parent_id)]
    if held:
        raise Conflict(
            _("Sessions hold {device} of “{agent}”.").format(device=_title(device), agent=agent.name),
            hint=_("Wait until they end, or stop them; withhold the device so that no others begin."),
        )
    device.wanted_layout, device.is_split_on_demand = dict(layout), is_on_demand
    device.save(update_fields=["wanted_layout", "is_split_on_demand"])
    _settle(agent)
    enqueue_on_commit(TaskName.PARTITION_DEVICES)
    return device


def apply_layouts() -> None:
    """Make the wanted layouts of all machines that answer. Right when it runs twice or late."""
    wanted = AgentDevice.objects.filter(wanted_layout__isnull=False, is_present=True)
    for device in (
        wanted.filter(agent__state__in=_REACHABLE).order_by("agent_id", "index").select_related("agent")
    ):
        with try_exclusive(f"partition:{device.pk}") as is_mine:
            device.refresh_from_db(fields=["wanted_layout"])
            if is_mine and device.wanted_layout is not None:
                _apply(device)


_REACHABLE = [AgentState.CONNECTED.value, AgentState.DRAINING.value]


def _apply(device: AgentDevice) -> None:
    agent, layout = device.agent, device.wanted_layout
    try:
        answer = run_nvml_admin(runtime_of(agent), agent, device, "layout", json.dumps(layout))
        found = discover(agent, known_vendors(), built_image_ids())
        with transaction.atomic():  # at once: in between the device would seem to be whole
            _finish(device, "" if "layout" in answer else str(answer.get("error", answer)))
            record_discovery(agent.pk, found)
    except RuntimeUnavailable as fault:
        log.warning("partition.waits", agent_id=agent.pk, device_id=device.pk, error=str(fault))


def _finish(device: AgentDevice, error: str) -> None:
    """Record that the helper has done what it could. What is there now is for discovery to tell."""
    Agent.objects.select_for_update(no_key=True).get(pk=device.agent_id)
    AgentDevice.objects.filter(pk=device.pk, wanted_layout=device.wanted_layout).update(
        wanted_layout=None, warning=f"It was not partitioned: {error}"[:NOTE_LENGTH] if error else ""
    )
    if error:
        log.warning("partition.failed", device_id=device.pk, layout=device.wanted_layout, error=error)


def _check_splittable(device: AgentDevice) -> None:
    if device.vendor != NVIDIA or not device.is_present:
        raise Conflict(_("{device} cannot be split into partitions.").format(device=_title(device)))
    if device.withheld not in (Withheld.NOTHING, Withheld.PARTITIONED):
        raise Conflict(
            _("{device} is withheld: {reason}").format(device=_title(device), reason=device.withheld_because),
            hint=_("Release it first."),
        )


def _title(device: AgentDevice) -> str:
    return f"{device.model} {device.index}"


def _settle(agent: Agent) -> None:
    """Withhold what is about to change, and write the capacity that is left."""
    withhold_split_devices(agent)
    capacity = {slot.slot_name: slot.capacity for slot in agent.slots.all()}
    write_capacity(agent, capacity | usable_devices(agent))
    publish(CapacityChanged(agent.resource_group_id))
