"""Advisory locks in PostgreSQL: who works on something now. They vanish with the connection, so a killed process
never leaves one behind."""

import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection

LOCK_NOT_AVAILABLE, QUERY_CANCELED = "55P03", "57014"


class LockTaken(Exception):
    """Somebody else held the lock for as long as one was ready to wait."""


@contextmanager
def try_exclusive(subject: str) -> Iterator[bool]:
    """Whether this thread now is the only one inside `try_exclusive(subject)`; never waits. Not for use inside a
    transaction that may be rolled back before the block ends: the lock belongs to the connection."""
    key = lock_number(subject)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        is_held = bool(cursor.fetchone()[0])
    try:
        yield is_held
    finally:
        if is_held:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])


def held_among(subjects: Collection[str]) -> frozenset[str]:
    """Return those of `subjects` that somebody holds by `try_exclusive` now, without waiting. One query."""
    numbers = {lock_number(subject): subject for subject in subjects}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT key FROM (
                SELECT (classid::bigint << 32) | objid::bigint AS key FROM pg_locks
                WHERE locktype = 'advisory' AND objsubid = 1 AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            ) AS held WHERE key = ANY(%s)
            """,
            [list(numbers)],
        )
        return frozenset(numbers[key] for (key,) in cursor.fetchall())


def wait_exclusive(subject: str, *, wait_s: float) -> None:
    """Be the only transaction in `subject` until this one ends; waits for the others at most `wait_s`, after which the
    transaction cannot go on. Raises LockTaken. One query where nobody is there; who waits already is not overtaken."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock_number(subject)])
        if cursor.fetchone()[0]:
            return
        cursor.execute(
            "SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true)", [in_ms(wait_s)]
        )
        before = cursor.fetchone()[0]
        try:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(subject)])
        except OperationalError as error:
            if was_locked(error):
                raise LockTaken(subject) from error
            raise
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])


def was_locked(error: OperationalError) -> bool:
    """Whether a statement waited for a lock for as long as it may."""
    return getattr(error.__cause__, "sqlstate", "") in (LOCK_NOT_AVAILABLE, QUERY_CANCELED)


def in_ms(seconds: float) -> str:
    """As PostgreSQL takes times."""
    return f"{round(seconds * 1000)}ms"


def share_until_commit(subject: str) -> None:
    """Hold the lock together with others until the transaction ends. Waits for whoever holds or awaits it alone."""
    _lock_until_commit("pg_advisory_xact_lock_shared", subject)


def hold_until_commit(subject: str) -> None:
    """Hold the lock alone until the transaction ends. Those who come to share it meanwhile queue behind."""
    _lock_until_commit("pg_advisory_xact_lock", subject)


def _lock_until_commit(function: str, subject: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s)", [lock_number(subject)])


def lock_number(subject: str) -> int:
    """What PostgreSQL calls the lock on `subject`."""
    return int.from_bytes(hashlib.blake2b(subject.encode(), digest_size=8).digest(), signed=True)
