"""Reads of agents and resource groups.
`visible_*` is the only list source, `access_*` the only single fetch.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Least
from django.utils.translation import gettext as _

from accounts.models import Project
from accounts.selectors import (
    may_do_everything,
    overseen_domain_ids,
    own_project_ids,
    require_superadmin,
    sees_everything,
)
from agents.core.states import AgentState
from agents.models import (
    RETURNING,
    Agent,
    AgentDevice,
    AgentImage,
    AgentQuerySet,
    AgentSlot,
    GroupGrant,
    ResourceGroup,
    ResourceGroupQuerySet,
)
from agents.runtime.port import ContainerRuntime
from agents.runtime.port_async import AsyncRuntime
from agents.runtime.registry import async_runtime_for, runtime_for
from common.actors import Actor
from common.errors import NotFound
from common.values.resources import CPU, MEM, MILLI, ResourceSlots
from common.values.text import quoted

# Raw SQL because every session request runs it. OFFSET 0 makes PostgreSQL read the agents of the
# group first; otherwise it expects an early match and scans agents of all groups.
_HAS_MACHINE = f"""
    SELECT EXISTS (
        SELECT FROM (
            SELECT id, state, architecture, device_model, device_mem_bytes, device_api_version FROM {Agent._meta.db_table} WHERE resource_group_id = %(group)s OFFSET 0
        ) AS agent
        WHERE state <> '{AgentState.RETIRED.value}' AND architecture = %(architecture)s::text
          AND %(model)s::text IN ('', device_model) AND device_mem_bytes >= %(mem_bytes)s::bigint
          AND device_api_version >= %(api_version)s::int AND NOT EXISTS (
            SELECT FROM unnest(%(slots)s::text[], %(amounts)s::bigint[]) AS wanted (name, amount) WHERE NOT EXISTS (
                SELECT FROM {AgentSlot._meta.db_table} AS slot
                WHERE slot.agent_id = agent.id AND slot.slot_name = wanted.name AND (
                    slot.capacity >= wanted.amount OR slot.slot_name NOT IN ('{CPU}', '{MEM}')
                    AND slot.capacity + {MILLI} * (
                        SELECT count(*) FROM {AgentDevice._meta.db_table} AS device
                        WHERE device.agent_id = agent.id AND device.slot_name = wanted.name
                          AND device.is_present AND device.withheld = ANY(%(returning)s)
                    ) >= wanted.amount))))
"""


def visible_agents(actor: Actor) -> AgentQuerySet:
    """Agents in use in the groups that the actor sees; every agent for superadmins and monitors."""
    agents: AgentQuerySet = Agent.objects.all()
    if sees_everything(actor):
        return agents
    return agents.in_use().filter(resource_group__in=visible_resource_groups(actor))


def access_agent(actor: Actor, agent_id: int) -> Agent:
    agent: Agent | None = visible_agents(actor).with_parts().filter(pk=agent_id).first()
    if agent is None:
        raise NotFound(_("There is no such agent, or it is not yours to see."))
    return agent


def visible_resource_groups(actor: Actor) -> ResourceGroupQuerySet:
    """Groups that the actor, or any project or user of a domain that the actor oversees, may use.
    All for superadmins and monitors.
    """
    groups: ResourceGroupQuerySet = ResourceGroup.objects.present()
    if sees_everything(actor):
        return groups
    domains = overseen_domain_ids(actor)
    overseen = Q(domain__in=domains) | Q(project__domain__in=domains) | Q(user__domain__in=domains)
    return _open_to(actor, groups, _own_grants(actor) | Q(project_id__in=own_project_ids(actor)) | overseen)


def usable_resource_groups(actor: Actor, project: Project | None = None) -> ResourceGroupQuerySet:
    """Groups in which the actor may start sessions: in `project`, or in any of the actor's
    projects. All for superadmins.
    """
    groups: ResourceGroupQuerySet = ResourceGroup.objects.present()
    if may_do_everything(actor):
        return groups
    in_project = Q(project_id__in=own_project_ids(actor)) if project is None else Q(project_id=project.pk)
    return _open_to(actor, groups, _own_grants(actor) | in_project)


def _open_to(actor: Actor, groups: ResourceGroupQuerySet, granted: Q) -> ResourceGroupQuerySet:
    if actor.is_anonymous:
        return groups.none()
    return groups.filter(Q(is_public=True) | Q(pk__in=GroupGrant.objects.filter(granted).values("group_id")))


def _own_grants(actor: Actor) -> Q:
    return Q(user_id=actor.user_id or 0) | Q(domain_id=actor.domain_id or 0)


def access_group(actor: Actor, group_id: int) -> ResourceGroup:
    """Return a group that the actor sees. Raises NotFound."""
    group = visible_resource_groups(actor).filter(pk=group_id).first()
    if group is None:
        raise NotFound(_("There is no such resource group, or it is not yours to see."))
    return group


def access_resource_group(actor: Actor, name: str = "", project: Project | None = None) -> ResourceGroup:
    """Return the group of this name in which the actor may start sessions, in `project` if given.
    Without a name it is the default group, else the first. Raises NotFound.
    """
    groups = usable_resource_groups(actor, project)
    group = named_or_default_group(groups, name).first()
    if group is None:
        known = ", ".join(groups.values_list("name", flat=True)[:10])
        sentence = (
            _("There is no resource group {name} for you.").format(name=quoted(name, 64))
            if name
            else _("There is no resource group yet.")
        )
        raise NotFound(
            sentence,
            hint=_("Your resource groups: {names}.").format(names=known)
            if known
            else _("Ask an administrator to add one."),
            fields={"resource_group": [sentence]},
        )
    return group


def named_or_default_group(groups: ResourceGroupQuerySet, name: str) -> ResourceGroupQuerySet:
    """Filter by name; without a name, order with the default group first."""
    return groups.filter(name=name) if name else groups.order_by("-is_default", "name")


def access_visible_group(actor: Actor, name: str = "") -> ResourceGroup:
    """Return the visible group of this name; without a name the default group, else the first.
    Raises NotFound.
    """
    groups = visible_resource_groups(actor).order_by("-is_default", "name")
    group = (groups.filter(name=name) if name else groups).first()
    if group is None:
        raise NotFound.at(
            "resource_group", _("There is no resource group {name} for you.").format(name=quoted(name, 64))
        )
    return group


def with_agent_counts(groups: ResourceGroupQuerySet) -> ResourceGroupQuerySet:
    """Annotate each group with `agent_count`, the number of its agents in use."""
    return groups.annotate(agent_count=Count("agents", filter=~Q(agents__state=AgentState.RETIRED.value)))


def access_group_to_administer(actor: Actor, group_id: int) -> ResourceGroup:
    """Return the group for a superadmin, or for a monitor to read.
    Raises NotFound, PermissionDenied.
    """
    group = access_group(actor, group_id)
    if not sees_everything(actor):
        require_superadmin(actor)
    return group


def agent_named(actor: Actor, name: str) -> Agent:
    """Return the visible agent of this name that is in use. Raises NotFound."""
    agent = visible_agents(actor).in_use().filter(name=name).first()
    if agent is None:
        raise NotFound.at("agent", _("There is no agent {name}.").format(name=quoted(name, 64)))
    return agent


def group_grants(group: ResourceGroup) -> QuerySet[GroupGrant]:
    """Grants of the group with their grantees. One query."""
    return GroupGrant.objects.filter(group=group).select_related("domain", "project__domain", "user")


class MachineTraits(NamedTuple):
    """Architecture of a machine, and common model, least memory and least API version of all its
    accelerators. Of a session: what it needs; "" and 0 mean any.
    """

    architecture: str
    device_model: str = ""
    device_mem_bytes: int = 0
    device_api_version: int = 0


@dataclass(frozen=True, slots=True)
class MachineSize:
    """Total resources of a machine, withheld devices among them, and what it offers: its
    architecture, the common model of its accelerators ("" if they differ), their least memory and API
    version.
    """

    offers: MachineTraits
    capacity: ResourceSlots

    def suits(self, needs: MachineTraits) -> bool:
        return (
            self.offers.architecture == needs.architecture
            and needs.device_model in ("", self.offers.device_model)
            and self.offers.device_mem_bytes >= needs.device_mem_bytes
            and self.offers.device_api_version >= needs.device_api_version
        )


def machine_sizes(actor: Actor, project: Project) -> dict[str, list[MachineSize]]:
    """Return the sizes of agents in use as {group name: sizes}, for the groups that the actor may
    use in `project`. One query.
    """
    groups = usable_resource_groups(actor, project)
    rows = AgentSlot.objects.filter(agent__resource_group__in=groups, agent__in=Agent.objects.in_use())
    columns = (
        "resource_group__name",
        "pk",
        "architecture",
        "device_model",
        "device_mem_bytes",
        "device_api_version",
    )
    amounts: dict[tuple[str, int], dict[str, int]] = {}
    offers: dict[tuple[str, int], MachineTraits] = {}
    for group, agent_id, *offered, slot_name, capacity in rows.with_installed().values_list(
        *(f"agent__{name}" for name in columns), "slot_name", "installed"
    ):
        offers[group, agent_id] = MachineTraits(*offered)
        amounts.setdefault((group, agent_id), {})[slot_name] = capacity
    sizes: dict[str, list[MachineSize]] = {}
    for key, slots in amounts.items():
        sizes.setdefault(key[0], []).append(MachineSize(offers[key], ResourceSlots(slots)))
    return sizes


def has_machine_for(group: ResourceGroup, slots: ResourceSlots, needs: MachineTraits) -> bool:
    """True if an agent in use of the group, when empty and with its withheld devices given out again,
    could hold these slots and has what `needs` says. One query, which stops at the first match.
    """
    with connection.cursor() as cursor:
        parameters: dict[str, Any] = {
            "group": group.pk,
            "architecture": needs.architecture,
            "model": needs.device_model,
            "mem_bytes": needs.device_mem_bytes,
            "api_version": needs.device_api_version,
            "slots": list(slots),
            "amounts": list(slots.values()),
            "returning": [*RETURNING],
        }
        cursor.execute(_HAS_MACHINE, parameters)
        return bool(cursor.fetchone()[0])


@dataclass(frozen=True, slots=True)
class SlotCapacity:
    """Capacity of one slot on the agents in use of a group, in base units.

    `largest` is the largest capacity of one agent, withheld devices included; `most_free` is the most
    that one agent that accepts sessions has free for one session. `capacity` (including over-commit) and
    `occupied` (allocated) are sums over all agents.
    """

    largest: int
    most_free: int
    capacity: int
    occupied: int


def slot_capacities(actor: Actor, *, group_id: int, architecture: str = "") -> dict[str, SlotCapacity]:
    """Return the capacity of a group that the actor may use, by slot; empty if it has none.
    One or two queries.
    """
    return slot_capacities_by_group(actor, architecture=architecture).get(group_id, {})


def slot_capacities_by_group(actor: Actor, *, architecture: str = "") -> dict[int, dict[str, SlotCapacity]]:
    """Return the capacity of each group that the actor may use as {group id: {slot: SlotCapacity}},
    only of agents of the architecture if one is given. One query with one row per slot and group,
    and a second if there are devices.
    """
    groups = usable_resource_groups(actor)
    slots = AgentSlot.objects.filter(agent__resource_group__in=groups, agent__in=Agent.objects.in_use())
    if architecture:
        slots = slots.filter(agent__architecture=architecture)
    takes_sessions = Q(agent__state=AgentState.CONNECTED)
    rows = (
        slots.order_by()
        .values_list("agent__resource_group_id", "slot_name")
        .annotate(
            largest=Max("capacity"),
            most_free=Max(
                Least("capacity", F("capacity") + F("surplus") - F("occupied")), filter=takes_sessions
            ),
            all_allocatable=Sum(F("capacity") + F("surplus")),
            all_occupied=Sum("occupied"),
        )
    )
    found_rows = list(rows)
    groups_with_devices = {row[0] for row in found_rows if row[1] not in (CPU, MEM)}
    devices = device_rooms(groups_with_devices, architecture) if groups_with_devices else {}
    found: dict[int, dict[str, SlotCapacity]] = {}
    for group_id, slot_name, largest, most_free, allocatable, occupied in found_rows:
        free = most_free or 0
        if slot_name not in (CPU, MEM):
            free, largest = devices.get((group_id, slot_name), DeviceRoom(0, largest))
        capacity = SlotCapacity(largest, max(free, 0), int(allocatable), int(occupied))
        found.setdefault(group_id, {})[slot_name] = capacity
    return found


_DEVICE_ROOMS = f"""
    SELECT agent.resource_group_id, slot.slot_name,
           coalesce(max(least(slot.capacity, slot.capacity + slot.surplus - slot.occupied, dealt.most))
               FILTER (WHERE agent.state = %(connected)s), 0),
           max(slot.capacity + coalesce(dealt.withheld, 0))
    FROM {AgentSlot._meta.db_table} AS slot
    JOIN {Agent._meta.db_table} AS agent ON agent.id = slot.agent_id
    LEFT JOIN (
        SELECT agent_id, slot_name,
               coalesce(nullif(1000 * count(*) FILTER (WHERE is_usable AND occupied = 0), 0),
                        max(1000 - occupied) FILTER (WHERE is_usable), 0) AS most,
               1000 * count(*) FILTER (WHERE is_present AND withheld = ANY(%(returning)s)) AS withheld
        FROM {AgentDevice._meta.db_table} GROUP BY agent_id, slot_name
    ) AS dealt USING (agent_id, slot_name)
    WHERE agent.resource_group_id = ANY(%(groups)s) AND agent.state <> %(retired)s
        AND %(architecture)s IN ('', agent.architecture) AND NOT slot.slot_name = ANY(%(others)s)
    GROUP BY agent.resource_group_id, slot.slot_name
"""


class DeviceRoom(NamedTuple):
    """Amount of an accelerator that one session can get on one machine now, and the most that one machine
    has, with devices that are withheld now.
    """

    most_free: int
    largest: int


def device_rooms(group_ids: Collection[int], architecture: str = "") -> dict[tuple[int, str], DeviceRoom]:
    """Return the room for accelerators by group id and slot. If the devices of a machine are known
    individually, what is free is the sum of its free whole devices, else the largest free share of one.
    One query.
    """
    parameters: dict[str, Any] = {
        "groups": [*group_ids],
        "architecture": architecture,
        "connected": AgentState.CONNECTED.value,
        "retired": AgentState.RETIRED.value,
        "others": [CPU, MEM],
        "returning": [*RETURNING],
    }
    with connection.cursor() as cursor:
        cursor.execute(_DEVICE_ROOMS, parameters)
        return {
            (group_id, slot_name): DeviceRoom(most_free, largest)
            for group_id, slot_name, most_free, largest in cursor.fetchall()
        }


def count_agents_without_image(group: ResourceGroup, reference: str, architecture: str) -> int:
    """Return the number of connected agents of this architecture in the group, if no agent of any group
    has the image that it could be copied from; 0 if any has it. Agents of the group that have not
    reported images yet count as having it. One query.
    """
    images = AgentImage.objects.filter(agent=OuterRef("pk"))
    may_have_it = Exists(images.filter(reference=reference)) | (Q(resource_group=group) & ~Exists(images))
    takes_it = Q(resource_group=group, state=AgentState.CONNECTED.value)
    counts = (
        connected_agents()
        .filter(architecture=architecture)
        .aggregate(total=Count("pk", filter=takes_it), having=Count("pk", filter=may_have_it))
    )
    return 0 if counts["having"] else int(counts["total"])


def connected_agents() -> AgentQuerySet:
    """Agents whose engine answered recently: connected or draining."""
    return Agent.objects.in_state(*(state for state in AgentState if state.is_watched))


def lost_agents(since: datetime) -> AgentQuerySet:
    """Agents that have been lost since `since` or longer."""
    return Agent.objects.in_state(AgentState.LOST).filter(state_changed_at__lte=since)


def runtime_of(agent: Agent) -> ContainerRuntime:
    """Return the runtime of an agent, for workers.
    Raises RuntimeRefused for a network address without credentials.
    """
    return runtime_for(agent.address, agent.credentials)


def async_runtime_of(agent: Agent) -> AsyncRuntime:
    """Return the runtime of an agent for the running event loop."""
    return async_runtime_for(agent.address, agent.credentials)
