"""Write queue position and reason of the sessions that a plan leaves pending."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from psycopg.types.json import Jsonb

from common.i18n import gettext_noop
from common.values.stored_message import StoredMessage
from scheduler.engine import Deferral, Plan, ReasonCode, column_of
from scheduler.explain.messages import message_table
from scheduler.group_cache import GroupCache
from sessions_app.core.states import Status
from sessions_app.lifecycle import updates
from sessions_app.models import ComputeSession

_UPDATE = f"""
    WITH sentence AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(%(sentences)s) AS sentence (number int, reason text, message jsonb)
    ), changed AS MATERIALIZED (
        SELECT waits.id, waits.position, sentence.reason, sentence.message
        FROM unnest(%(ids)s::uuid[], %(positions)s::int[], %(numbers)s::int[]) AS waits (id, position, number)
        JOIN sentence USING (number)
        JOIN {ComputeSession._meta.db_table} AS present ON present.id = waits.id
        WHERE present.status = 'PENDING' AND present.held_for = ''
          AND (present.queue_position IS NULL
               OR (present.status_reason, present.status_message -> 'text')
                   IS DISTINCT FROM (sentence.reason, sentence.message -> 'text')
               OR (%(are_figures_due)s AND (present.queue_position, present.status_message)
                   IS DISTINCT FROM (waits.position, sentence.message)))
        ORDER BY present.id FOR NO KEY UPDATE OF present SKIP LOCKED
    )
    UPDATE {ComputeSession._meta.db_table} AS session
    SET queue_position = changed.position, status_reason = changed.reason, status_message = changed.message
    FROM changed WHERE session.id = changed.id AND session.status = 'PENDING'
    RETURNING session.id, session.owner_id, session.project_id, session.domain_id
"""
LONG_QUEUE, FIGURES_EVERY_S = 500, 15.0
_figures_written = GroupCache[bool](FIGURES_EVERY_S)  # per process: another process may write them once more


NO_SET = gettext_noop(
    "Waits for accelerators that are linked as a set: enough are free on a machine, but not those that can "
    "be given together."
)


def tell_of_taken_devices(session_ids: Collection[UUID], why: str) -> None:
    """Write to these pending sessions why they get none of the free devices."""
    waiting = ComputeSession.objects.filter(pk__in=session_ids, status=Status.PENDING.value)
    told = {"status_reason": ReasonCode.FRAGMENTED.value, "status_message": StoredMessage(why)}
    with transaction.atomic():
        for session in (
            waiting.exclude(**told).order_by("pk").select_for_update(no_key=True, skip_locked=True)
        ):
            ComputeSession.objects.filter(pk=session.pk).update(**told)
            updates.push_session_change(session)


def write_pending_reasons(plan: Plan) -> None:
    """Write position, reason code and message of each deferred session; unchanged rows are not
    written. In queues longer than LONG_QUEUE, where each start changes all positions and amounts,
    rows in which only these changed are written every FIGURES_EVERY_S.
    """
    if not plan.deferrals:
        return
    is_long = len(plan.deferrals) > LONG_QUEUE
    are_figures_due = not is_long or _figures_written.get(plan.group_id) is None
    changed = _update(plan.deferrals, plan.group_name, are_figures_due)
    if is_long and are_figures_due:
        transaction.on_commit(partial(_figures_written.put, plan.group_id, True))
    updates.push_sessions_changed(changed, Status.PENDING)


def _update(
    deferrals: Sequence[Deferral], group_name: str, are_figures_due: bool
) -> list[updates.SessionAudience]:
    messages = message_table(column_of(deferrals, "explanation"), group_name)
    values: dict[str, Any] = {
        "ids": list(column_of(deferrals, "session_id")),
        "positions": list(column_of(deferrals, "position")),
        "numbers": messages.numbers,
        "sentences": Jsonb(messages.rows),
        "are_figures_due": are_figures_due,
    }
    with connection.cursor() as cursor:
        cursor.execute(_UPDATE, values)
        told: list[updates.SessionAudience] = cursor.fetchall()
        return told
