"""Record user activity per session: collected in memory, written by one statement every REPORT_S. A
killed web process loses its last interval.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache
from secrets import token_hex
from uuid import UUID

import structlog
from django.db import connection

from common import clock
from sessions_app.core.states import Status
from sessions_app.gateway.activity.polling_detection import RequestActivity, WebsocketActivity
from sessions_app.gateway.auth.authorizer import DATABASE_PATIENCE_S, in_database
from sessions_app.gateway.proxy.access_types import AccessUnknown
from sessions_app.models import ComputeSession, GatewayReport, Interaction, SessionIdle

log = structlog.get_logger(__name__)

REPORT_S = 10
MAX_SESSIONS = 4096
_READING = frozenset(("GET", "HEAD", "OPTIONS"))

# Sessions are locked in one order; times that are not newer are not written.
WRITE = f"""
    INSERT INTO {SessionIdle._meta.db_table} AS known (session_id, interacted_at, interaction, gap, use, extensions)
    SELECT seen.session_id, seen.at, seen.interaction, '', '{{}}', 0
    FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[]) AS seen (session_id, at, interaction)
    JOIN {ComputeSession._meta.db_table} AS session ON session.id = seen.session_id AND session.status = '{Status.RUNNING}'
    ORDER BY seen.session_id
    ON CONFLICT (session_id) DO UPDATE SET interacted_at = excluded.interacted_at, interaction = excluded.interaction
    WHERE known.interacted_at IS NULL OR known.interacted_at < excluded.interacted_at
"""


class ActivityRecorder:
    """Activity recorder. One per web process, used from one event loop."""

    def __init__(self) -> None:
        self.name = f"{os.getpid()}.{token_hex(8)}"
        self._seen: dict[UUID, tuple[float, Interaction]] = {}
        self._activity: dict[UUID, RequestActivity] = {}
        self._reporter: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()

    def record(self, session_id: UUID, interaction: Interaction) -> None:
        """Record user activity in a session now."""
        self._seen[session_id] = (time.monotonic(), interaction)

    def record_request(self, session_id: UUID, method: str, path: str, *, is_navigation: bool) -> None:
        """Record a request to an app if it is user activity: navigation or a change that is not
        polling, or the first read of a path. Automatic requests and reloads of pages do not count.
        """
        now = time.monotonic()
        activity = self._activity.get(session_id)
        if activity is None:
            if len(self._activity) >= MAX_SESSIONS:
                self._activity.clear()
            activity = self._activity[session_id] = RequestActivity(now)
        if is_navigation:
            is_activity = activity.is_user_action("navigate", path, now)
        elif method in _READING:
            is_activity = activity.is_first_read(path, now)
        else:
            is_activity = activity.is_user_action(method, path, now)
        if is_activity:
            self._seen[session_id] = (now, Interaction.APP)

    def websocket_listener(self, session_id: UUID) -> Callable[[int], None]:
        """Return a callback for a new websocket to an app; call it with the size of each client message."""
        activity = WebsocketActivity(time.monotonic())

        def on_message(size: int) -> None:
            now = time.monotonic()
            if activity.is_user_action(size, now):
                self._seen[session_id] = (now, Interaction.APP)

        return on_message

    async def start(self) -> None:
        """Start reporting, now and every REPORT_S."""
        self._is_over = asyncio.Event()  # bound to this event loop
        self._reporter = asyncio.get_running_loop().create_task(self._report_forever())

    async def stop(self) -> None:
        """Write the last report and delete this process's report row, so that no further report is
        expected.
        """
        self._is_over.set()
        with suppress(AccessUnknown, TimeoutError):
            # a total limit, because other components have to stop as well
            async with asyncio.timeout(DATABASE_PATIENCE_S):
                if self._reporter is not None:
                    # The report runs in a thread and cannot be cancelled.
                    await asyncio.wait([self._reporter])
                await self.report()
                await in_database(GatewayReport.objects.filter(process=self.name).delete)

    async def report(self) -> None:
        """Write what was recorded. Raises AccessUnknown; the records are then kept for the next report."""
        seen, self._seen = self._seen, {}
        try:
            await in_database(write_report, self.name, seen, time.monotonic())
        except AccessUnknown:
            self._seen = seen | self._seen
            raise

    async def _report_forever(self) -> None:
        while not self._is_over.is_set():
            try:
                await self.report()
            except AccessUnknown:
                log.warning("interactions.told_later", why="the database does not answer")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), REPORT_S)


def write_report(process: str, seen: dict[UUID, tuple[float, Interaction]], as_of: float) -> None:
    """Write activity and the time of this report. `seen` holds monotonic times; `as_of` is the
    present one. Two statements.
    """
    now = clock.now()
    if seen:
        ids = list(seen)
        instants = [now - timedelta(seconds=max(0.0, as_of - at)) for at, _interaction in seen.values()]
        with connection.cursor() as cursor:
            cursor.execute(WRITE, [ids, instants, [str(interaction) for _at, interaction in seen.values()]])
    GatewayReport.objects.update_or_create(process=process, defaults={"reported_at": now})


@cache
def activity_recorder() -> ActivityRecorder:
    return ActivityRecorder()
