"""Lists the queue of each resource group, without identifying other users' sessions.

Everyone sees place, size, waiting time to the minute and a reason without names of each waiting
session; owner, name and priority only if allowed to see the session.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import Coalesce, RowNumber
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.actors import Actor
from common.values.resources import ResourceSlots
from sessions_app.models import ComputeSession
from sessions_app.queue.priority import governed_domain_id, may_prioritize
from sessions_app.selectors import visible_sessions

# By the last position tried, then sessions that were never tried.
_QUEUE_ORDER = (
    F("queue_position").asc(nulls_last=True),
    F("priority").desc(),
    Coalesce("eligible_at", "created_at").asc(),
    F("id").asc(),
)


@dataclass(frozen=True, slots=True)
class Queue:
    """Queue of one group: count, and waiting time and reason of its first session.

    `first_id` and `first_name` are set only if the first session is the actor's own.
    """

    count: int
    since: datetime
    why: str
    first_id: UUID | None
    first_name: str


def visible_queues(actor: Actor) -> dict[int, Queue]:
    """Return the queue by group id; groups without waiting sessions are left out. One query."""
    pending = ComputeSession.objects.waiting().filter(held_for="", stops_at=None).order_by()
    same_group = [F("resource_group_id")]
    firsts = pending.annotate(
        count=Window(Count("pk"), partition_by=same_group),
        place=Window(RowNumber(), partition_by=same_group, order_by=_QUEUE_ORDER),
    ).filter(place=1)
    return {
        session.resource_group_id: Queue(
            count=session.count,
            since=_queued_since(session, is_seen=session.owner_id == actor.user_id),
            why=visible_reason(session, is_seen=session.owner_id == actor.user_id),
            first_id=session.pk if session.owner_id == actor.user_id else None,
            first_name=session.name if session.owner_id == actor.user_id else "",
        )
        for session in firsts
    }


# Reasons that everyone may read, by code: full sentences name projects, users and limits. Any other
# reason is a limit, a budget or a time of the session's own.
PUBLIC_REASONS = {
    "enqueued": gettext_noop("Waiting for a machine."),
    "group_paused": gettext_noop("The resource group is paused."),
    "no_agents": gettext_noop("No agent takes it now."),
    "agent_unavailable": gettext_noop("Its agent takes no sessions now."),
    "storage_unreached": gettext_noop("No agent reaches its folders."),
    "no_such_device": gettext_noop("No agent has such devices."),
    "devices_withheld": gettext_noop("Devices that it needs are in quarantine or withheld."),
    "never_fits": gettext_noop("Larger than any agent."),
    "no_capacity": gettext_noop("More than is free."),
    "fragmented": gettext_noop("Free in total, but not on one agent."),
    "kept_free": gettext_noop("Capacity is reserved for a session ahead."),
    "priority": gettext_noop("Sessions with a higher priority are ahead."),
    "reservation": gettext_noop("Machines are reserved for others."),
    "placement_rule": gettext_noop("No room where its placement group allows it."),
    "making_room": gettext_noop("Preemption is in progress for it."),
}
OWN_LIMITS = gettext_noop("Waits for a limit or a time of its own.")


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Place in a queue.

    Id, name, owner and priority are "" or None, and `since` is rounded to the minute, unless the
    reader may see the session. `slots` are per container (`kernel_count`).
    """

    position: int
    id: UUID | None
    name: str
    owner: str
    is_own: bool
    slots: ResourceSlots
    kernel_count: int
    priority: int | None
    since: datetime
    reason: str
    why: str
    can_prioritize: bool


def queued_sessions(group_ids: Iterable[int]) -> QuerySet[ComputeSession]:
    """Return the waiting sessions of these groups, in queue order."""
    pending = ComputeSession.objects.waiting().filter(
        resource_group_id__in=list(group_ids), held_for="", stops_at=None
    )
    return pending.order_by(*_QUEUE_ORDER).only(  # type: ignore[no-any-return]
        "status_reason", "status_message", "requested_slots", "kernel_count", "priority", "created_at", "eligible_at", "owner_id", "domain_id",
        "queue_position",
    )  # fmt: skip


def queue_places(actor: Actor, sessions: Sequence[ComputeSession], *, first: int = 1) -> list[QueuePlace]:
    """Return the places of these sessions as the actor may see them. Two queries at most.

    `first` is the position of the first one.
    """
    governed_id = governed_domain_id(actor)
    seen = visible_sessions(actor).filter(pk__in=[session.pk for session in sessions])
    names = {pk: (name, email) for pk, name, email in seen.values_list("pk", "name", "owner__email")}
    return [
        QueuePlace(
            position=position,
            id=session.pk if session.pk in names else None,
            name=names.get(session.pk, ("", ""))[0],
            owner=names.get(session.pk, ("", ""))[1],
            is_own=session.owner_id == actor.user_id,
            slots=session.slots,
            kernel_count=session.kernel_count,
            priority=session.priority if session.pk in names else None,
            since=_queued_since(session, is_seen=session.pk in names),
            reason=session.status_reason if session.pk in names else _public_code(session.status_reason),
            why=visible_reason(session, is_seen=session.pk in names),
            can_prioritize=session.pk in names and may_prioritize(actor, session, governed_id),
        )
        for position, session in enumerate(sessions, start=first)
    ]


def _queued_since(session: ComputeSession, *, is_seen: bool) -> datetime:
    """Return the start of waiting, rounded to the minute for other users.

    The exact instant would identify the owner to users who saw the request.
    """
    since = session.eligible_at or session.created_at
    return since if is_seen else since.replace(second=0, microsecond=0)


def visible_reason(session: ComputeSession, *, is_seen: bool) -> str:
    """Return the session's own sentence if visible, else a sentence without names."""
    if is_seen:
        return str(session.status_message)
    return _(PUBLIC_REASONS.get(session.status_reason, OWN_LIMITS))


def _public_code(reason: str) -> str:
    return reason if reason in PUBLIC_REASONS else ""
