"""What a process that answers people keeps of a resource group, so that not each question reads all of it again."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock
from time import monotonic
from typing import Any

from django.db import connection

from accounts.core.limits import HIGHEST_PRIORITY, Level
from agents.core.states import AgentState
from agents.models import Agent, AgentSlot, Reservation, ReservedAgent, ResourceGroup
from agents.selectors import SlotRoom
from common import clock
from scheduler.engine import AgentView, Allowance, Foresight, PendingSession, Planner, Snapshot
from scheduler.engine.accelerators import most_of
from scheduler.group_cache import KeptByGroup
from scheduler.models import SchedulerState
from scheduler.snapshot.placement_groups import hosts_of, keys_of
from scheduler.snapshot.reader import read_snapshot, rules_of
from sessions_app.core.start_estimate import StartRange
from sessions_app.core.states import LIVE
from sessions_app.models import ComputeSession

LARGE, TRUSTED_FOR_S = 200, 1.0
"""Of a group with so many machines nobody asks for so long whether anything changed; of smaller ones each time."""
KEPT_FOR_S = 30.0
"""What no mark tells, such as what others may hold or how they count, is as old as this at most."""
# Everything of a group that places sessions: its machines, who waits or runs there, and for whom they are reserved.
_MARK = f"""
    SELECT
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(
                    ROW(agent.id, agent.state, agent.architecture, agent.device_model, slot.slot_name, slot.capacity, slot.surplus, slot.occupied), 0))]
         FROM {Agent._meta.db_table} AS agent LEFT JOIN {AgentSlot._meta.db_table} AS slot ON slot.agent_id = agent.id
         WHERE agent.resource_group_id = %(group)s AND agent.state <> %(retired)s),
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(
                    ROW(id, status, held_for, stops_at, priority, eligible_at, started_at, deadline_at), 0))]
         FROM {ComputeSession._meta.db_table}
         WHERE resource_group_id = %(group)s AND ended_at IS NULL AND status = ANY(%(live)s)),
        (SELECT ROW(head_ids, gathered)::text FROM {SchedulerState._meta.db_table} WHERE group_id = %(group)s),
        (SELECT ARRAY[count(*), bit_xor(hash_record_extended(
                    ROW(reserved.id, machine.agent_id, starts_at, ends_at, starts_at <= %(now)s, domain_id, project_id, user_id), 0))]
         FROM {Reservation._meta.db_table} AS reserved
         JOIN {ReservedAgent._meta.db_table} AS machine ON machine.reservation_id = reserved.id
         WHERE reserved.group_id = %(group)s AND ends_at > %(now)s)
"""
Mark = tuple[Any, ...]


@dataclass(slots=True)
class Crowd:
    """More than anybody draws wait for room up to a place of a queue. Who asks behind them need not find out again: none of them waits
    otherwise for one more behind them."""

    ends_at: int = sys.maxsize  # that place, counted from 1, once somebody found out

    def is_before(self, position: int) -> bool:
        return position > self.ends_at


@dataclass(slots=True)
class Picture:
    """One group as it was. Ask it with `lock` held."""

    snapshot: Snapshot
    mark: Mark
    seen_at: float  # by the monotonic clock, when it was read or found to be as it was
    lock: Lock = field(default_factory=Lock)
    ranges: dict[Any, StartRange | None] = field(default_factory=dict)  # by question
    crowd: Crowd = field(default_factory=Crowd)
    _planner: Planner = field(default_factory=Planner)
    _names: dict[int, str] = field(default_factory=dict)
    _rooms: dict[str, Mapping[str, SlotRoom]] = field(default_factory=dict)
    _unlike: list[AgentView] = field(default_factory=list)  # one of each kind of machine

    def is_trusted(self, at: float) -> bool:
        return len(self.snapshot.agents) >= LARGE and at - self.seen_at <= TRUSTED_FOR_S

    def foresee(self, asked: PendingSession, fresh: Collection[Allowance], now: datetime) -> Foresight:
        """What the next tick would do with this one, were it there too. `fresh`: what its scopes may hold, as it is now."""
        names = {*asked.scopes}
        others = (each for each in self.snapshot.allowances if each.key not in names)
        pending = (*self.snapshot.pending, asked)
        asked_too = replace(
            self.snapshot,
            pending=pending,
            allowances=(*others, *fresh),
            companions={**self.snapshot.companions, **hosts_of(self.snapshot.group_id, keys_of([asked]))},
        )
        return self._planner.foresee(asked_too, asked, now)

    def foresee_all(self, now: datetime) -> Foresight:
        """What the next tick would do with those that wait."""
        return self._planner.foresee(self.snapshot, None, now)

    def agent_named(self, agent_id: int) -> str:
        """The name of one of its machines, which may be in another group by now. One query the first time."""
        if not self._names:
            agents = Agent.objects.filter(pk__in=[agent.id for agent in self.snapshot.agents])
            self._names.update(agents.values_list("pk", "name"))
        return self._names[agent_id]

    def rooms(self, architecture: str) -> Mapping[str, SlotRoom]:
        """By slot, on the machines of this architecture."""
        if architecture not in self._rooms:
            self._rooms[architecture] = _rooms(self.snapshot, architecture)
        return self._rooms[architecture]


_pictures = KeptByGroup[Picture](for_s=KEPT_FOR_S)


def picture_of(group: ResourceGroup, also: Collection[tuple[Level, int]]) -> Picture:
    """The group as it is, where it is large as it was `TRUSTED_FOR_S` ago at most. One query or none; where it has changed, those of
    read_snapshot besides. `group` was just read by whoever asks: its rules hold at once."""
    found, at = _pictures.get(group.pk), monotonic()
    if found is not None and found.snapshot.rules != rules_of(group, clock.now()):
        found = None
    if found is not None and found.is_trusted(at):
        return found
    mark = _mark_of(group)
    # Who may be ended for others changes with what no mark tells.
    if found is not None and found.mark == mark and group.preemptible_priority is None:
        found.seen_at = at
        return found
    made = Picture(read_snapshot(group.pk, also, HIGHEST_PRIORITY), mark, seen_at=at)
    _pictures.put(group.pk, made)
    return made


def forget() -> None:
    """Begin anew, as a process does."""
    _pictures.clear()


def _mark_of(group: ResourceGroup) -> Mark:
    """Equal as long as nothing of the group changes. Read before all else, so that what changes meanwhile is found next time."""
    asked: dict[str, Any] = {
        "group": group.pk,
        "retired": AgentState.RETIRED.value,
        "live": sorted(LIVE),
        "now": clock.now(),
    }
    with connection.cursor() as cursor:
        cursor.execute(_MARK, asked)
        return tuple(cursor.fetchone())


def _rooms(snapshot: Snapshot, architecture: str) -> dict[str, SlotRoom]:
    agents = [agent for agent in snapshot.agents if agent.architecture == architecture]
    found = {}
    for name in sorted({name for agent in agents for name in agent.capacity}):
        promised = [agent.capacity[name] for agent in agents]
        held = [agent.capacity[name] - agent.free[name] for agent in agents]
        free = [
            min(agent.free[name], agent.largest[name], most_of(agent.devices, name))
            for agent in agents
            if agent.is_schedulable and name in agent.capacity
        ]
        largest = max(agent.largest[name] for agent in agents)
        found[name] = SlotRoom(largest, max(0, max(free, default=0)), sum(promised), sum(held))
    return found
