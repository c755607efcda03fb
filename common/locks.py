"""Advisory locks in PostgreSQL: who works on something now. They vanish with the connection, so a killed process
never leaves one behind."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def try_exclusive(subject: str) -> Iterator[bool]:
    """Whether this thread now is the only one inside `try_exclusive(subject)`; never waits. Not for use inside a
    transaction that may be rolled back before the block ends: the lock belongs to the connection."""
    key = int.from_bytes(hashlib.blake2b(subject.encode(), digest_size=8).digest(), signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        is_held = bool(cursor.fetchone()[0])
    try:
        yield is_held
    finally:
        if is_held:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
