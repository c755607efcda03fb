"""Read tick records for viewers who may see the whole resource group."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from agents.models import Agent, ResourceGroup
from common.errors import NotFound
from scheduler.engine import Deferral
from scheduler.explain.messages import message_for
from scheduler.history.replay import Replay
from scheduler.models import KeptTick
from sessions_app.models import ComputeSession, Preemption

MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class NamedSession:
    """Session id with its present name; empty if the session was deleted."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class PlacedSession:
    session: NamedSession
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeferredSession:
    session: NamedSession
    position: int
    priority: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ReservingSession:
    """Capacity that was reserved for a pending session."""

    session: NamedSession
    agents: tuple[str, ...]
    starts_at: datetime | None


@dataclass(frozen=True, slots=True)
class TickDecisions:
    """First decisions of one tick, with names; the row has the full counts."""

    placed: Sequence[PlacedSession]
    waited: Sequence[DeferredSession]
    kept: Sequence[ReservingSession]


class _Recorded(NamedTuple):
    """Entry of `KeptTick.placements` or `.reservations`; `until` of the latter only."""

    session: str
    agent_ids: list[int]
    until: str | None = None

    @property
    def session_id(self) -> UUID:
        return UUID(self.session)


def tick_records(group: ResourceGroup) -> QuerySet[KeptTick]:
    """Return the tick records of the group, newest first, without their snapshots."""
    return KeptTick.objects.filter(group=group).defer("picture", "placements", "reservations")


def preemptions_in(group: ResourceGroup) -> QuerySet[Preemption]:
    """Return the preemptions of the group, newest first."""
    found = Preemption.objects.filter(by__resource_group=group).select_related("session", "by", "agent")
    return found.only("session__name", "by__name", "agent__name", "decided_at", "ends_at", "outcome")


def tick_record(group: ResourceGroup, tick_id: int) -> KeptTick:
    """Return one tick record. Raises NotFound."""
    tick = KeptTick.objects.filter(group=group, pk=tick_id).first()
    if tick is None:
        raise NotFound(_("This tick is not kept, or not any more."))
    return tick


def explain(tick: KeptTick, seen: Replay | None) -> TickDecisions:
    """Return the decisions of a tick with names. Deferred sessions need a replay. Two queries."""
    placements = [_Recorded(*row) for row in tick.placements[:MAX_SHOWN]]
    kept = [_Recorded(*row) for row in tick.reservations]
    deferrals: Sequence[Deferral] = seen.plan.deferrals[:MAX_SHOWN] if seen else ()
    wanted = {*(each.session_id for each in (*placements, *kept)), *(each.session_id for each in deferrals)}
    sessions = _sessions(wanted)
    agents = _agents({agent_id for each in (*placements, *kept) for agent_id in each.agent_ids})
    priorities = {each.id: each.priority for each in seen.snapshot.pending} if seen else {}
    return TickDecisions(
        placed=[
            PlacedSession(sessions[each.session_id], _names(agents, each.agent_ids)) for each in placements
        ],
        waited=[
            DeferredSession(
                sessions[each.session_id],
                each.position,
                priorities[each.session_id],
                each.reason.value,
                str(message_for(each.explanation, tick.group.name)),
            )
            for each in deferrals
        ],
        kept=[
            ReservingSession(
                sessions[each.session_id],
                _names(agents, each.agent_ids),
                datetime.fromisoformat(each.until) if each.until else None,
            )
            for each in kept
        ],
    )


def _sessions(ids: Collection[UUID]) -> dict[UUID, NamedSession]:
    names = dict(ComputeSession.objects.filter(pk__in=ids).values_list("pk", "name"))
    return {each: NamedSession(each, names.get(each, "")) for each in ids}


def _agents(ids: Collection[int]) -> dict[int, str]:
    return dict(Agent.objects.filter(pk__in=ids).values_list("pk", "name"))


def _names(agents: dict[int, str], ids: Iterable[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(agents.get(each, f"#{each}") for each in ids))
