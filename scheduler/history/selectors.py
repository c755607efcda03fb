"""Read tick records for viewers who may see the whole resource group."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from agents.models import Agent, ResourceGroup
from common.errors import NotFound
from scheduler.explain.messages import sentence_for
from scheduler.history.replay import Replay
from scheduler.models import KeptTick
from sessions_app.models import ComputeSession, Preemption

MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Named:
    """Session id with its present name; empty if the session was deleted."""

    id: UUID
    name: str


@dataclass(frozen=True, slots=True)
class Placed:
    session: Named
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waited:
    session: Named
    position: int
    priority: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Capacity that was reserved for a pending session."""

    session: Named
    agents: tuple[str, ...]
    starts_at: datetime | None


@dataclass(frozen=True, slots=True)
class Explained:
    """First decisions of one tick, with names; the row has the full counts."""

    placed: Sequence[Placed]
    waited: Sequence[Waited]
    kept: Sequence[Kept]


def ticks_of(group: ResourceGroup) -> QuerySet[KeptTick]:
    """Return the tick records of the group, newest first, without their snapshots."""
    return KeptTick.objects.filter(group=group).defer("picture", "placements", "reservations")


def preemptions_in(group: ResourceGroup) -> QuerySet[Preemption]:
    """Return the preemptions of the group, newest first."""
    found = Preemption.objects.filter(by__resource_group=group).select_related("session", "by", "agent")
    return found.only("session__name", "by__name", "agent__name", "decided_at", "ends_at", "outcome")


def tick_of(group: ResourceGroup, tick_id: int) -> KeptTick:
    """Return one tick record. Raises NotFound."""
    tick = KeptTick.objects.filter(group=group, pk=tick_id).first()
    if tick is None:
        raise NotFound(_("This tick is not kept, or not any more."))
    return tick


def explain(tick: KeptTick, seen: Replay | None) -> Explained:
    """Return the decisions of a tick with names. Deferred sessions need a replay. Two queries."""
    placements = [(UUID(each), agent_ids) for each, agent_ids in tick.placements[:MOST_SHOWN]]
    kept = [(UUID(each), agent_ids, until) for each, agent_ids, until in tick.reservations]
    deferrals = seen.plan.deferrals[:MOST_SHOWN] if seen else ()
    wanted = {*(each for each, _ in placements), *(each for each, _, _ in kept)}
    sessions = _sessions({*wanted, *(each.session_id for each in deferrals)})
    agents = _agents(
        {each for _, ids in placements for each in ids} | {each for _, ids, _ in kept for each in ids}
    )
    priorities = {each.id: each.priority for each in seen.snapshot.pending} if seen else {}
    return Explained(
        placed=[Placed(sessions[each], _names(agents, ids)) for each, ids in placements],
        waited=[
            Waited(
                sessions[session_id],
                position,
                priorities[session_id],
                why.reason.value,
                str(sentence_for(why, tick.group.name)),
            )
            for session_id, position, why in deferrals
        ],
        kept=[
            Kept(sessions[each], _names(agents, ids), datetime.fromisoformat(until) if until else None)
            for each, ids, until in kept
        ],
    )


def _sessions(ids: Collection[UUID]) -> dict[UUID, Named]:
    names = dict(ComputeSession.objects.filter(pk__in=ids).values_list("pk", "name"))
    return {each: Named(each, names.get(each, "")) for each in ids}


def _agents(ids: Collection[int]) -> dict[int, str]:
    return dict(Agent.objects.filter(pk__in=ids).values_list("pk", "name"))


def _names(agents: dict[int, str], ids: Iterable[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(agents.get(each, f"#{each}") for each in ids))
