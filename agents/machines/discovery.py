"""Discovery of the accelerators of machines: when a machine is looked at, and what is recorded."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from zlib import crc32

import structlog
from django.db import transaction

from agents.accelerators.description import VendorDescription
from agents.events import CapacityChanged
from agents.machines.accelerators import usable_devices, write_devices
from agents.machines.health import judge_devices
from agents.machines.lifecycle import push_agent_change
from agents.machines.probing import Discovery, discover
from agents.machines.service import UNUSABLE, write_capacity
from agents.machines.split_devices import withhold_split_devices
from agents.machines.withholding import release_devices, withhold_devices
from agents.models import Agent, AgentDevice, Withheld
from agents.runtime.port import RuntimeUnavailable
from agents.selectors import connected_agents
from agents.vendors.selectors import known_vendors
from common import clock
from common.actors import SYSTEM
from common.audit import audit_log
from common.messaging.events import publish
from common.resilience.keyed_pool import KeyedPool
from common.values.resources import CPU, MEM

log = structlog.get_logger(__name__)

RENEWED_EVERY = timedelta(minutes=5)
RETRIED_EVERY = timedelta(minutes=1)
LOOKERS = 8
ROUND_S = 240
_pool = KeyedPool[Discovery | None]("discovery", LOOKERS)


def discover_due(image_ids: Sequence[str]) -> None:
    """Look at all machines that are due, and record what is found as the answers arrive, so that one
    that hangs does not delay others.
    """
    vendors, began_at = known_vendors(), clock.now()
    version = _version_of(vendors)
    due = [agent for agent in connected_agents() if not agent.is_simulated and is_due(agent, version)]
    work = {agent.pk: partial(_discovery_or_none, agent, vendors, image_ids) for agent in due}
    for agent_id, found in _pool.results(work, timeout_s=ROUND_S):
        if found is None:
            continue
        try:
            record_discovery(agent_id, found, version, began_at=began_at)
        except UNUSABLE as error:
            log.warning("discovery.unusable", agent_id=agent_id, exc_info=error)


def _discovery_or_none(
    agent: Agent, vendors: Sequence[VendorDescription], image_ids: Sequence[str]
) -> Discovery | None:
    try:
        return discover(agent, vendors, image_ids)
    except RuntimeUnavailable as fault:
        log.warning("discovery.unavailable", agent_id=agent.pk, agent=agent.name, error=str(fault))
        return None


def is_due(agent: Agent, version: int) -> bool:
    """True if the machine must be looked at: every few minutes, sooner after a failure, and at once if
    it booted, if its engine or the known vendors (`version`) changed, or if a device seems to be taken
    or left by somebody outside.
    """
    last = agent.data.get("discovery")
    if last is None or last["basis"] != _basis(agent, version) or last["doubts"]:
        return True
    age = clock.now() - datetime.fromisoformat(last["at"])
    return not timedelta(0) <= age < (RETRIED_EVERY if last["problems"] else RENEWED_EVERY)


def _basis(agent: Agent, version: int) -> list[Any]:
    facts = ("life_id", "runtimes", "default_runtime", "cdi_devices")
    return [version, agent.engine_version, *(agent.data.get(name) for name in facts)]


def _version_of(vendors: Sequence[VendorDescription]) -> int:
    """Return a number that changes with the descriptions."""
    return crc32("".join(vendor.model_dump_json() for vendor in vendors).encode())


@transaction.atomic
def record_discovery(
    agent_id: int, found: Discovery, version: int = 0, *, began_at: datetime | None = None
) -> Agent:
    """Record the devices of a machine, and which of them are used outside Berth. A look that began before
    what is recorded changes nothing: devices may have been split meanwhile.
    """
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    last = agent.data.get("discovery") or {}
    if began_at and last and began_at < datetime.fromisoformat(last["at"]) <= clock.now():
        return agent
    list(agent.slots.order_by("pk").select_for_update(no_key=True))  # before the devices, see ADR 8
    before = {row.device_id: row for row in agent.devices.filter(is_present=True)}
    has_changed = write_devices(agent, found.devices, unknown=found.unknown)
    withhold_split_devices(agent)
    has_changed |= write_capacity(agent, _capacity(agent))
    rows = {row.device_id: row for row in agent.devices.filter(is_present=True)}
    problems = {vendor: problem.to_json() for vendor, problem in found.problems.items()}
    has_changed |= problems != last.get("problems", {})
    _log_changes(agent, before, rows, problems)
    _note_common_facts(agent, rows.values())
    agent.data |= {
        "device_nodes": dict(found.nodes),
        "paths": list(found.paths),
        "numa_cores": dict(found.numa_cores),
        "topology": dict(found.topology),
        "disk": dict(found.disk),
        "discovery": {
            "at": clock.now().isoformat(),
            "basis": _basis(agent, version),
            "problems": problems,
            "health": judge_devices(
                agent, list(agent.devices.all()), found.rules, found.health, last.get("health", {})
            ),
            "doubts": _judge_users(agent, rows, found.users, last.get("doubts", {})),
        },
    }
    agent.save(update_fields=["device_model", "device_mem_bytes", "device_api_version", "data"])
    if has_changed:
        publish(CapacityChanged(agent.resource_group_id))
        push_agent_change(agent)
    return agent


def _capacity(agent: Agent) -> dict[str, int]:
    kept = {slot.slot_name: slot.capacity for slot in agent.slots.all() if slot.slot_name in (CPU, MEM)}
    return kept | usable_devices(agent)


def _note_common_facts(agent: Agent, rows: Collection[AgentDevice]) -> None:
    """Set what the devices have in common. A slice is as small as its profile says, so it says nothing
    about the devices of the machine.
    """
    whole = [row for row in rows if not row.parent_id] or rows
    models = {row.model for row in whole}
    agent.device_model = models.pop() if len(models) == 1 else ""
    agent.device_mem_bytes = min((row.mem_bytes for row in whole), default=0)
    agent.device_api_version = min((row.api_version for row in whole), default=0)


def _judge_users(
    agent: Agent,
    rows: Mapping[str, AgentDevice],
    users: Mapping[str, Collection[int]],
    doubts: Mapping[str, Sequence[int]],
) -> dict[str, list[int]]:
    """Withhold devices that processes outside Berth use, and give them out again when they do not.
    Only what was seen twice in a row counts; return what was seen once.
    """
    seen_once: dict[str, list[int]] = {}
    for device_id, pids in users.items():
        row = rows.get(device_id)
        if (
            row is None
            or bool(pids) == (row.withheld == Withheld.BUSY)
            or row.withheld not in ("", Withheld.BUSY)
        ):
            continue
        if device_id not in doubts or (pids and not set(pids) & set(doubts[device_id])):
            seen_once[device_id] = sorted(pids)
        elif pids:
            because = f"Processes outside Berth use it: {', '.join(map(str, sorted(pids)[:10]))}."
            withhold_devices(agent.pk, [row.pk], kind=Withheld.BUSY, because=because)
        else:
            release_devices(agent.pk, [row.pk], kind=Withheld.BUSY)
    return seen_once


def _log_changes(
    agent: Agent,
    before: Mapping[str, AgentDevice],
    rows: Mapping[str, AgentDevice],
    problems: Mapping[str, object],
) -> None:
    facts: dict[str, Any] = {"agent_id": agent.pk, "agent": agent.name}
    if before.keys() != rows.keys():
        facts |= {"new": sorted(rows.keys() - before.keys()), "gone": sorted(before.keys() - rows.keys())}
        log.warning("devices.changed", **facts)
        if before:
            changes = {
                "new": _names(rows, facts["new"]),
                "gone": _names(before, facts["gone"]),
            }
            audit_log.record(actor=SYSTEM, action="agents.find_devices", target=agent, changes=changes)
    if problems:
        log.warning("devices.unknown", **facts, problems=problems)


def _names(rows: Mapping[str, AgentDevice], device_ids: Sequence[str]) -> str:
    return ", ".join(
        f"{rows[each].slot_name} {rows[each].index} {rows[each].model}".strip() for each in device_ids
    )
