"""How much room each resource group has: all its machines that take sessions together, and the one with the most left."""

from dataclasses import dataclass

from django.db.models import Aggregate, Count, F, FloatField, JSONField, Max, Q, Sum, Window
from django.db.models.functions import Cast, Coalesce, RowNumber

from agents.models import Agent, AgentSlot
from agents.selectors import visible_resource_groups
from agents.states import AgentState
from common.actors import Actor
from common.slots import CPU, MEM, ResourceSlots

IDLE = (AgentState.LOST, AgentState.DRAINING, AgentState.MAINTENANCE)


@dataclass(frozen=True, slots=True)
class GroupRoom:
    """A group as it is now, in base units. `agents` take sessions, `idle_agents` do not; the amounts are of the former.
    A session of up to `widest` starts at once, on `widest_agent`, which is "" where no machine has room."""

    id: int
    name: str
    agents: int
    idle_agents: int
    capacity: ResourceSlots
    occupied: ResourceSlots
    widest_agent: str
    widest: ResourceSlots

    @property
    def free(self) -> ResourceSlots:
        return self.capacity - self.occupied


def group_rooms(actor: Actor) -> list[GroupRoom]:
    """The groups that the actor may use, the usual one first; those without machines too. 3 queries, one row for each
    slot of a group."""
    groups = visible_resource_groups(actor).filter(is_active=True).order_by("-is_default", "name")
    counted = groups.annotate(
        taking=Count("agents", filter=Q(agents__state=AgentState.CONNECTED)),
        idle=Count("agents", filter=Q(agents__state__in=IDLE)),
    )
    amounts, widest = _amounts(), _widest()
    found = []
    for group in counted:
        capacity, occupied = amounts.get(group.pk, ({}, {}))
        agent, free = widest.get(group.pk, ("", {}))
        found.append(
            GroupRoom(
                id=group.pk,
                name=group.name,
                agents=group.taking,
                idle_agents=group.idle,
                capacity=ResourceSlots(capacity),
                occupied=ResourceSlots(occupied),
                widest_agent=agent,
                widest=ResourceSlots(free),
            )
        )
    return found


def _amounts() -> dict[int, tuple[dict[str, int], dict[str, int]]]:
    """{group: (what its machines have, what is held of it)}."""
    rows = AgentSlot.objects.filter(agent__state=AgentState.CONNECTED).order_by()
    sums = rows.values_list("agent__resource_group_id", "slot_name").annotate(
        Sum("capacity"), Sum("occupied")
    )
    found: dict[int, tuple[dict[str, int], dict[str, int]]] = {}
    for group_id, slot_name, capacity, occupied in sums:
        in_all, held = found.setdefault(group_id, ({}, {}))
        in_all[slot_name], held[slot_name] = int(capacity), int(occupied)
    return found


def _widest() -> dict[int, tuple[str, dict[str, int]]]:
    """{group: (machine, what it has free)}: the one with the most devices free, then the most cores times memory, of
    those that have some of both."""
    free = F("slots__capacity") - F("slots__occupied")
    devices = Coalesce(Sum(free, filter=~Q(slots__slot_name__in=(CPU, MEM))), 0)
    machines = (
        Agent.objects.in_state(AgentState.CONNECTED)
        .order_by()
        .values("resource_group_id", "name")
        .annotate(
            cpu=Max(free, filter=Q(slots__slot_name=CPU)),
            mem=Max(free, filter=Q(slots__slot_name=MEM)),
            devices=devices,
            free=Aggregate(
                F("slots__slot_name"), free, function="jsonb_object_agg", output_field=JSONField()
            ),
        )
        .filter(cpu__gt=0, mem__gt=0)
    )
    size = Cast("cpu", FloatField()) * Cast("mem", FloatField())
    order = [F("devices").desc(), size.desc(), F("name").asc()]
    placed = machines.annotate(
        place=Window(RowNumber(), partition_by=[F("resource_group_id")], order_by=order)
    ).filter(place=1)
    return {row["resource_group_id"]: (row["name"], row["free"]) for row in placed}
