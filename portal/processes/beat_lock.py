"""Lock by which one of several beats sends the periodic tasks."""

import time
from typing import Any

import psycopg
import structlog

from common.db.advisory_locks import lock_number
from common.db.connection import TimeoutConnection

log = structlog.get_logger(__name__)

SUBJECT = "portal.beat"
CHECKED_EVERY_S = 1.0
# A machine that lost its power closes no connection: both ends notice after 14 s.
KEEPALIVES: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 3, "keepalives_count": 3}
SERVER_KEEPALIVES = " ".join(f"-c tcp_{name}={value}" for name, value in KEEPALIVES.items())


class BeatLock:
    """Advisory lock of one connection to PostgreSQL, so it is free as soon as its holder dies, hangs
    up or is cut off. For one thread.
    """

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._connection: TimeoutConnection | None = None
        self._has_lock = False
        self._checked_at = 0.0

    def is_held(self) -> bool:
        """Take the lock if it is free, and check once a second that it is still held. Returns False
        while PostgreSQL does not answer.
        """
        if self._has_lock and time.monotonic() - self._checked_at < CHECKED_EVERY_S:
            return True
        had_lock = self._has_lock
        try:
            self._has_lock = self._check()
        except psycopg.Error as error:
            log.warning("beat.lock_lost", error=str(error))
            self.close()
        self._checked_at = time.monotonic()
        if self._has_lock and not had_lock:
            log.info("beat.active")
        return self._has_lock

    def close(self) -> None:
        """Release the lock."""
        self._has_lock = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _check(self) -> bool:
        if self._connection is None:
            self._connection = TimeoutConnection.connect(
                self._url,
                autocommit=True,
                application_name="berth beat",
                connect_timeout=5,
                options=SERVER_KEEPALIVES,
                **KEEPALIVES,
            )
        if self._has_lock:
            self._connection.execute("SELECT 1")
            return True
        row = self._connection.execute("SELECT pg_try_advisory_lock(%s)", [lock_number(SUBJECT)]).fetchone()
        return bool(row and row[0])
