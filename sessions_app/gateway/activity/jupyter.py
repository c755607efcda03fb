"""Record running notebook cells as user activity, by polling Jupyter's REST API.

A cell may wait hours for a remote computation without using the CPU. Once a minute one web process
polls the Jupyter servers of sessions that are close to their interaction timeout. The answers can
keep a session alive, never end it.
"""

import asyncio
import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import Any
from uuid import UUID

import structlog
from django.core.cache import cache as shared
from django.db.models import DurationField, ExpressionWrapper, F, Prefetch, Q, Value

from common import clock
from sessions_app.core.idle_rules import NEAR, Cause, expected_ends
from sessions_app.core.states import Status
from sessions_app.gateway.activity.recorder import ActivityRecorder, activity_recorder
from sessions_app.gateway.auth.authorizer import in_database, target_of
from sessions_app.gateway.proxy.access_types import AccessUnknown
from sessions_app.idle.facts import idle_facts, idle_row
from sessions_app.models import ComputeSession, Interaction, Kernel, SessionType
from transport.proxy import Target, Timeouts, Transport, UpstreamError
from transport.proxy.connection import Connection

log = structlog.get_logger(__name__)

POLL_S = 60
POLL_BEFORE = timedelta(seconds=2 * POLL_S)
"""Polling starts this long before the idle warning, so that users with running cells get none."""

PATIENCE_S = 5.0
MAX_PARALLEL = 16
MAX_BYTES = 256 * 1024
MAX_SERVERS = 2
"""Limit per session: an image may declare many servers, and all of them may hang."""

_ASKED_KEY = "notebooks-asked"
_PROGRAM = "jupyter"


@dataclass(frozen=True, slots=True)
class NotebookServer:
    """Jupyter server of one session, with the token that grants the gateway access."""

    session_id: UUID
    target: Target
    token: str


class NotebookPoller:
    """Poller of Jupyter servers. One per web process, used from one event loop."""

    def __init__(self, recorder: ActivityRecorder | None = None) -> None:
        self._recorder = recorder or activity_recorder()
        self._transport = Transport(Timeouts(connect_s=PATIENCE_S, response_head_s=PATIENCE_S))
        self._poller: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._poller = asyncio.get_running_loop().create_task(self._poll_forever())

    async def stop(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
        await self._transport.close()

    async def poll(self) -> None:
        """Poll all due servers if it is this process's turn. Raises AccessUnknown."""
        servers = await in_database(servers_to_poll)
        places = asyncio.Semaphore(MAX_PARALLEL)

        async def poll_one(server: NotebookServer) -> None:
            async with places:
                if await is_computing(self._transport, server):
                    self._recorder.record(server.session_id, Interaction.NOTEBOOK)

        random.shuffle(servers)  # if the minute is too short, the servers that are missed should vary
        try:
            async with asyncio.timeout(POLL_S):  # later the address may belong to another container
                outcomes = await asyncio.gather(*map(poll_one, servers), return_exceptions=True)
        except TimeoutError:
            log.warning("notebooks.minute_over", servers=len(servers))
            return
        # faults of single servers; the others were polled, and all are polled again
        for fault in filter(None, outcomes):
            log.error("notebooks.not_asked", error=repr(fault))

    async def _poll_forever(self) -> None:
        while True:
            began_at = time.monotonic()
            try:
                await self.poll()
            except AccessUnknown:
                log.warning("notebooks.asked_later", why="the database does not answer")
            await asyncio.sleep(max(0.0, POLL_S - (time.monotonic() - began_at)))


def servers_to_poll() -> list[NotebookServer]:
    """Return the servers of running sessions close to their interaction timeout; [] if another
    process polled less than a minute ago. Two queries.
    """
    if not shared.add(_ASKED_KEY, 1, timeout=POLL_S - 5):
        return []
    now = clock.now()
    limit = F("idle__max_idle_s") * Value(timedelta(seconds=1), output_field=DurationField())
    ends_in_time = Q(
        idle__interacted_at__lte=now + NEAR + POLL_BEFORE - ExpressionWrapper(limit, DurationField())
    )
    sessions = ComputeSession.objects.filter(
        Q(idle__interacted_at=None) | ends_in_time,
        status=Status.RUNNING,
        type=SessionType.INTERACTIVE,
        idle__max_idle_s__isnull=False,
    )
    joined = sessions.select_related("resource_group", "idle", "image")
    found = joined.prefetch_related(Prefetch("kernels", Kernel.objects.select_related("agent__relay")))
    return list(_servers_of(found, now))


def _servers_of(sessions: Iterable[ComputeSession], now: datetime) -> Iterable[NotebookServer]:
    for session in sessions:
        ends = expected_ends(idle_facts(session, idle_row(session)))
        if not any(end.cause is Cause.INTERACTION and end.at - now <= NEAR + POLL_BEFORE for end in ends):
            continue
        kernel = next(kernel for kernel in session.kernels.all() if kernel.name == "main1")
        for app in islice(filter(_is_notebook_server, session.image.apps), MAX_SERVERS):
            target = target_of(kernel, app["port"])
            if target is not None:
                yield NotebookServer(session.pk, target, session.app_token)


def _is_notebook_server(app: dict[str, Any]) -> bool:
    """Return True if the app is Jupyter started with the session's token; others would refuse access."""
    command = app.get("command") or [""]
    is_jupyter = str(command[0]).rpartition("/")[2].startswith(_PROGRAM)
    return is_jupyter and any("{token}" in word for word in command)


async def is_computing(transport: Transport, server: NotebookServer) -> bool:
    """Return True if one of the server's notebook kernels is busy; False on any failure."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            connection = await transport.pool.connect(server.target, is_new=True)
            try:
                return has_busy_kernel(await _read_kernels(connection, server))
            finally:
                connection.abort()
    except (UpstreamError, TimeoutError):
        return False


async def _read_kernels(connection: Connection, server: NotebookServer) -> bytes:
    head = (
        f"GET /api/kernels HTTP/1.1\r\nHost: localhost:{server.target.port}\r\nAuthorization: token {server.token}\r\n"
        "Accept: application/json\r\nConnection: close\r\n\r\n"
    )
    connection.start("GET", head.encode())
    if (await connection.response()).status != 200:
        return b""
    body = b""
    while len(body) <= MAX_BYTES and (chunk := await connection.next_chunk()):
        body += chunk
    return body


def has_busy_kernel(body: bytes) -> bool:
    """Parse Jupyter's list of kernels and return True if one is busy; False for invalid input."""
    try:
        kernels = json.loads(body)
    except (ValueError, RecursionError):  # RecursionError for deeply nested JSON
        return False
    if not isinstance(kernels, list):
        return False
    return any(isinstance(kernel, dict) and kernel.get("execution_state") == "busy" for kernel in kernels)


@cache
def notebook_poller() -> NotebookPoller:
    return NotebookPoller()
