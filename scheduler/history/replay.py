"""Why somebody waited then: from the reasons that ticks gave, and from a tick that is decided once more."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from scheduler.engine import Deferral, Plan, Snapshot, simulate
from scheduler.explain.messages import sentence_for
from scheduler.group_cache import KeptByGroup
from scheduler.history.recorder import digest_of
from scheduler.history.snapshot_codec import UnreadablePicture, unpack_snapshot
from scheduler.models import KeptTick, WaitingReason
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession

KEPT_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class Replay:
    """A kept tick, what it saw, and what the engine decides of that now; `is_same`: as it did then."""

    tick: KeptTick
    snapshot: Snapshot
    plan: Plan
    is_same: bool
    picture: bytes

    def deferral_of(self, session_id: UUID) -> Deferral | None:
        return next((each for each in self.plan.deferrals if each.session_id == session_id), None)


_last = KeptByGroup[Replay](for_s=KEPT_FOR_S)


@dataclass(frozen=True, slots=True)
class Stay:
    """For what a session waited from `since` to `until`, None if it still does; `position`: when it began to."""

    since: datetime
    until: datetime | None
    reason: str
    message: str
    position: int


@dataclass(frozen=True, slots=True)
class PastTick:
    """What the last tick of which there is a picture says of a session, decided once more."""

    planned_at: datetime
    position: int
    waiting: int
    placed: int
    is_same: bool
    message: str


@dataclass(frozen=True, slots=True)
class PastWait:
    """Why a session waited at `at`."""

    at: datetime
    since: datetime
    reason: str
    message: str
    tick: PastTick | None


def replay(tick: KeptTick) -> Replay | None:
    """None where it has no picture, or one that this program cannot read. To decide for a large group takes a second: who asks
    about the same tick soon again is given what was decided then."""
    if tick.picture is None:
        return None
    picture, last = bytes(tick.picture), _last.get(tick.group_id)
    if last is not None and last.tick == tick and last.tick.digest == tick.digest and last.picture == picture:
        return replace(last, tick=tick)
    try:
        snapshot = unpack_snapshot(picture)
    except UnreadablePicture:
        return None
    plan = simulate(snapshot, tick.planned_at)
    found = Replay(tick, snapshot, plan, is_same=digest_of(plan) == tick.digest, picture=picture)
    _last.put(tick.group_id, found)
    return found


def stays_of(session: ComputeSession) -> list[Stay]:
    """For what it waited: the oldest that is kept first. Two queries."""
    reasons = list(WaitingReason.objects.filter(session=session).order_by("number"))
    left_at = [line.happened_at for line in session.transitions.all() if line.from_status == Status.PENDING]
    following = [each.since for each in reasons[1:]]
    stays = []
    for index, each in enumerate(reasons):
        ends = [at for at in (*following[index : index + 1], *left_at) if at > each.since]
        stays.append(Stay(each.since, min(ends, default=None), each.reason, str(each.message), each.position))
    return stays


def past_wait(session: ComputeSession, at: datetime, stays: Sequence[Stay]) -> PastWait | None:
    """None where it did not wait for a machine then, or nobody knows any more. One query."""
    stay = next(
        (each for each in stays if each.since <= at and (each.until is None or at < each.until)), None
    )
    if stay is None:
        return None
    return PastWait(at, stay.since, stay.reason, stay.message, _past_tick(session, at, stay))


def _past_tick(session: ComputeSession, at: datetime, stay: Stay) -> PastTick | None:
    ticks = KeptTick.objects.filter(
        group_id=session.resource_group_id,
        planned_at__lte=at,
        planned_at__gte=stay.since,
        picture_bytes__gt=0,
    )
    tick = ticks.first()
    seen = replay(tick) if tick else None
    deferral = seen.deferral_of(session.pk) if seen else None
    if tick is None or seen is None or deferral is None:
        return None
    message = str(sentence_for(deferral.why, seen.snapshot.group_name))
    waiting, placed = len(seen.plan.deferrals), len(seen.plan.placements)
    return PastTick(tick.planned_at, deferral.position, waiting, placed, seen.is_same, message)
