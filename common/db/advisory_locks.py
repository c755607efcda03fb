"""PostgreSQL advisory locks: mutual exclusion by subject. A lock ends with its connection, so a
killed process never leaves one behind.
"""

import hashlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection

LOCK_NOT_AVAILABLE, QUERY_CANCELED = "55P03", "57014"


class LockTimeout(Exception):
    """The lock was not released within the allowed time."""


@contextmanager
def try_exclusive(subject: str) -> Iterator[bool]:
    """Yield True if this connection got the lock of `subject`, else False; never
    waits. Not for use in a transaction that may be rolled back before the block ends:
    the lock belongs to the connection.
    """
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


@contextmanager
def wait_exclusive(subject: str) -> Iterator[None]:
    """Lock `subject` for this connection until the block ends; waits for others without limit. Not
    for use in a transaction.
    """
    key = lock_number(subject)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [key])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [key])


def locked_subjects(subjects: Collection[str]) -> frozenset[str]:
    """Return the `subjects` that are locked by `try_exclusive` now, without waiting. One query."""
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


def lock_exclusive(subject: str, *, wait_s: float) -> None:
    """Lock `subject` until the transaction ends; wait at most `wait_s`, after which the transaction
    cannot continue. Raises LockTimeout. One query if the lock is free; waiters are served in order.
    """
    _wait("advisory_xact_lock", subject, wait_s)


def lock_shared(subject: str, *, wait_s: float) -> None:
    """Lock like `lock_exclusive`, but together with other shared holders. Waits for exclusive
    holders and for those who wait already.
    """
    _wait("advisory_xact_lock_shared", subject, wait_s)


def _wait(lock: str, subject: str, wait_s: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_try_{lock}(%s)", [lock_number(subject)])
        if cursor.fetchone()[0]:
            return
        cursor.execute(
            "SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true)", [in_ms(wait_s)]
        )
        before = cursor.fetchone()[0]
        try:
            cursor.execute(f"SELECT pg_{lock}(%s)", [lock_number(subject)])
        except OperationalError as error:
            if was_locked(error):
                raise LockTimeout(subject) from error
            raise
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])


def was_locked(error: OperationalError) -> bool:
    """Return True if a statement failed because of a lock timeout or statement timeout."""
    return getattr(error.__cause__, "sqlstate", "") in (LOCK_NOT_AVAILABLE, QUERY_CANCELED)


def in_ms(seconds: float) -> str:
    """Return a duration in PostgreSQL's notation, in milliseconds."""
    return f"{round(seconds * 1000)}ms"


def lock_number(subject: str) -> int:
    """Return PostgreSQL's key of the lock on `subject`."""
    return int.from_bytes(hashlib.blake2b(subject.encode(), digest_size=8).digest(), signed=True)
