"""Reads of machines. `visible_*` is the only list source, `access_*` the only single fetch."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count, F, Max, Q, QuerySet, Sum
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
from common.db.prepared import prepared_cursor
from common.errors import NotFound
from common.values.resources import CPU, MEM, ResourceSlots
from common.values.text import quoted

# Not by the ORM: each request for a session asks it. The machines of the group first (OFFSET): PostgreSQL expects to be done soon, and
# would look at machines of all groups, one after another.
_HAS_MACHINE = f"""
    SELECT EXISTS (
        SELECT FROM (
            SELECT id, state, architecture, device_model FROM {Agent._meta.db_table} WHERE resource_group_id = %(group)s OFFSET 0
        ) AS agent
        WHERE state <> '{AgentState.RETIRED.value}' AND architecture = %(architecture)s::text
          AND %(model)s::text IN ('', device_model) AND NOT EXISTS (
            SELECT FROM unnest(%(slots)s::text[], %(amounts)s::bigint[]) AS asked (name, amount) WHERE NOT EXISTS (
                SELECT FROM {AgentSlot._meta.db_table} AS slot
                WHERE slot.agent_id = agent.id AND slot.slot_name = asked.name AND slot.capacity >= asked.amount)))
"""


def visible_agents(actor: Actor) -> AgentQuerySet:
    """Machines in use of the groups that the actor sees; all for superadmins and monitors."""
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
    """Those that the actor may use, or that anybody may whom the actor oversees; all for superadmins and monitors."""
    groups: ResourceGroupQuerySet = ResourceGroup.objects.present()
    if sees_everything(actor):
        return groups
    home = overseen_domain_ids(actor)
    overseen = Q(domain__in=home) | Q(project__domain__in=home) | Q(user__domain__in=home)
    return _open_to(actor, groups, _own_grants(actor) | Q(project_id__in=own_project_ids(actor)) | overseen)


def usable_resource_groups(actor: Actor, project: Project | None = None) -> ResourceGroupQuerySet:
    """Those in which the actor may start sessions: in `project`, or in any of the own projects. All for superadmins."""
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
    """One that the actor sees. Raises NotFound."""
    group = visible_resource_groups(actor).filter(pk=group_id).first()
    if group is None:
        raise NotFound(_("There is no such resource group, or it is not yours to see."))
    return group


def access_resource_group(actor: Actor, name: str = "", project: Project | None = None) -> ResourceGroup:
    """The group of this name in which the actor may start sessions, in `project` if one is given; without a name the default
    one, else the first. Raises NotFound."""
    groups = usable_resource_groups(actor, project)
    group = meant_group(groups, name).first()
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


def meant_group(groups: ResourceGroupQuerySet, name: str) -> ResourceGroupQuerySet:
    """The one of this name; without a name the default one comes first."""
    return groups.filter(name=name) if name else groups.order_by("-is_default", "name")


def group_to_look_at(actor: Actor, name: str = "") -> ResourceGroup:
    """The visible one of this name; without a name the default one, else the first. Raises NotFound."""
    groups = visible_resource_groups(actor).order_by("-is_default", "name")
    group = (groups.filter(name=name) if name else groups).first()
    if group is None:
        sentence = _("There is no resource group {name} for you.").format(name=quoted(name, 64))
        raise NotFound(sentence, fields={"resource_group": [sentence]})
    return group


def hold_group(group: ResourceGroup) -> ResourceGroup:
    """Nobody deletes it while this transaction lasts. Raises NotFound."""
    held = ResourceGroup.objects.select_for_update(no_key=True).present().filter(pk=group.pk).first()
    if held is None:
        raise NotFound(_("The resource group “{name}” was deleted.").format(name=group.name))
    return held


def with_agent_counts(groups: ResourceGroupQuerySet) -> ResourceGroupQuerySet:
    """Each with `agent_count`, its machines in use."""
    return groups.annotate(agent_count=Count("agents", filter=~Q(agents__state=AgentState.RETIRED.value)))


def access_group_to_administer(actor: Actor, group_id: int) -> ResourceGroup:
    """For superadmins, and monitors to look at. Raises NotFound, PermissionDenied."""
    group = access_group(actor, group_id)
    if not sees_everything(actor):
        require_superadmin(actor)
    return group


def agent_named(actor: Actor, name: str) -> Agent:
    """The visible one of this name, if it is in use. Raises NotFound."""
    agent = visible_agents(actor).in_use().filter(name=name).first()
    if agent is None:
        sentence = _("There is no agent {name}.").format(name=quoted(name, 64))
        raise NotFound(sentence, fields={"agent": [sentence]})
    return agent


def grants_of(group: ResourceGroup) -> QuerySet[GroupGrant]:
    """With those to whom they are. One query."""
    return GroupGrant.objects.filter(group=group).select_related("domain", "project__domain", "user")


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What a machine has in all, and what could run there."""

    architecture: str
    device_model: str
    capacity: ResourceSlots

    def suits(self, architecture: str, device_model: str) -> bool:
        return self.architecture == architecture and device_model in ("", self.device_model)


def machine_sizes(actor: Actor, project: Project) -> dict[str, list[MachineSize]]:
    """Of the machines in use, by name of the groups that the actor may use in `project`. One query."""
    groups = usable_resource_groups(actor, project)
    rows = AgentSlot.objects.filter(agent__resource_group__in=groups, agent__in=Agent.objects.in_use())
    its = ("resource_group__name", "pk", "architecture", "device_model")
    amounts: dict[tuple[str, int, str, str], dict[str, int]] = {}
    for group, agent_id, architecture, model, slot_name, capacity in rows.values_list(
        *(f"agent__{name}" for name in its), "slot_name", "capacity"
    ):
        amounts.setdefault((group, agent_id, architecture, model), {})[slot_name] = capacity
    sizes: dict[str, list[MachineSize]] = {}
    for (group, _agent_id, architecture, model), slots in amounts.items():
        sizes.setdefault(group, []).append(MachineSize(architecture, model, ResourceSlots(slots)))
    return sizes


def has_machine_for(
    group: ResourceGroup, slots: ResourceSlots, *, architecture: str, device_model: str = ""
) -> bool:
    """Whether a machine in use of `group`, of that architecture and with accelerators of that model if one is named, could hold this
    much, were it empty. One query, which ends at the first."""
    with prepared_cursor() as cursor:
        asked = {
            "group": group.pk,
            "architecture": architecture,
            "model": device_model,
            "slots": list(slots),
            "amounts": list(slots.values()),
        }
        cursor.execute(_HAS_MACHINE, asked)
        return bool(cursor.fetchone()[0])


@dataclass(frozen=True, slots=True)
class SlotRoom:
    """One slot on the machines in use of a group, in base units. `largest`: the most that one machine has; `most_free`:
    the most that one machine, which takes sessions, has free for one of them; the other two are of all together, as they
    promise it."""

    largest: int
    most_free: int
    capacity: int
    occupied: int


def rooms(actor: Actor, *, group_id: int, architecture: str = "") -> dict[str, SlotRoom]:
    """Room for sessions in a group that the actor may use, by slot; empty where nothing is. One query."""
    return rooms_by_group(actor, architecture=architecture).get(group_id, {})


def rooms_by_group(actor: Actor, *, architecture: str = "") -> dict[int, dict[str, SlotRoom]]:
    """Room for sessions in each group that the actor may use, by id and slot; of machines of that architecture if one is given. One
    query, one row for each slot of a group; and one more where there are devices."""
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
            all_promised=Sum(F("capacity") + F("surplus")),
            all_occupied=Sum("occupied"),
        )
    )
    found_rows = list(rows)
    groups_with_devices = {row[0] for row in found_rows if row[1] not in (CPU, MEM)}
    devices = most_of_devices(groups_with_devices, architecture) if groups_with_devices else {}
    found: dict[int, dict[str, SlotRoom]] = {}
    for group_id, slot_name, largest, most_free, promised, occupied in found_rows:
        of_one = most_free or 0 if slot_name in (CPU, MEM) else devices.get((group_id, slot_name), 0)
        room = SlotRoom(largest, max(of_one, 0), int(promised), int(occupied))
        found.setdefault(group_id, {})[slot_name] = room
    return found


_MOST_OF_DEVICES = f"""
    SELECT agent.resource_group_id, slot.slot_name,
           max(least(slot.capacity, slot.capacity + slot.surplus - slot.occupied, dealt.most))
    FROM {AgentSlot._meta.db_table} AS slot
    JOIN {Agent._meta.db_table} AS agent ON agent.id = slot.agent_id
    LEFT JOIN (
        SELECT agent_id, slot_name,
               coalesce(nullif(1000 * count(*) FILTER (WHERE is_present AND occupied = 0), 0),
                        max(1000 - occupied) FILTER (WHERE is_present), 0) AS most
        FROM {AgentDevice._meta.db_table} GROUP BY agent_id, slot_name
    ) AS dealt USING (agent_id, slot_name)
    WHERE agent.resource_group_id = ANY(%s) AND agent.state = %s AND (agent.architecture = %s OR %s = '')
        AND NOT slot.slot_name = ANY(%s)
    GROUP BY agent.resource_group_id, slot.slot_name
"""


def most_of_devices(group_ids: Collection[int], architecture: str = "") -> dict[tuple[int, str], int]:
    """The most of an accelerator that one session gets at once of one machine, by group and slot. Of machines whose devices are known
    one by one that is whole ones, else what is left of one. 1 query."""
    with connection.cursor() as cursor:
        state = AgentState.CONNECTED.value
        cursor.execute(_MOST_OF_DEVICES, [[*group_ids], state, architecture, architecture, [CPU, MEM]])
        return {(group_id, slot_name): most for group_id, slot_name, most in cursor.fetchall()}


def image_holder_counts(actor: Actor, references: Collection[str]) -> dict[str, int]:
    """{reference: how many machines in use have it}, of those that the actor sees. One query."""
    rows = AgentImage.objects.filter(agent__in=visible_agents(actor).in_use(), reference__in=references)
    return dict(rows.order_by().values_list("reference").annotate(Count("pk")))


def connected_agents() -> AgentQuerySet:
    """Machines whose engine answered lately: connected or draining."""
    return Agent.objects.in_state(*(state for state in AgentState if state.is_watched))


def lost_agents(since: datetime) -> AgentQuerySet:
    """Machines that are lost since `since` or longer."""
    return Agent.objects.in_state(AgentState.LOST).filter(state_changed_at__lte=since)


def runtime_of(agent: Agent) -> ContainerRuntime:
    """The engine of a machine, for workers. Raises RuntimeRefused for an address without certificates."""
    return runtime_for(agent.address, agent.tls)


def async_runtime_of(agent: Agent) -> AsyncRuntime:
    """The engine of a machine, for the running event loop."""
    return async_runtime_for(agent.address, agent.tls)
