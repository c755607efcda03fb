"""Withholds devices from new sessions, and gives them out again."""

from collections.abc import Collection
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin, sees_everything
from agents.core.states import AgentState
from agents.events import CapacityChanged, DevicesInTrouble
from agents.machines.accelerators import usable_devices
from agents.machines.lifecycle import push_agent_change
from agents.machines.service import write_capacity
from agents.machines.split_devices import withhold_split_devices
from agents.models import Agent, AgentDevice, Withheld
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.errors import Conflict, InvalidInput, NotFound
from common.messaging.events import publish
from common.models import AuditEntry

log = structlog.get_logger(__name__)

REASON_LENGTH = 500
FORGOTTEN = "agents.forget_device"
IDENTITY = "device_id"
"""Key in the line of a forgotten device by which its history is found when it is seen again."""
RELEASABLE = (Withheld.ADMINISTRATOR, Withheld.QUARANTINE, Withheld.HELPER, Withheld.UNAVAILABLE)
"""Reasons that an administrator may lift; the others end by themselves."""
TOLD = (Withheld.ADMINISTRATOR, Withheld.QUARANTINE)
"""Reasons that the owners of sessions on the device are told."""
TRIED_AGAIN_AFTER = timedelta(minutes=30)
"""Time after which a device that an engine could not give is given out again, if it is still there."""


@transaction.atomic
def withhold_devices(
    agent_id: int, device_ids: Collection[int], *, kind: Withheld, because: str, actor: Actor = SYSTEM
) -> list[int]:
    """Give these devices of the agent to no new session; return the ids of those that were usable. Their
    sessions continue, and their owners are told unless it says nothing about the device. A device that is
    withheld already keeps its reason.
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
        changes = {"kind": kind.value, "because": because[:REASON_LENGTH]}
        targets = [(device, changes) for device in devices]
        audit_log.record_many(actor=actor, action="agents.withhold_device", targets=targets)
        _publish_change(agent)
        if kind in TOLD:
            publish(DevicesInTrouble(tuple(changed), because[:REASON_LENGTH]))
    return changed


@transaction.atomic
def release_devices(
    agent_id: int, device_ids: Collection[int], *, kind: Withheld, actor: Actor = SYSTEM
) -> list[int]:
    """Give these devices to sessions again; return the ids of those that were withheld for `kind`."""
    agent, devices = _lock(agent_id, Q(pk__in=device_ids, withheld=kind))
    changed = [device.pk for device in devices]
    AgentDevice.objects.filter(pk__in=changed).update(
        withheld=Withheld.NOTHING, withheld_because="", withheld_since=None
    )
    if changed:
        withhold_split_devices(agent)  # one that was split meanwhile is withheld for that now
        log.info("devices.released", agent_id=agent_id, device_ids=changed, kind=kind.value)
        targets = [(device, {"kind": kind.value, "because": device.withheld_because}) for device in devices]
        audit_log.record_many(actor=actor, action="agents.release_device", targets=targets)
        _publish_change(agent)
    return changed


@transaction.atomic
def quarantine_device(*, actor: Actor, device_id: int, because: str) -> AgentDevice:
    """Give the device to no new session until an administrator releases it; its sessions continue.
    Raises PermissionDenied, NotFound, InvalidInput (no reason), Conflict (it is withheld already).
    """
    device = _access_device(actor, device_id)
    reason = because.strip()[:REASON_LENGTH]
    if not reason:
        raise InvalidInput.at("because", _("Say why, for those who look after it next."))
    kind = Withheld.ADMINISTRATOR
    if not withhold_devices(device.agent_id, [device.pk], kind=kind, because=reason, actor=actor):
        raise Conflict(_("The device is withheld already."))
    device.refresh_from_db()
    return device


@transaction.atomic
def release_device(*, actor: Actor, device_id: int) -> AgentDevice:
    """Give a device to sessions again that an administrator or a rule withheld. Raises
    PermissionDenied, NotFound, Conflict (it is not withheld, or for what must end by itself).
    """
    device = _access_device(actor, device_id)
    kind = Withheld(device.withheld)
    if kind not in RELEASABLE or not release_devices(device.agent_id, [device.pk], kind=kind, actor=actor):
        raise Conflict(
            _("The device cannot be released."),
            hint=_("It is not withheld, or by what uses it outside Berth, or while it is being split."),
        )
    device.refresh_from_db()
    return device


@transaction.atomic
def warn_of_device(device: AgentDevice, because: str) -> None:
    """Say what is wrong with a device that is still given out, of a locked agent; "": nothing any more.
    The owners of its sessions are told.
    """
    warning = because[:REASON_LENGTH]
    if device.warning == warning:
        return
    AgentDevice.objects.filter(pk=device.pk).update(warning=warning)
    audit_log.record(
        actor=SYSTEM, action="agents.warn_of_device", target=device, changes={"because": warning}
    )
    if warning:
        log.warning("devices.warned", agent_id=device.agent_id, device_id=device.pk, because=warning)
        publish(DevicesInTrouble((device.pk,), warning))


@transaction.atomic
def forget_device(*, actor: Actor, device_id: int) -> None:
    """Delete a missing device that nobody holds. If it is seen again, it is found as if it were new, with
    its history. Raises PermissionDenied, NotFound, Conflict (it is there, or a session holds it).
    """
    found = _access_device(actor, device_id)
    agent, devices = _lock(found.agent_id, Q(pk=device_id))
    device = next(iter(devices), None)
    if device is None:
        raise NotFound(_("There is no such device."))
    if device.is_present or device.occupied:
        raise Conflict(
            _("The device cannot be forgotten."),
            hint=_("Only a missing device that no session holds can be."),
        )
    told = {"agent": agent.name, "device": f"{device.slot_name} {device.index}", IDENTITY: device.device_id}
    audit_log.record(actor=actor, action=FORGOTTEN, target=device, changes=told)
    device.delete()
    _publish_change(agent)


def device_history(actor: Actor, device_id: int) -> QuerySet[AuditEntry]:
    """Return what happened to the device, newest first, also before it was forgotten. Raises
    PermissionDenied, NotFound.
    """
    if not sees_everything(actor):
        require_superadmin(actor)
    device = AgentDevice.objects.filter(pk=device_id).first()
    if device is None:
        raise NotFound(_("There is no such device."))
    done = AuditEntry.objects.filter(outcome=AuditEntry.Outcome.DONE, target_type="agents.agentdevice")
    former = done.filter(action=FORGOTTEN, **{f"changes__{IDENTITY}": device.device_id})
    ids = former.order_by().values("target_id")
    return done.filter(Q(target_id=str(device_id)) | Q(target_id__in=ids)).order_by("-pk")


def _access_device(actor: Actor, device_id: int) -> AgentDevice:
    require_superadmin(actor)
    device = AgentDevice.objects.filter(pk=device_id).first()
    if device is None:
        raise NotFound(_("There is no such device."))
    return device


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
