"""Rows of the Agents page.
They hold everything that the template shows, so that a row is redrawn only if it changed.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from accounts.selectors import may_do_everything, sees_everything
from agents.core.sandboxes import SANDBOX_NAMES
from agents.core.states import AgentState
from agents.models import Agent, AgentRelay
from agents.relays.containers import UNREACHED
from common.actors import Actor
from common.templatetags.berth import ago
from common.values.resources import CPU, MEM, MILLI, format_bytes
from common.values.stored_message import StoredMessage

FULL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Occupied:
    """Allocation of one slot, in base units: `used` of `limit` (including over-commit) and of `has`
    (the capacity).
    """

    name: str
    used: int
    limit: int
    has: int


@dataclass(frozen=True, slots=True)
class DeviceMark:
    """One accelerator in the strip of a machine's accelerators.
    `held` is the allocated share in percent.
    """

    held: int
    is_present: bool
    words: str


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent, ready to print. `images` has one image per line.
    Address and last error are "" except for superadmins and monitors.
    """

    id: int
    name: str
    details: str
    address: str
    state: str
    is_empty: bool
    maintenance_ends_at: datetime | None
    maintenance_reason: str
    last_error: str
    sandbox_error: str
    isolation_error: str
    relay_error: str
    device_errors: tuple[str, ...]
    group: str
    cpu: Occupied
    mem: Occupied
    devices_held: tuple[Occupied, ...]
    image: str
    images: str
    more_images: int
    engine_version: str
    architecture: str
    device_kinds: tuple[str, ...]
    device_marks: tuple[DeviceMark, ...]
    device_words: str
    device_use: str
    is_simulated: bool
    seen: str
    can_drain: bool
    can_resume: bool


def agent_row(
    agent: Agent, actor: Actor, shown: Collection[str], device_percent: int | None = None
) -> AgentRow:
    """Return the row of an agent. `shown` are the visible columns, `device_percent` the mean use of its
    accelerators if measured. No query if the agent was loaded by `with_parts`.
    """
    is_shown, may_drain = sees_everything(actor), may_do_everything(actor)
    images = [image.reference for image in agent.images.all()]
    capacity, allocatable, occupied = agent.capacity, agent.allocatable, agent.occupied
    held = {
        name: Occupied(name, occupied[name], limit, capacity[name]) for name, limit in allocatable.items()
    }
    cpu, mem = (held.pop(name, Occupied(name, 0, 0, 0)) for name in (CPU, MEM))
    marks = tuple(map(_mark, agent.device_list))
    return AgentRow(
        id=agent.pk,
        name=agent.name,
        details="" if "group" in shown else agent.resource_group.name,
        address=agent.address if is_shown else "",
        state=agent.state,
        is_empty=is_empty(agent),
        maintenance_ends_at=agent.maintenance_ends_at,
        maintenance_reason=agent.maintenance_reason,
        sandbox_error=_sandbox_error(agent) if is_shown else "",
        last_error=agent.last_error if is_shown else "",
        isolation_error=agent.data.get("walls", {}).get("error", "") if is_shown else "",
        relay_error=relay_error(agent) if is_shown else "",
        device_errors=device_errors(agent) if is_shown else (),
        group=agent.resource_group.name,
        cpu=cpu,
        mem=mem,
        devices_held=tuple(held.values()),
        image=next(iter(images), ""),
        images="\n".join(images),
        more_images=len(images[1:]),
        engine_version=agent.engine_version,
        architecture=agent.architecture,
        device_kinds=_kinds(agent.device_list),
        device_marks=marks,
        device_words="; ".join(mark.words for mark in marks),
        device_use="" if device_percent is None else _("{percent} % busy").format(percent=device_percent),
        is_simulated=agent.is_simulated,
        seen=ago(agent.heartbeat_at),
        can_drain=may_drain and agent.state == AgentState.CONNECTED,
        can_resume=may_drain and agent.state in (AgentState.DRAINING, AgentState.MAINTENANCE),
    )


def is_empty(agent: Agent) -> bool:
    """Return True if the agent drains and no session is left there."""
    return agent.state == AgentState.DRAINING and not any(agent.occupied.values())


def _sandbox_error(agent: Agent) -> str:
    missing = agent.missing_sandbox
    sentence = _("Gets no sessions: it lacks {sandbox}, the sandbox of its group.")
    return sentence.format(sandbox=SANDBOX_NAMES[missing]) if missing else ""


def relay_error(agent: Agent) -> str:
    """Return why apps on the machine are not reached over its relay, or ""."""
    relay: AgentRelay | None = getattr(agent, "relay", None)
    if relay is None or not relay.error:
        return ""
    return _(UNREACHED).format(port=relay.port, host=relay.host, error=relay.error)


def device_errors(agent: Agent) -> tuple[str, ...]:
    """Return why accelerators are unknown, and which are missing. For agents loaded by `with_parts`."""
    last = agent.data.get("discovery", {})
    errors = [str(StoredMessage(**problem)) for problem in last.get("problems", {}).values()]
    missing = [device for device in agent.device_list if not device["is_present"] and not device["parent_id"]]
    if missing:
        names = ", ".join(f"{device['slot_name']} {device['index']}" for device in missing)
        errors.append(_("Devices are missing: {names}.").format(names=names))
    return tuple(errors)


def _kinds(devices: Collection[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return one text per model and memory size, with the number of devices."""
    there = [device for device in devices if device["is_present"]]
    kinds = Counter((device["model"], device["mem_bytes"]) for device in there)
    unknown = _("unknown model")
    return tuple(
        f"{count} × {model or unknown}, {format_bytes(mem_bytes)}"
        for (model, mem_bytes), count in kinds.items()
    )


def _mark(device: Mapping[str, Any]) -> DeviceMark:
    return DeviceMark(FULL_PERCENT * device["occupied"] // MILLI, device["is_present"], _words(device))


def _words(device: Mapping[str, Any]) -> str:
    name = f"{device['slot_name']} {device['index']}"
    if not device["is_present"]:
        return _("{device}, missing").format(device=name)
    if not device["occupied"]:
        return _("{device}, free").format(device=name)
    return _("{device}, {held} allocated").format(device=name, held=f"{device['occupied'] / MILLI:g}")
