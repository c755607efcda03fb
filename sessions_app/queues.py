"""Who waits in each resource group, told so that nobody learns of others' sessions more than how many they are."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from common.actors import Actor
from sessions_app.models import ComputeSession
from sessions_app.states import Status


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits in one group: how many, since when its first does and why. Id and name are of a first that is the actor's
    own, else None and ""."""

    count: int
    since: datetime
    why: str
    first_id: UUID | None
    first_name: str


def queues(actor: Actor) -> dict[int, Queue]:
    """By group; groups in which nothing waits are left out. One query, one row for each group."""
    pending = ComputeSession.objects.filter(status=Status.PENDING, held_for="", stops_at=None).order_by()
    same_group = [F("resource_group_id")]
    in_order = [F("priority").desc(), F("created_at").asc(), F("id").asc()]
    firsts = pending.annotate(
        count=Window(Count("pk"), partition_by=same_group),
        place=Window(RowNumber(), partition_by=same_group, order_by=in_order),
    ).filter(place=1)
    return {
        session.resource_group_id: Queue(
            count=session.count,
            since=session.created_at,
            why=str(session.status_message),
            first_id=session.pk if session.owner_id == actor.user_id else None,
            first_name=session.name if session.owner_id == actor.user_id else "",
        )
        for session in firsts
    }
