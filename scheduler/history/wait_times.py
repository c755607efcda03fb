"""Waiting times of recently started sessions of a resource group."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce, Greatest

from agents.models import ResourceGroup
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, SessionTransition

WINDOW = timedelta(hours=1)
MAX_SESSIONS = 2_000


@dataclass(frozen=True, slots=True)
class WaitTimes:
    """Waiting times of `started` sessions in seconds: median, 90th percentile, maximum; None if
    none started.
    """

    started: int = 0
    half_s: float | None = None
    nine_of_ten_s: float | None = None
    longest_s: float | None = None


def read_wait_times(group: ResourceGroup, now: datetime) -> WaitTimes:
    """Return waiting times of the newest MAX_SESSIONS sessions that started within WINDOW, from their
    last entry into the queue to their placement. Sessions without recorded transitions are left
    out. One query.
    """
    began = Greatest(Coalesce("eligible_at", "created_at"), _last_move_to(Status.PENDING))
    started = ComputeSession.objects.filter(resource_group=group, started_at__gte=now - WINDOW)
    spans = started.order_by("-started_at").values_list(began, _last_move_to(Status.SCHEDULED))[:MAX_SESSIONS]
    waited = sorted(max(0.0, (placed - since).total_seconds()) for since, placed in spans if placed)
    if not waited:
        return WaitTimes()
    half, most = (waited[(len(waited) * tenths - 1) // 10] for tenths in (5, 9))
    return WaitTimes(len(waited), half, most, waited[-1])


def _last_move_to(status: Status) -> Subquery:
    moves = SessionTransition.objects.filter(session=OuterRef("pk"), to_status=status.value)
    return Subquery(moves.order_by("-happened_at", "-id").values("happened_at")[:1])
