"""Count this process's connections to sessions, re-check their access every few seconds, and cut
those whose access has ended.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from uuid import UUID

from common.messaging.access_revocation import RECHECK_S, revocations
from sessions_app.gateway.proxy.access_types import AccessUnknown, Presence

logger = logging.getLogger(__name__)

# How long connections stay open while access cannot be checked.
UNKNOWN_LIMIT_S = 30.0


class ConnectionKind(StrEnum):
    REQUEST = "request"
    WEBSOCKET = "websocket"
    TERMINAL = "terminal"


# Per session and process. One browser tab of JupyterLab has about ten requests and ten websockets
# open.
LIMITS = {ConnectionKind.REQUEST: 200, ConnectionKind.WEBSOCKET: 64, ConnectionKind.TERMINAL: 32}


class TooManyConnections(Exception):
    """The session has reached its limit of connections of this kind."""


class ConnectionCut(Exception):
    """The connection must end: signed out, no longer permitted, or the session has ended."""


StillPresent = Callable[[frozenset[Presence]], Awaitable[frozenset[Presence]]]


class OpenConnections:
    """Registry of open connections. One per process, used from one event loop. A checking task runs
    while any is open.
    """

    def __init__(self, still_present: StillPresent, *, recheck_s: float = RECHECK_S) -> None:
        self._still_present = still_present
        self._recheck_s = recheck_s
        self._cuts: dict[Presence, dict[object, Callable[[], None]]] = {}
        self._counts: Counter[tuple[UUID, ConnectionKind]] = Counter()
        self._checker: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def track(self, presence: Presence, kind: ConnectionKind) -> AsyncIterator[None]:
        """Register a connection for the duration of the body. Raises TooManyConnections at the
        start, and ConnectionCut inside the body when the presence ends.
        """
        lifetime = asyncio.timeout(None)
        close: Callable[[], None] | None = None
        try:
            async with lifetime:
                loop = asyncio.get_running_loop()
                close = self.open(presence, kind, lambda: lifetime.reschedule(loop.time()))
                yield
        except TimeoutError:
            if not lifetime.expired():
                raise
            raise ConnectionCut from None
        finally:
            if close is not None:
                close()

    def open(self, presence: Presence, kind: ConnectionKind, cut: Callable[[], None]) -> Callable[[], None]:
        """Register a connection without a task: calls `cut` when the presence ends. Returns the
        function that unregisters it. Raises TooManyConnections.
        """
        slot = (presence.session_id, kind)
        if self._counts[slot] >= LIMITS[kind]:
            raise TooManyConnections
        self._counts[slot] += 1
        unwatch = self.watch(presence, cut)

        def close() -> None:
            self._counts[slot] -= 1
            if not self._counts[slot]:
                del self._counts[slot]
            unwatch()

        return close

    def watch(self, presence: Presence, on_end: Callable[[], None]) -> Callable[[], None]:
        """Call `on_end` when the presence ends. Returns the function that unregisters it."""
        self._cuts.setdefault(presence, {})[(key := object())] = on_end
        self._ensure_checker()
        return partial(self._unwatch, presence, key)

    def cut(self, presence: Presence) -> None:
        """Cut all connections of a presence. A failing one is logged and does not keep the others open."""
        for cut in list(self._cuts.pop(presence, {}).values()):
            try:
                cut()
            except Exception:
                logger.exception("a connection to session %s could not be cut", presence.session_id)

    def count(self, session_id: UUID, kind: ConnectionKind) -> int:
        return self._counts[session_id, kind]

    def _unwatch(self, presence: Presence, key: object) -> None:
        mine = self._cuts.get(presence)
        if mine is not None:
            mine.pop(key, None)
            if not mine:
                del self._cuts[presence]

    def _ensure_checker(self) -> None:
        loop = asyncio.get_running_loop()
        if self._checker is None or self._checker.done() or self._checker.get_loop() is not loop:
            self._checker = loop.create_task(self._recheck_while_open())

    async def _recheck_while_open(self) -> None:
        loop = asyncio.get_running_loop()
        known_at = loop.time()
        with revocations.subscription() as subscriber:
            while self._cuts:
                await subscriber.wait(self._recheck_s)
                asked = frozenset(self._cuts)
                try:
                    staying = await self._still_present(asked) if asked else frozenset()
                    known_at = loop.time()
                except Exception as error:  # the check must go on: nothing else cuts connections
                    if not isinstance(error, AccessUnknown):
                        logger.exception("could not look who may stay in sessions")
                    if loop.time() - known_at < UNKNOWN_LIMIT_S:
                        continue
                    logger.warning(
                        "permissions unknown for %d s: closing all connections to sessions", UNKNOWN_LIMIT_S
                    )
                    staying = frozenset()
                for presence in asked - staying:
                    self.cut(presence)
