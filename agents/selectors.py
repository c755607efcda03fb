"""Reads of machines. `visible_*` is the only list source, `access_*` the only single fetch."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Sum
from django.utils.translation import gettext as _

from accounts.selectors import sees_everything
from agents.models import Agent, AgentImage, AgentQuerySet, AgentSlot, ResourceGroup
from agents.runtime.base import ContainerRuntime
from agents.runtime.base_async import AsyncRuntime
from agents.runtime.registry import async_runtime_for, runtime_for
from agents.states import AgentState
from common.actors import Actor
from common.errors import NotFound
from common.slots import ResourceSlots
from common.texts import quoted


def visible_agents(actor: Actor) -> AgentQuerySet:
    """Machines in use, in active groups, for whoever is signed in; all for superadmins."""
    agents: AgentQuerySet = Agent.objects.all()
    if sees_everything(actor):
        return agents
    if actor.is_anonymous:
        return agents.none()
    return agents.in_use().filter(resource_group__is_active=True)


def access_agent(actor: Actor, agent_id: int) -> Agent:
    agent: Agent | None = visible_agents(actor).with_parts().filter(pk=agent_id).first()
    if agent is None:
        raise NotFound(_("There is no such agent, or it is not yours to see."))
    return agent


def visible_resource_groups(actor: Actor) -> QuerySet[ResourceGroup]:
    """Active groups for whoever is signed in; all for superadmins."""
    groups = ResourceGroup.objects.all()
    if sees_everything(actor):
        return groups
    return groups.none() if actor.is_anonymous else groups.filter(is_active=True)


def access_resource_group(actor: Actor, name: str = "") -> ResourceGroup:
    """The active group of this name; without a name the default one, else the first. Raises NotFound."""
    groups = visible_resource_groups(actor).filter(is_active=True)
    group = groups.filter(name=name).first() if name else groups.order_by("-is_default", "name").first()
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


def capacities_by_group(actor: Actor) -> dict[str, list[ResourceSlots]]:
    """What each machine has in all, of each group that the actor may use; retired machines left out. One query."""
    groups = visible_resource_groups(actor).filter(is_active=True)
    rows = AgentSlot.objects.filter(agent__resource_group__in=groups, agent__in=Agent.objects.in_use())
    amounts: dict[tuple[str, int], dict[str, int]] = {}
    for group, agent_id, slot_name, capacity in rows.values_list(
        "agent__resource_group__name", "agent_id", "slot_name", "capacity"
    ):
        amounts.setdefault((group, agent_id), {})[slot_name] = capacity
    capacities: dict[str, list[ResourceSlots]] = {}
    for (group, _agent_id), slots in amounts.items():
        capacities.setdefault(group, []).append(ResourceSlots(slots))
    return capacities


def has_machine_for(group: ResourceGroup, slots: ResourceSlots) -> bool:
    """Whether a machine in use of `group` could hold this much, were it empty. One query, which ends at the first."""
    machines = Agent.objects.in_use().filter(resource_group=group)
    for name, amount in slots.items():
        enough = AgentSlot.objects.filter(agent=OuterRef("pk"), slot_name=name, capacity__gte=amount)
        machines = machines.filter(Exists(enough))
    return bool(machines.exists())


@dataclass(frozen=True, slots=True)
class SlotRoom:
    """One slot on the machines in use of a group, in base units. `largest`: the most that one machine has; `most_free`:
    the most that one machine, which takes sessions, has free; the other two are of all together."""

    largest: int
    most_free: int
    capacity: int
    occupied: int


def rooms(actor: Actor, *, group_id: int, architecture: str = "") -> dict[str, SlotRoom]:
    """Room for sessions in a group that the actor may use, by slot; empty where nothing is. One query."""
    return rooms_by_group(actor, architecture=architecture).get(group_id, {})


def rooms_by_group(actor: Actor, *, architecture: str = "") -> dict[int, dict[str, SlotRoom]]:
    """Room for sessions in each active group, by id and slot; of machines of that architecture if one is given. One
    query, one row for each slot of a group."""
    groups = visible_resource_groups(actor).filter(is_active=True)
    slots = AgentSlot.objects.filter(agent__resource_group__in=groups, agent__in=Agent.objects.in_use())
    if architecture:
        slots = slots.filter(agent__architecture=architecture)
    takes_sessions = Q(agent__state=AgentState.CONNECTED)
    rows = (
        slots.order_by()
        .values_list("agent__resource_group_id", "slot_name")
        .annotate(
            largest=Max("capacity"),
            most_free=Max(F("capacity") - F("occupied"), filter=takes_sessions),
            all_capacity=Sum("capacity"),
            all_occupied=Sum("occupied"),
        )
    )
    found: dict[int, dict[str, SlotRoom]] = {}
    for group_id, slot_name, largest, most_free, capacity, occupied in rows:
        room = SlotRoom(largest, most_free or 0, int(capacity), int(occupied))
        found.setdefault(group_id, {})[slot_name] = room
    return found


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
