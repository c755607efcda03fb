"""Writes of agents: registration, state changes and heartbeats."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import DataError, IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.selectors import require_superadmin
from agents.capacity.overcommit import apply_overcommit
from agents.core.sandboxes import offered_sandboxes
from agents.core.states import AgentState
from agents.core.usable_capacity import usable_capacity
from agents.events import CapacityChanged
from agents.locks import lock_group
from agents.machines import lifecycle
from agents.machines.accelerators import usable_devices
from agents.machines.addresses import check_form
from agents.machines.lifecycle import UNPLANNED, Maintenance
from agents.machines.observation import Observation, observe, observe_all
from agents.models import Agent, AgentImage, AgentSlot, ResourceGroup
from agents.resource_groups.service import put_into_group
from agents.runtime.port import ImageInfo, RuntimeFault
from agents.selectors import access_agent, access_resource_group, runtime_of
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.clock import ClockJump
from common.db.validation import validate_model
from common.errors import InvalidInput, Unavailable
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.events import publish
from common.values.resources import CPU, MEM, MILLI, ResourceSlots

log = structlog.get_logger(__name__)

HEARTBEAT_S = 4
"""Seconds in which engines answer a heartbeat; a round begins every 5 s (`portal.processes.periodic`)."""

LATELY = timedelta(minutes=1)
REPORTED = ("os", "kernel", "storage_driver", "cores", "has_live_restore", "runtimes", "cgroup_version")
"""Facts of a machine whose changes are events of it, with the engine's version and the memory."""

ERROR_LENGTH = 500
HEARTBEATS_AT_ONCE = 1000
REFERENCE_LENGTH = 255
UNUSABLE = (AttributeError, DataError, IntegrityError, LookupError, TypeError, ValueError)
"""Errors by which facts of a machine turn out not to be such: too long, or of another type."""


def register_agent(
    *,
    actor: Actor,
    name: str,
    address: str,
    connection: Mapping[str, Any] | None = None,
    resource_group: ResourceGroup | None = None,
    seen: Observation | None = None,
) -> Agent:
    """Register a machine with what its engine reports, `seen` if it was asked already. A known name gets
    the new address and is connected again if it was retired. Without a group a known agent stays in its
    group, and a new one joins the default group.

    Raises Unavailable if the engine does not answer, InvalidInput if another agent is this machine
    already, Conflict if the agent would leave a group in which it is reserved.
    """
    require_superadmin(actor)
    check_form(address)
    known = Agent.objects.filter(name=name).first()
    agent = known or Agent(name=name)
    agent.address, agent.connection = address, dict(connection or {})
    observation = seen or _observe(agent)
    twin = Agent.objects.in_use().filter(engine_id=observation.info.engine_id).exclude(pk=agent.pk).first()
    if twin is not None:
        raise InvalidInput.at(
            "address",
            _("The engine at {address} is that of the agent “{name}” already.").format(
                address=address, name=twin.name
            ),
            hint=_("Another address of the same machine? Add it under that name, and its address changes."),
        )

    with transaction.atomic():
        group = _hold_group_of(known, actor, resource_group)
        if known is not None:  # it may have changed while the engine was asked
            agent = Agent.objects.select_for_update(no_key=True).get(pk=known.pk)
            agent.address, agent.connection = address, dict(connection or {})
        agent.resource_group = group
        agent.engine_id = observation.info.engine_id
        apply_observation(agent, observation)
        validate_model(agent)
        agent.save()
        if agent.state == AgentState.RETIRED:
            lifecycle.transition(agent.pk, to=AgentState.CONNECTED, actor=actor)
        audit_log.record(
            actor=actor, action="agents.register_agent", target=agent, changes={"address": address}
        )
        return schedule_discovery(record_heartbeat(agent.pk, observation))


def schedule_discovery(agent: Agent) -> Agent:
    """Have the accelerators of a locked agent discovered within seconds."""
    agent.data.pop("discovery", None)
    agent.save(update_fields=["data"])
    enqueue_on_commit(TaskName.DISCOVER_DEVICES)
    return agent


def _hold_group_of(known: Agent | None, actor: Actor, named: ResourceGroup | None) -> ResourceGroup:
    """Return the locked group for the agent being registered, after moving a known agent into it.
    Raises NotFound, Conflict.
    """
    if known is None:
        return lock_group(named or access_resource_group(actor))
    if named is None and known.resource_group.deleted_at is None:
        named = known.resource_group
    return put_into_group(actor, known, named or access_resource_group(actor)).resource_group


def refresh_agent(*, actor: Actor, agent_id: int) -> Agent:
    """Observe a machine now and record it; its accelerators are looked for within seconds. Raises
    Unavailable if its engine does not answer.
    """
    require_superadmin(actor)
    agent = access_agent(actor, agent_id)
    observation = _observe(agent)
    with transaction.atomic():
        return schedule_discovery(record_heartbeat(agent.pk, observation))


def change_agent_state(
    *, actor: Actor, agent_id: int, to: AgentState, maintenance: Maintenance = UNPLANNED
) -> Agent:
    """Drain an agent, put it into maintenance, retire it, or connect it again. At the end of its maintenance
    it takes sessions again as soon as it answers. Raises Conflict, InvalidInput.
    """
    require_superadmin(actor)
    agent = access_agent(actor, agent_id)
    if maintenance != UNPLANNED and to is not AgentState.MAINTENANCE:
        raise InvalidInput(_("Only a maintenance has an end and a reason."))
    if maintenance.ends_at is not None and maintenance.ends_at <= clock.now():
        raise InvalidInput.at("ends_at", _("The maintenance would have ended already. Give a later time."))
    with transaction.atomic():
        if to is not AgentState.RETIRED:
            lock_group(agent.resource_group)
        return lifecycle.transition(agent.pk, to=to, actor=actor, maintenance=maintenance)


def heartbeat_agents() -> None:
    """Run one round of heartbeats over all agents that should answer, and those whose maintenance is over;
    silent ones last.
    """
    is_over = Q(state=AgentState.MAINTENANCE, maintenance_ends_at__lte=clock.now())
    answering = (AgentState.CONNECTED, AgentState.DRAINING, AgentState.LOST)
    watched = Agent.objects.filter(Q(state__in=answering) | is_over)
    agents = watched.order_by("last_error", "pk").prefetch_related("slots", "images")
    unchanged = []
    for agent, seen in observe_all(agents, within_s=HEARTBEAT_S, on_late=_record_late):
        if isinstance(seen, RuntimeFault):
            record_silence(agent.pk, str(seen))
        elif seen.info.engine_id != agent.engine_id:
            record_silence(agent.pk, f"Another engine answers at {agent.address}. Register the agent anew.")
        else:
            try:
                if is_unchanged(agent, seen):
                    unchanged.append(agent.pk)
                else:
                    record_heartbeat(agent.pk, seen)
            except UNUSABLE as error:
                record_silence(agent.pk, f"Engine {agent.address} answers like no engine: {error}")
        if len(unchanged) == HEARTBEATS_AT_ONCE:
            record_heartbeats(unchanged)
            unchanged = []
    record_heartbeats(unchanged)


def _record_late(agent: Agent, seen: Observation) -> None:
    """Record an answer that came after its round."""
    if seen.info.engine_id == agent.engine_id:
        record_heartbeat(agent.pk, seen)


def is_unchanged(agent: Agent, seen: Observation) -> bool:
    """True if a heartbeat changes nothing but the time.
    The agent must be loaded with its slots and images.
    """
    if agent.state in (AgentState.LOST, AgentState.MAINTENANCE) or agent.last_error:
        return False
    before = (agent.architecture, agent.engine_version, agent.sandboxes, {**agent.data})
    apply_observation(agent, seen)
    return before == (agent.architecture, agent.engine_version, agent.sandboxes, agent.data) and (
        _without_devices(agent.capacity) == _without_devices(_capacity_seen(seen))
        and {row.reference: row.image_id for row in agent.images.all()}
        == {name: image.image_id for name, image in _images_seen(seen).items()}
    )


@transaction.atomic
def record_heartbeats(agent_ids: Sequence[int]) -> None:
    """Record a heartbeat without changes for these agents, in one statement. Agents that became
    lost or silent meanwhile, and rows locked by others, are left to the next round.
    """
    free = Agent.objects.filter(pk__in=agent_ids, last_error="").exclude(state=AgentState.LOST)
    held = free.order_by("pk").select_for_update(no_key=True, skip_locked=True).values("pk")
    if agent_ids:
        Agent.objects.filter(pk__in=held).update(heartbeat_at=clock.now())


@transaction.atomic
def record_heartbeat(agent_id: int, seen: Observation) -> Agent:
    """Record a heartbeat with what the machine reports; a lost agent returns to its state before
    the loss, and one whose maintenance is over takes sessions again.
    """
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    before = _reported(agent)
    apply_observation(agent, seen)
    agent.save(
        update_fields=["heartbeat_at", "last_error", "architecture", "engine_version", "sandboxes", "data"]
    )
    changed = audit_log.changed(before, _reported(agent))
    if known := {name: values for name, values in changed.items() if values[0] is not None}:
        audit_log.record(actor=SYSTEM, action="agents.observe_machine", target=agent, changes=known)

    has_changed = write_capacity(agent, {**_capacity_seen(seen), **usable_devices(agent)})
    has_changed |= _write_images(agent, seen)
    if agent.state == AgentState.LOST:
        agent = lifecycle.transition(agent.pk, to=AgentState(agent.state_before_loss), actor=SYSTEM)
    elif is_maintenance_over(agent):
        agent = lifecycle.transition(agent.pk, to=AgentState.CONNECTED, actor=SYSTEM)
    elif has_changed:
        publish(CapacityChanged(agent.resource_group_id))
        lifecycle.push_agent_change(agent)
    return agent


def is_maintenance_over(agent: Agent) -> bool:
    """Return True if the agent is in maintenance after its planned end: it has not answered since."""
    ends_at = agent.maintenance_ends_at
    return agent.state == AgentState.MAINTENANCE and ends_at is not None and ends_at <= clock.now()


def _reported(agent: Agent) -> dict[str, Any]:
    """Return facts of the machine as its events tell them; None: unknown."""
    mem_bytes = agent.data.get("mem_bytes")
    return {
        **{name: agent.data.get(name) for name in REPORTED},
        "engine_version": agent.engine_version or None,
        "mem": mem_bytes and f"{mem_bytes / 2**30:.0f} GiB",
    }


@transaction.atomic
def shift_timestamps(step: ClockJump) -> None:
    """Move timestamps by a clock jump, so that it makes no agent silent or lost for longer."""
    # in the lock order of ADR 8
    list(Agent.objects.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    Agent.objects.update(
        heartbeat_at=step.shifted("heartbeat_at"), state_changed_at=step.shifted("state_changed_at")
    )


@transaction.atomic
def record_silence(agent_id: int, why: str) -> Agent:
    """Record a missing heartbeat. The agent becomes lost if it missed the one before too and has been
    silent for BERTH_LOST_AFTER_S; a single one says little when the portal itself was down.
    """
    agent = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    was_silent, agent.last_error = bool(agent.last_error), why.replace("\0", "")[:ERROR_LENGTH]
    agent.save(update_fields=["last_error"])
    log.warning("agent.silent", agent_id=agent.pk, agent=agent.name, error=why)
    is_long = clock.now() - agent.heartbeat_at >= timedelta(seconds=settings.BERTH_LOST_AFTER_S)
    if was_silent and is_long and AgentState(agent.state).is_watched:
        agent = lifecycle.transition(agent.pk, to=AgentState.LOST, actor=SYSTEM)
    return agent


def _observe(agent: Agent) -> Observation:
    try:
        return observe(runtime_of(agent))
    except RuntimeFault as fault:
        raise Unavailable(
            _("The engine of agent “{agent}” cannot be used: {error}").format(agent=agent.name, error=fault),
            hint=_("Check that the engine runs and that its address and certificates are right."),
        ) from fault


def apply_observation(agent: Agent, seen: Observation) -> None:
    """Set the observed facts on the row without saving it."""
    agent.heartbeat_at = clock.now()
    agent.last_error = ""
    agent.architecture = seen.info.architecture
    agent.engine_version = seen.info.version
    agent.sandboxes = offered_sandboxes(seen.info.runtimes)
    agent.data |= {
        "os": seen.info.os,
        "kernel": seen.info.kernel,
        "api_version": seen.info.api_version,
        "storage_driver": seen.info.storage_driver,
        "cores": seen.info.cpu_milli // MILLI,
        "mem_bytes": seen.info.mem_bytes,
        "address_pools": [list(pool) for pool in seen.info.address_pools],
        "has_live_restore": seen.info.has_live_restore,
        "life_id": seen.info.boot_id,
        "runtimes": list(seen.info.runtimes),
        "default_runtime": seen.info.default_runtime,
        "cdi_devices": list(seen.info.cdi_devices),
        "cgroup_version": seen.info.cgroup_version,
    }


def _capacity_seen(seen: Observation) -> ResourceSlots:
    return usable_capacity(seen.info.cpu_milli, seen.info.mem_bytes, seen.info.devices)


def _without_devices(capacity: ResourceSlots) -> dict[str, int]:
    """Return cores and memory: those of devices also depend on what is withheld of them."""
    return {name: capacity[name] for name in (CPU, MEM)}


def _images_seen(seen: Observation) -> dict[str, ImageInfo]:
    """Return images by name. Omits names longer than the column, which no session can request."""
    return {
        reference: image
        for image in seen.images
        for reference in image.references
        if len(reference) <= REFERENCE_LENGTH
    }


def write_capacity(agent: Agent, capacity: Mapping[str, int]) -> bool:
    """Write the capacity of each slot of a locked agent; return True if anything changed. Where live
    sessions allocate more than the new capacity, nothing starts until enough of them have ended.
    """
    slots = {slot.slot_name: slot for slot in agent.slots.order_by("pk").select_for_update(no_key=True)}
    has_changed = False
    for name in {*slots, *capacity}:
        slot = slots.get(name) or AgentSlot(agent=agent, slot_name=name, capacity=0)
        amount = capacity.get(name, 0)
        if slot.pk is None or slot.capacity != amount:
            slot.capacity = amount
            slot.save(update_fields=["capacity"] if slot.pk else None)
            has_changed = True
    if has_changed:
        apply_overcommit([agent.pk])
    return has_changed


def _write_images(agent: Agent, seen: Observation) -> bool:
    """Write the images of the agent; return True if anything changed."""
    there = _images_seen(seen)
    known = {row.reference: row for row in agent.images.all()}
    lately = clock.now() - LATELY
    gone = [
        row.pk
        for name, row in known.items()
        # What was brought lately may have arrived after the engine was asked.
        if (name not in there and not (row.brought_at and row.brought_at > lately))
        or (name in there and there[name].image_id != row.image_id)
    ]
    come = [
        AgentImage(agent=agent, reference=name, image_id=image.image_id, size_bytes=image.size_bytes)
        for name, image in there.items()
        if name not in known or known[name].image_id != image.image_id
    ]
    if gone:
        AgentImage.objects.filter(pk__in=gone).delete()
    AgentImage.objects.bulk_create(come)
    return bool(gone or come)
