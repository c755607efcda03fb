"""Statements of `lifecycle`, which alone runs them: moves of many sessions at once, each with its line of history."""

import json
from functools import cache
from itertools import pairwise

from common.prepared import unseen
from sessions_app.models import ComputeSession, Kernel, KernelAllocation, SessionTransition
from sessions_app.states import REASON_SENTENCES, Reason, Status

_SESSIONS = ComputeSession._meta.db_table
_MOVE_MANY = f"""
    WITH {{before}} held AS (
        SELECT id FROM {_SESSIONS} WHERE id = ANY({unseen("ids", "uuid")}) AND status = %(frm)s {{after}}
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE {_SESSIONS} AS session
        SET status = %(to)s::varchar, status_reason = %(reason)s, status_message = %(message)s::jsonb, status_changed_at = %(now)s,
            deadline_at = %(now)s + make_interval(secs => CASE WHEN %(to)s::varchar = 'RUNNING'
                THEN coalesce(nullif(timeout_s, 0), nullif(lifetime_s, 0), %(lasts_s)s) ELSE %(lasts_s)s END),
            started_at = CASE WHEN %(to)s::varchar = 'RUNNING' THEN %(now)s ELSE started_at END,
            outcome = coalesce(%(outcome)s, outcome), outcome_reason = coalesce(%(outcome_reason)s, outcome_reason),
            exit_code = coalesce(%(exit_code)s, exit_code), queue_position = NULL
        FROM held WHERE session.id = held.id
        RETURNING session.id, session.owner_id, session.project_id, session.domain_id
    ), history AS (
        INSERT INTO {SessionTransition._meta.db_table}
            (session_id, from_status, to_status, reason, message, actor_label, happened_at)
        SELECT moved.id, step.frm, step.to, step.reason, step.message, %(actor)s, %(now)s
        FROM jsonb_to_recordset(%(steps)s::jsonb) AS step (number int, frm text, "to" text, reason text, message jsonb), moved
        ORDER BY step.number
    )
    SELECT id, owner_id, project_id, domain_id FROM moved
"""
HOLD_ENDING = f"""
    SELECT id FROM {_SESSIONS} WHERE id = ANY(%(ids)s) AND status = 'TERMINATING'
        AND NOT (max_retries > retry_count AND outcome_reason = ANY(%(retried)s))
        AND NOT (requeues AND outcome_reason = ANY(%(requeued)s))
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""
RELEASE_MANY = f"""
    DELETE FROM {KernelAllocation._meta.db_table} AS held USING {Kernel._meta.db_table} AS kernel
    WHERE kernel.session_id = ANY(%(ids)s::uuid[]) AND held.kernel_id = kernel.id
"""
FINISH_MANY = f"""
    WITH began AS (
        SELECT DISTINCT ON (session_id) session_id, message FROM {SessionTransition._meta.db_table}
        WHERE session_id = ANY(%(ids)s) AND to_status = 'TERMINATING' ORDER BY session_id, id DESC
    ), moved AS (
        UPDATE {_SESSIONS} AS session
        SET status = coalesce(nullif(outcome, ''), 'ERROR'), status_changed_at = %(now)s, ended_at = %(now)s,
            status_reason = coalesce(nullif(outcome_reason, ''), 'engine_refused'),
            status_message = coalesce(began.message, %(sentences)s -> coalesce(nullif(outcome_reason, ''), 'engine_refused')),
            deadline_at = NULL, queue_position = NULL
        FROM unnest(%(ids)s::uuid[]) AS held (id) LEFT JOIN began ON began.session_id = held.id
        WHERE session.id = held.id
        RETURNING session.*
    ), history AS (
        INSERT INTO {SessionTransition._meta.db_table}
            (session_id, from_status, to_status, reason, message, actor_label, happened_at)
        SELECT id, 'TERMINATING', status, status_reason, status_message, %(actor)s, %(now)s FROM moved
    )
    SELECT status, resource_group_id, is_awaited, id, owner_id, project_id, domain_id, array_id FROM moved
"""
# Sessions that wait hold nothing.
CANCEL_MANY = f"""
    WITH held AS (
        SELECT id FROM {_SESSIONS} WHERE id = ANY(%(ids)s) AND status = 'PENDING'
        ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE {_SESSIONS} AS session
        SET status = 'CANCELLED', status_reason = %(reason)s, status_message = coalesce(%(messages)s::jsonb -> session.id::text, %(message)s), status_changed_at = %(now)s,
            ended_at = %(now)s, deadline_at = NULL, queue_position = NULL
        FROM held WHERE session.id = held.id
        RETURNING session.*
    ), history AS (
        INSERT INTO {SessionTransition._meta.db_table}
            (session_id, from_status, to_status, reason, message, actor_label, happened_at)
        SELECT id, 'PENDING', status, status_reason, status_message, %(actor)s, %(now)s FROM moved
    )
    SELECT status, resource_group_id, is_awaited, id, owner_id, project_id, domain_id, array_id FROM moved
"""


@cache
def said_along(path: tuple[Status, ...], reasons: tuple[Reason, ...]) -> tuple[str, str]:
    """As `move_many` has them: `message`, the sentence of the last reason, and `steps`, the lines of history from one status to the next."""
    said = [REASON_SENTENCES[why].to_json() for why in reasons]
    steps = [
        {"number": number, "frm": was, "to": to, "reason": why, "message": message}
        for number, ((was, to), why, message) in enumerate(zip(pairwise(path), reasons, said, strict=True))
    ]
    return json.dumps(said[-1]), json.dumps(steps)


@cache
def move_many(written: str = "") -> str:
    """`written`: parts of WITH that write other rows, of which the last is called `written` and returns something. They are done first, and what
    triggers count of them is counted first."""
    # Which is always so, but known only when all of it is written.
    after = "AND (SELECT count(*) FROM written) >= 0" if written else ""
    return _MOVE_MANY.format(before=f"{written}," if written else "", after=after)
