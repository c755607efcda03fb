"""Pages of one machine and of one of its accelerators."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import may_do_everything, sees_everything
from accounts.web.form_errors import errors_as_messages
from accounts.web.page_access import page_not_found, require_global_overseer
from agents.accelerators.base import DeviceUse
from agents.accelerators.description import tells_use
from agents.core.device_states import DeviceState, device_state
from agents.core.mig_layouts import MigSizes, mig_sizes
from agents.core.states import AgentState, is_legal
from agents.machines.withholding import (
    RELEASABLE,
    device_history,
    forget_device,
    quarantine_device,
    release_device,
)
from agents.metering.readings import present_uses, use_words
from agents.models import Agent, AgentDevice, ConnectionKind
from agents.selectors import access_agent
from agents.sharing.mig_partitions import request_layout, request_layout_of_model
from agents.vendors.selectors import known_vendor
from agents.web.groups import superadmin_or_404
from agents.web.machine_facts import machine_facts, machine_warnings
from agents.web.rows import device_errors, is_empty
from common import clock
from common.actors import Actor
from common.errors import Conflict, InvalidInput
from common.models import AuditEntry
from common.pages.htmx import render_page_or_fragment
from common.pages.status_styles import status_style
from common.rest.actor import actor_of
from common.values.resources import MILLI, format_version, in_order, slot_title
from portal.audit.labels import ACTIONS, label, value_for_people
from portal.audit.labels import FACTS as FACTS_OF_EVENTS
from portal.audit.selectors import visible_entries
from sessions_app.metrics.device_history import MachineWindow
from sessions_app.models import ComputeSession, Kernel, KernelAllocation
from sessions_app.presentation import session as presentation_session
from sessions_app.selectors import visible_sessions

SHOWN_SESSIONS = 50
SHOWN_EVENTS = 30
SHOWN_REFUSALS = 5
BEFORE_AND_AFTER = 2
WINDOWS = {
    MachineWindow.QUARTER: gettext_noop("15 minutes"),
    MachineWindow.HOUR: gettext_noop("1 hour"),
    MachineWindow.DAY: gettext_noop("1 day"),
    MachineWindow.MONTH: gettext_noop("30 days"),
}
FACTS = {
    "index": gettext_noop("Number at the driver"),
    "minor": gettext_noop("Number of its device file"),
    "card": gettext_noop("Number of its graphics file"),
    "module": gettext_noop("Position in the machine"),
    "uuid": gettext_noop("UUID"),
    "serial": gettext_noop("Serial number"),
}
"""Titles of facts that many vendors tell; others are shown by their names."""
SHOWN_FACTS = ("pci", "bdf", "profile")
"""Facts that have a line of their own."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Part of a device that a session holds; None: a session that the reader may not see."""

    session: ComputeSession | None
    percent: str


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device, ready to print. `use`: its use now in words, "" if it was not measured."""

    device: AgentDevice
    state: DeviceState
    holders: Sequence[Holder]
    api_version: str
    use: str

    @property
    def trouble(self) -> str:
        """Return why it gets no new sessions, or what is wrong with it; "" if all is well."""
        if self.device.missing_since:
            return _("The machine does not show it any more.")
        return self.device.withheld_because or self.device.warning


@require_GET
@login_required
def agent_page(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Show a machine: its capacity, devices and sessions. A fragment for the drawer."""
    actor = actor_of(request)
    agent = access_agent(actor, agent_id)
    there = visible_sessions(actor).live().filter(pk__in=Kernel.objects.filter(agent=agent).values("session"))
    sessions = [presentation_session.row(actor, each) for each in there.for_rows()[:SHOWN_SESSIONS]]
    may_drain = may_do_everything(actor)
    rows = device_rows(actor, list(agent.devices.order_by("slot_name", "index")))
    context = {
        "agent": agent,
        "is_admin": sees_everything(actor),
        "meters": _meters(agent),
        "rows": rows,
        "images": agent.images.all(),
        "transfers": agent.image_transfers.active().select_related("source"),
        "sessions": sessions,
        "are_devices_measured": any(tells_use(row.device.vendor) for row in rows),
        "window": (window := _chosen_window(request.GET.get("window", ""))).value,
        "windows": _windows(window),
        "more": there.count() - len(sessions) if len(sessions) == SHOWN_SESSIONS else 0,
        "can_check": may_drain,
        "device_errors": device_errors(agent) if sees_everything(actor) else (),
        "facts": machine_facts(agent) if sees_everything(actor) else (),
        "warnings": machine_warnings(agent) if sees_everything(actor) else (),
        "is_issued": agent.connection.get("kind") == ConnectionKind.ISSUED,
        "is_empty": is_empty(agent),
        "events": machine_events(actor, agent) if sees_everything(actor) else (),
        "can_maintain": may_drain and agent.state != AgentState.RETIRED,
        "can_retire": may_drain and is_legal(AgentState(agent.state), AgentState.RETIRED),
        "can_drain": may_drain and agent.state == AgentState.CONNECTED,
        "can_resume": may_drain and agent.state in (AgentState.DRAINING, AgentState.MAINTENANCE),
    }
    return render_page_or_fragment(request, "portal/agent.html", "portal/_agent.html", context)


@require_GET
@login_required
def device_page(request: HttpRequest, device_id: int) -> HttpResponse:
    """Show one accelerator: facts, state, holders and history. A fragment for the drawer."""
    actor = require_global_overseer(request)
    device = AgentDevice.objects.select_related("agent__resource_group").filter(pk=device_id).first()
    if device is None:
        raise page_not_found()
    [row] = device_rows(actor, [device])
    context = {
        "row": row,
        "can_quarantine": not device.withheld and device.is_present,
        "can_forget": not device.is_present and not device.occupied,
        "can_release": device.withheld in RELEASABLE,
        "history": _history(actor, device),
        "mig": _mig(device) if may_do_everything(actor) else None,
        "device": device,
        "agent": device.agent,
        "vendor": _vendor_title(device.vendor),
        "facts": _facts(device),
        "is_superadmin": may_do_everything(actor),
    }
    return render_page_or_fragment(request, "portal/device.html", "portal/_device.html", context)


def machine_events(actor: Actor, agent: Agent) -> list[dict[str, Any]]:
    """Return what happened to a machine, newest first: lines of the audit log about it. One query."""
    entries = visible_entries(actor).filter(target_type="agents.agent", target_id=str(agent.pk))
    done = entries.filter(outcome=AuditEntry.Outcome.DONE).order_by("-pk")
    return [
        {
            "at": entry.recorded_at,
            "title": label(ACTIONS, entry.action),
            "text": _event_words(entry),
            "actor": entry.actor_label,
        }
        for entry in done[:SHOWN_EVENTS]
    ]


def _event_words(entry: AuditEntry) -> str:
    """Return the details of a line: "State: Connected → Lost"."""
    words = []
    for name, value in entry.changes.items():
        is_state = name == "state"
        if isinstance(value, list) and len(value) == BEFORE_AND_AFTER:
            told = [status_style(each).label if is_state else value_for_people(each) for each in value]
            words.append(f"{label(FACTS_OF_EVENTS, name)}: {told[0]} → {told[1]}")
        elif value:
            words.append(f"{label(FACTS_OF_EVENTS, name)}: {value_for_people(value)}")
    return " · ".join(words)


def _vendor_title(name: str) -> str:
    vendor = known_vendor(name) if name else None
    return vendor.title if vendor else name


def _facts(device: AgentDevice) -> list[tuple[str, str, Any]]:
    """Return what the driver tells besides the columns: [(title or "", name, value)]."""
    return [
        (_(FACTS[name]) if name in FACTS else "", name, value)
        for name, value in sorted((device.facts or {}).items())
        if name not in SHOWN_FACTS
    ]


def _chosen_window(asked: str) -> MachineWindow:
    return MachineWindow(asked) if asked in set(MachineWindow) else MachineWindow.HOUR


def _windows(chosen: MachineWindow) -> list[dict[str, Any]]:
    """Return links for the time span of the charts: [{"label", "url", "is_active"}]."""
    return [
        {"label": _(label), "url": f"?window={window}", "is_active": window == chosen}
        for window, label in WINDOWS.items()
    ]


@require_POST
@login_required
def quarantine(request: HttpRequest, device_id: int) -> HttpResponse:
    """Withhold a device from new sessions, and return to its page."""
    actor = superadmin_or_404(request)
    with errors_as_messages(request, Conflict, InvalidInput):
        quarantine_device(actor=actor, device_id=device_id, because=request.POST.get("because", ""))
        messages.success(request, _("The device is in quarantine: it gets no new sessions."))
    return redirect("accelerator", device_id)


@require_POST
@login_required
def release(request: HttpRequest, device_id: int) -> HttpResponse:
    """Give a withheld device out again, and return to its page."""
    actor = superadmin_or_404(request)
    with errors_as_messages(request, Conflict):
        release_device(actor=actor, device_id=device_id)
        messages.success(request, _("The device is given to sessions again."))
    return redirect("accelerator", device_id)


@require_POST
@login_required
def forget(request: HttpRequest, device_id: int) -> HttpResponse:
    """Forget a missing device, and return to the page of all."""
    actor = superadmin_or_404(request)
    with errors_as_messages(request, Conflict):
        forget_device(actor=actor, device_id=device_id)
        messages.success(request, _("The device is forgotten. If it is seen again, it is back."))
        return redirect("accelerators")
    return redirect("accelerator", device_id)


@require_POST
@login_required
def split_device(request: HttpRequest, device_id: int) -> HttpResponse:
    """Split a device, or all of its model in its group, into the MIG partitions of the form."""
    actor = superadmin_or_404(request)
    device = AgentDevice.objects.select_related("agent__resource_group").filter(pk=device_id).first()
    sizes = mig_sizes(device.model, device.mem_bytes) if device else None
    if device is None or sizes is None:
        raise page_not_found()
    with errors_as_messages(request, Conflict, InvalidInput):
        layout = _typed_layout(request, sizes)
        if request.POST.get("all"):
            group = device.agent.resource_group
            refusals = request_layout_of_model(actor=actor, group=group, model=device.model, layout=layout)
            for refusal in refusals[:SHOWN_REFUSALS]:
                messages.warning(request, f"{refusal.message} {refusal.hint}".strip())
        else:
            request_layout(actor=actor, agent_id=device.agent_id, device_id=device.pk, layout=layout)
        messages.success(request, _("The partitions are being made. The device is withheld until then."))
    return redirect("accelerator", device_id)


def _typed_layout(request: HttpRequest, sizes: MigSizes) -> dict[str, int]:
    """Return the partitions of the form as {profile: count}. Raises InvalidInput."""
    layout: dict[str, int] = {}
    for profile in sizes.profiles:
        text = request.POST.get(profile.name, "").strip() or "0"
        if not text.isascii() or not text.isdigit() or len(text) > 2:
            raise InvalidInput(_("Give a number of partitions from 0 to 7 for each size."))
        if int(text):
            layout[profile.name] = int(text)
    if problem := sizes.problem(layout):
        raise InvalidInput(problem)
    return layout


def _mig(device: AgentDevice) -> dict[str, Any] | None:
    """Return the sizes of partitions with the present counts; None if it has no MIG."""
    sizes = None if device.parent_id else mig_sizes(device.model, device.mem_bytes)
    if sizes is None:
        return None
    present = AgentDevice.objects.filter(
        agent_id=device.agent_id, parent_id=device.device_id, is_present=True
    ).values_list("profile", flat=True)
    counts = device.wanted_layout if device.wanted_layout is not None else Counter(present)
    rows = [
        (profile, counts.get(profile.name, 0), sizes.compute // profile.compute) for profile in sizes.profiles
    ]
    return {"rows": rows, "compute": sizes.compute, "is_waiting": device.wanted_layout is not None}


def _history(actor: Actor, device: AgentDevice) -> list[dict[str, Any]]:
    """Return what happened to the device, newest first."""
    entries = device_history(actor, device.pk)
    return [
        {
            "at": entry.recorded_at,
            "title": _(ACTIONS.get(entry.action, entry.action)),
            "text": entry.changes.get("because", ""),
            "actor": entry.actor_label,
        }
        for entry in entries[:SHOWN_EVENTS]
    ]


def device_rows(actor: Actor, devices: Sequence[AgentDevice]) -> list[DeviceRow]:
    """Return the devices with their holders and use. Three queries, none without devices."""
    if not devices:
        return []
    holders = _holders(actor, [device.pk for device in devices if device.occupied])
    uses = present_uses({device.agent_id for device in devices}, clock.now())
    unknown = DeviceUse(device_id="")
    return [
        DeviceRow(
            device=device,
            state=device_state(
                occupied=device.occupied,
                is_present=device.is_present,
                withheld=device.withheld,
                percent=uses.get(device.pk, unknown).activity,
            ),
            use=use_words(uses.get(device.pk, unknown), device.mem_bytes),
            holders=holders.get(device.pk, ()),
            api_version=format_version(device.api_version) if device.api_version else "",
        )
        for device in devices
    ]


def _holders(actor: Actor, device_ids: Sequence[int]) -> Mapping[int, list[Holder]]:
    allocations = list(
        KernelAllocation.objects.filter(devices__overlap=list(device_ids)).values_list(
            "kernel__session_id", "devices", "amount"
        )
    )
    ids = {session_id for session_id, _devices, _amount in allocations}
    known: dict[UUID, ComputeSession] = {
        session.pk: session for session in visible_sessions(actor).filter(pk__in=ids).select_related("owner")
    }
    found: dict[int, list[Holder]] = {}
    for session_id, devices, amount in allocations:
        percent = f"{100 * amount / len(devices) / MILLI:g}"
        for device_id in devices:
            found.setdefault(device_id, []).append(Holder(known.get(session_id), percent))
    return found


def _meters(agent: Agent) -> list[dict[str, Any]]:
    """Return what is held of each slot: [{"label", "slot", "used", "limit", "has"}]."""
    capacity, allocatable, occupied = agent.capacity, agent.allocatable, agent.occupied
    return [
        {
            "label": slot_title(name),
            "slot": name,
            "used": occupied[name],
            "limit": allocatable[name],
            "has": capacity[name],
        }
        for name in in_order(allocatable)
    ]
