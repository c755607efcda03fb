"""Record what a tick decided, after its commit; ticks do not depend on it.

A tick that decided something new, compared with the last one recorded by this process, leaves a row
with times and counts, the new reason of each session whose pending reason changed, and, as often as
its size allows, the whole snapshot, from which `replay` repeats the decision.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Sum
from psycopg.types.json import Jsonb

from common import clock
from scheduler.engine import Explanation, Plan, Snapshot, column_of
from scheduler.explain.messages import message_for, message_table
from scheduler.group_cache import GroupCache
from scheduler.history.snapshot_codec import pack_snapshot
from scheduler.models import KeptTick, WaitingReason
from sessions_app.models import ComputeSession
from sessions_app.ports import HoldState

log = structlog.get_logger(__name__)
RETENTION = timedelta(days=7)
MAX_SNAPSHOT_BYTES = 64 * 2**20  # per group
SNAPSHOT_BYTES_PER_SECOND = 4 * 2**10  # per group and process: larger snapshots are recorded less often
MAX_PLACEMENTS = 200  # named in a row; a snapshot has all
MAX_REASONS = 100  # per session
REMEMBERED_FOR_S = 3600.0

_ADD_REASONS = f"""
    WITH said AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(%(sentences)s) AS said (number int, reason text, message jsonb)
    ), found AS MATERIALIZED (
        SELECT waits.id, waits.position, said.reason, said.message, COALESCE(last.number, 0) AS number
        FROM unnest(%(ids)s::uuid[], %(positions)s::int[], %(numbers)s::int[]) AS waits (id, position, number)
        JOIN said ON said.number = waits.number
        JOIN {ComputeSession._meta.db_table} AS session ON session.id = waits.id AND session.status = 'PENDING'
        LEFT JOIN LATERAL (
            SELECT number, reason, message, since FROM {WaitingReason._meta.db_table}
            WHERE session_id = waits.id ORDER BY number DESC LIMIT 1
        ) AS last ON true
        WHERE (last.reason, last.message -> 'text') IS DISTINCT FROM (said.reason, said.message -> 'text')
            OR last.since < session.status_changed_at  -- of an earlier wait: it is tried again
    ), forgotten AS (
        DELETE FROM {WaitingReason._meta.db_table} AS old USING found
        WHERE old.session_id = found.id AND old.number <= found.number + 1 - %(most)s
    )
    INSERT INTO {WaitingReason._meta.db_table} (session_id, number, since, reason, message, position)
    SELECT id, number + 1, %(since)s, reason, message, position FROM found ORDER BY id
    ON CONFLICT DO NOTHING
"""

Said = tuple[str, str]  # reason code, and message template
ReasonSince = tuple[Said, datetime | None]  # … and since when it waits: a retried session waits anew


@dataclass(frozen=True, slots=True)
class TickDurations:
    """Durations of the phases of a tick, in seconds."""

    read_s: float
    decide_s: float
    commit_s: float


@dataclass(slots=True)
class _LastRecord:
    """Last recorded tick of a group in this process."""

    reasons: Mapping[UUID, ReasonSince] = field(default_factory=dict)
    reservations: Collection[object] = ()
    next_snapshot_at: float = 0.0  # by the monotonic clock


_last_records = GroupCache[_LastRecord](for_s=REMEMBERED_FOR_S)


def record_tick(snapshot: Snapshot, decided: Plan, took: TickDurations) -> None:
    """Record the tick if it decided something new. Never raises, as the plan is already committed."""
    try:
        _record(snapshot, decided, took)
    except Exception:
        log.exception("scheduler.tick_not_kept", group=decided.group_name)


def _record(snapshot: Snapshot, decided: Plan, took: TickDurations) -> None:
    last = _last_records.get(snapshot.group_id) or _LastRecord()
    waits_since = {each.id: each.enqueued_at for each in snapshot.pending}
    ids, reasons = column_of(decided.deferrals, "session_id"), column_of(decided.deferrals, "explanation")
    texts: dict[Explanation, Said] = {
        why: (why.reason.value, message_for(why, decided.group_name).text) for why in dict.fromkeys(reasons)
    }
    said: dict[UUID, ReasonSince] = {
        session_id: (texts[why], waits_since.get(session_id))
        for session_id, why in zip(ids, reasons, strict=True)
    }
    changed = {session_id for session_id, each in said.items() if last.reasons.get(session_id) != each}
    is_new = decided.placements or decided.evictions or changed or len(said) != len(last.reasons)
    if not is_new and decided.reservations == last.reservations:
        return

    now = monotonic()
    picture = pack_snapshot(snapshot) if now >= last.next_snapshot_at else None
    kept = _LastRecord(said, decided.reservations, last.next_snapshot_at)
    if picture is not None:
        kept.next_snapshot_at = now + len(picture) / SNAPSHOT_BYTES_PER_SECOND
    with transaction.atomic():
        _add_reasons(decided, changed)
        _row(decided, took, picture).save(force_insert=True)
    _last_records.put(snapshot.group_id, kept)


def delete_old_ticks(*, before: datetime | None = None) -> None:
    """Delete records older than `before` (default: RETENTION ago), and the oldest snapshots of
    groups that exceed MAX_SNAPSHOT_BYTES.
    """
    oldest = before or clock.now() - RETENTION
    KeptTick.objects.filter(planned_at__lt=oldest).delete()
    WaitingReason.objects.filter(since__lt=oldest, session__ended_at__isnull=False).delete()
    sizes = KeptTick.objects.order_by().values_list("group_id").annotate(bytes=Sum("picture_bytes"))
    for group_id, total in sizes.filter(bytes__gt=MAX_SNAPSHOT_BYTES):
        _delete_snapshots(group_id, total - MAX_SNAPSHOT_BYTES)


def plan_digest(plan: Plan) -> str:
    """Return a digest that is equal for plans with equal decisions; pinned heads are not part of
    it.
    """
    digest = hashlib.sha256()
    for placement in plan.placements:
        digest.update(f"{placement.session_id.hex}{placement.agent_ids}".encode())
    for session_id, position, why in plan.deferrals:
        digest.update(f"{session_id.hex}{position}{why.reason.value}".encode())
    for each in plan.reservations:
        digest.update(f"{each.session_id.hex}{each.agent_ids}{each.starts_at}".encode())
    for eviction in plan.evictions:
        digest.update(f"{eviction}".encode())
    return digest.hexdigest()


def _row(decided: Plan, took: TickDurations, picture: bytes | None) -> KeptTick:
    return KeptTick(
        group_id=decided.group_id,
        planned_at=decided.planned_at,
        epoch=decided.epoch,
        read_us=_microseconds(took.read_s),
        decide_us=_microseconds(took.decide_s),
        commit_us=_microseconds(took.commit_s),
        placed=len(decided.placements),
        waiting=len(decided.deferrals),
        reasons=Counter(why.reason.value for why in column_of(decided.deferrals, "explanation")),
        placements=[
            [placement.session_id.hex, list(placement.agent_ids)]
            for placement in decided.placements[:MAX_PLACEMENTS]
        ],
        reservations=[
            [each.session_id.hex, list(each.agent_ids), each.starts_at and each.starts_at.isoformat()]
            for each in decided.reservations[:MAX_PLACEMENTS]
        ],
        picture=picture,
        picture_bytes=len(picture or b""),
        digest=plan_digest(decided) if picture else "",
    )


def _add_reasons(decided: Plan, changed: Collection[UUID]) -> None:
    if not changed:
        return
    deferrals = [each for each in decided.deferrals if each.session_id in changed]
    messages = message_table([each.explanation for each in deferrals], decided.group_name)
    values = {
        "ids": [each.session_id for each in deferrals],
        "positions": [each.position for each in deferrals],
        "numbers": messages.numbers,
        "sentences": Jsonb(messages.rows),
        "since": decided.planned_at,
    }
    _execute(values)


def record_hold_state(session_ids: Collection[UUID], state: HoldState) -> None:
    """Record that pending sessions were held or released; their earlier pending reason no longer
    applies.
    """
    said = {"number": 0, "reason": state.reason.value, "message": state.message.to_json()}
    nothing = [0] * len(session_ids)
    values = {"ids": list(session_ids), "positions": nothing, "numbers": nothing, "sentences": Jsonb([said])}
    _execute({**values, "since": clock.now()})


def _execute(values: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_ADD_REASONS, {**values, "most": MAX_REASONS})


def _delete_snapshots(group_id: int, excess: int) -> None:
    pictured = KeptTick.objects.filter(group_id=group_id, picture_bytes__gt=0).order_by("planned_at")
    too_many = []
    for tick_id, size in pictured.values_list("pk", "picture_bytes"):
        if excess <= 0:
            break
        too_many.append(tick_id)
        excess -= size
    KeptTick.objects.filter(pk__in=too_many).update(picture=None, picture_bytes=0, digest="")


def _microseconds(seconds: float) -> int:
    return min(int(seconds * 1_000_000), 2**31 - 1)
