"""Stream of server-sent events: replays updates since the last id, then sends new ones."""

import asyncio
import json
from collections import deque

import redis
import structlog

from accounts.logins.service import Login
from common.messaging.live_updates import Listener
from common.messaging.redis import async_client
from portal.api.live_updates import (
    LiveUpdate,
    Subscription,
    dispatcher,
    is_trimmed,
    newest_id,
    read_after,
    sort_key,
)

log = structlog.get_logger(__name__)

RETRY_MS = 2000
HEARTBEAT_S = 15.0
MISSED = "news-missed"


class EventStream:
    """Body of a streaming response. Ends when the login ends, the client reads too slowly, or Redis
    is lost.

    An iterator with `close`, not a generator: Django closes it as soon as the client disconnects,
    while a generator inside Django's own would live until garbage collection.
    """

    def __init__(self, login: Login, listener: Listener, last_id: str) -> None:
        self._login = login
        self._listener = listener
        self._position = last_id
        self._is_replaying = bool(last_id)
        self._frames: deque[str] = deque([f"retry: {RETRY_MS}\n\n"])
        self._subscription: Subscription | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __aiter__(self) -> "EventStream":
        return self

    async def __anext__(self) -> str:
        try:
            while not self._frames:
                await self._advance()
        except (redis.RedisError, TimeoutError) as error:
            log.warning("events.stream_ended", error=str(error))
            raise StopAsyncIteration from error
        return self._frames.popleft()

    def close(self) -> None:
        """Unsubscribe. Thread-safe: Django calls it outside the event loop's thread."""
        if self._loop is not None and self._subscription is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(dispatcher.unsubscribe, self._subscription)

    async def _advance(self) -> None:
        if self._subscription is None:
            await self._begin()
        elif self._is_replaying:
            await self._replay(self._subscription)
        else:
            await self._listen(self._subscription)

    async def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._subscription = await dispatcher.subscribe(self._login, self._listener)
        async with async_client() as connection:
            if self._is_replaying and await is_trimmed(connection, self._position):
                self._frames.append(self._frame(MISSED))
            self._position = self._position or await newest_id(connection)
        # An id without data sets the browser's last event id without an event.
        self._frames.appendleft(f"id: {self._position}\n\n")

    async def _replay(self, subscription: Subscription) -> None:
        async with async_client() as connection:
            kept = await read_after(connection, self._position)
        self._is_replaying = bool(kept)
        for update in kept:
            self._hand_on(update, subscription.listener)

    async def _listen(self, subscription: Subscription) -> None:
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                update = await subscription.queue.get()
        except TimeoutError:
            self._frames.append(": still here\n\n")
            return
        if update is None:
            raise StopAsyncIteration
        # Skip updates that were replayed already.
        if update.order > sort_key(self._position):
            self._hand_on(update, subscription.listener)

    def _hand_on(self, update: LiveUpdate, listener: Listener) -> None:
        """Queue the frames of an update. Only the last one carries the id, so that a client cut off
        before gets all of them again.
        """
        self._position = update.update_id
        frames = [self._frame(update.kind, **payload) for payload in update.payloads_for(listener)]
        if frames:
            self._frames.append("".join([*frames[:-1], f"id: {update.update_id}\n{frames[-1]}"]))

    def _frame(self, kind: str, **payload: object) -> str:
        return f"data: {json.dumps({**payload, 'kind': kind})}\n\n"
