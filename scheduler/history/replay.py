"""Explain why a session was pending at a past time, from recorded reasons and replayed ticks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from scheduler.engine import Deferral, Plan, Snapshot, simulate
from scheduler.explain.messages import message_for
from scheduler.group_cache import GroupCache
from scheduler.history.recorder import plan_digest
from scheduler.history.snapshot_codec import UnreadableSnapshot, unpack_snapshot
from scheduler.models import KeptTick, WaitingReason
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession

KEPT_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class Replay:
    """Recorded tick with its snapshot and the plan that the engine makes of it now; `is_same`:
    equal to the plan made then.
    """

    tick: KeptTick
    snapshot: Snapshot
    plan: Plan
    is_same: bool
    picture: bytes

    def deferral_for(self, session_id: UUID) -> Deferral | None:
        return next((each for each in self.plan.deferrals if each.session_id == session_id), None)


_last = GroupCache[Replay](for_s=KEPT_FOR_S)


@dataclass(frozen=True, slots=True)
class PendingPeriod:
    """Period in which a session was pending for one reason; `until` is None if it still is;
    `position` at its start.
    """

    since: datetime
    until: datetime | None
    reason: str
    message: str
    position: int


@dataclass(frozen=True, slots=True)
class PastTick:
    """Replayed decision about a session in the last tick with a snapshot."""

    planned_at: datetime
    position: int
    waiting: int
    placed: int
    is_same: bool
    message: str


@dataclass(frozen=True, slots=True)
class PastWait:
    """Reason for which a session was pending at `at`."""

    at: datetime
    since: datetime
    reason: str
    message: str
    tick: PastTick | None


def replay(tick: KeptTick) -> Replay | None:
    """Replay a recorded tick; None without a readable snapshot. The last replay of each group is
    cached for KEPT_FOR_S, as a large group takes a second.
    """
    if tick.picture is None:
        return None
    picture, last = bytes(tick.picture), _last.get(tick.group_id)
    if last is not None and last.tick == tick and last.tick.digest == tick.digest and last.picture == picture:
        return replace(last, tick=tick)
    try:
        snapshot = unpack_snapshot(picture)
    except UnreadableSnapshot:
        return None
    plan = simulate(snapshot, tick.planned_at)
    found = Replay(tick, snapshot, plan, is_same=plan_digest(plan) == tick.digest, picture=picture)
    _last.put(tick.group_id, found)
    return found


def pending_periods(session: ComputeSession) -> list[PendingPeriod]:
    """Return the recorded pending periods of a session, oldest first. Two queries."""
    reasons = list(WaitingReason.objects.filter(session=session).order_by("number"))
    left_at = [line.happened_at for line in session.transitions.all() if line.from_status == Status.PENDING]
    following = [each.since for each in reasons[1:]]
    stays = []
    for index, each in enumerate(reasons):
        ends = [at for at in (*following[index : index + 1], *left_at) if at > each.since]
        stays.append(
            PendingPeriod(each.since, min(ends, default=None), each.reason, str(each.message), each.position)
        )
    return stays


def past_wait(session: ComputeSession, at: datetime, stays: Sequence[PendingPeriod]) -> PastWait | None:
    """Return why the session was pending at `at`; None if it was not, or nothing is recorded. One
    query.
    """
    stay = next(
        (each for each in stays if each.since <= at and (each.until is None or at < each.until)), None
    )
    if stay is None:
        return None
    return PastWait(at, stay.since, stay.reason, stay.message, _past_tick(session, at, stay))


def _past_tick(session: ComputeSession, at: datetime, stay: PendingPeriod) -> PastTick | None:
    ticks = KeptTick.objects.filter(
        group_id=session.resource_group_id,
        planned_at__lte=at,
        planned_at__gte=stay.since,
        picture_bytes__gt=0,
    )
    tick = ticks.first()
    seen = replay(tick) if tick else None
    deferral = seen.deferral_for(session.pk) if seen else None
    if tick is None or seen is None or deferral is None:
        return None
    message = str(message_for(deferral.explanation, seen.snapshot.group_name))
    waiting, placed = len(seen.plan.deferrals), len(seen.plan.placements)
    return PastTick(tick.planned_at, deferral.position, waiting, placed, seen.is_same, message)
