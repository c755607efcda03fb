"""Distributes live updates to open event streams: one reader of the Redis stream per process.

The queue of a subscription is bounded. A client that reads too slowly is disconnected; it
reconnects with the id of its last update and gets the rest from the Redis stream.
"""

import asyncio
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis
import redis.asyncio
import structlog
from channels.db import database_sync_to_async

from accounts.logins.service import Login, valid_logins
from accounts.selectors import live_update_listeners
from common.messaging.access_revocation import RECHECK_S, revocations
from common.messaging.live_updates import Audience, Listener, stream_name
from common.messaging.redis import async_client

log = structlog.get_logger(__name__)

QUEUE_LIMIT = 200
REPLAY_CHUNK = 200
READ_BLOCK_S = 10.0
RETRY_S = 1.0
START_DEADLINE_S = 5.0
ID_SHAPE = re.compile(r"\d{1,15}-\d{1,15}")


@dataclass(frozen=True, slots=True)
class LiveUpdate:
    """Stream entry: payloads with their audiences. Ids ("<milliseconds>-<number>") increase."""

    update_id: str
    kind: str
    payloads: Sequence[tuple[Audience, dict[str, Any]]]

    def payloads_for(self, listener: Listener) -> Iterator[dict[str, Any]]:
        """Return the payloads that `listener` may receive."""
        return (payload for audience, payload in self.payloads if listener.receives(audience))

    @property
    def order(self) -> tuple[int, int]:
        return sort_key(self.update_id)


@dataclass(eq=False, slots=True)
class Subscription:
    """One open event stream. None in the queue ends it: its login ended, or it reads too slowly."""

    login: Login
    listener: Listener
    queue: asyncio.Queue[LiveUpdate | None] = field(default_factory=lambda: asyncio.Queue(QUEUE_LIMIT))
    is_closed: bool = False

    def offer(self, update: LiveUpdate) -> None:
        if self.is_closed or next(update.payloads_for(self.listener), None) is None:
            return
        try:
            self.queue.put_nowait(update)
        except asyncio.QueueFull:
            self.close()

    def close(self) -> None:
        """Drop queued updates and end the stream at its next step."""
        self.is_closed = True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class UpdateDispatcher:
    """Dispatcher of one process and event loop; reads Redis while there are subscriptions."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._newest_id = ""
        self._is_following = asyncio.Event()

    async def subscribe(self, login: Login, listener: Listener) -> Subscription:
        """Return a subscription to updates from now on. Raises TimeoutError without Redis."""
        subscription = Subscription(login, listener)
        self._subscriptions.add(subscription)
        self._start()
        try:
            async with asyncio.timeout(START_DEADLINE_S):
                await self._is_following.wait()
        except BaseException:
            self.unsubscribe(subscription)
            raise
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        if not self._subscriptions and self._task is not None:
            self._task.cancel()
            self._task = None

    def _start(self) -> None:
        if self._task is None:
            self._newest_id, self._is_following = "", asyncio.Event()
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End all streams if the reader failed: their pages reconnect and start a new one."""
        if task.cancelled():
            return
        log.error("news.reader_failed", exc_info=task.exception())
        self._task = None
        for subscription in list(self._subscriptions):
            subscription.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read())
            tasks.create_task(self._recheck())

    async def _read(self) -> None:
        """Follow the stream forever; after a loss of Redis, continue from the last update."""
        while True:
            try:
                async with async_client() as connection:
                    self._newest_id = self._newest_id or await newest_id(connection)
                    self._is_following.set()
                    while True:
                        await self._read_once(connection)
            except (redis.RedisError, TimeoutError) as error:
                log.warning("news.redis_lost", error=str(error))
                await asyncio.sleep(RETRY_S)

    async def _read_once(self, connection: redis.asyncio.Redis) -> None:
        async with asyncio.timeout(READ_BLOCK_S * 2):
            entries = await read_after(connection, self._newest_id, block_s=READ_BLOCK_S)
        for update in entries:
            self._newest_id = update.update_id
            for subscription in list(self._subscriptions):
                subscription.offer(update)

    async def _recheck(self) -> None:
        """End streams whose login has ended and update the permissions of the others, every
        RECHECK_S and on a revocation.
        """
        with revocations.subscription() as subscriber:
            while True:
                await subscriber.wait(RECHECK_S)
                subscriptions = list(self._subscriptions)
                listeners = await database_sync_to_async(listeners_by_login, thread_sensitive=False)(
                    {item.login for item in subscriptions}
                )
                for subscription in subscriptions:
                    listener = listeners.get(subscription.login)
                    if listener is None:
                        subscription.close()
                    else:
                        subscription.listener = listener


dispatcher = UpdateDispatcher()


def listeners_by_login(logins: Collection[Login]) -> dict[Login, Listener]:
    """Return the permissions of each login; ended ones are absent. Four queries."""
    live = valid_logins(logins)
    listeners = live_update_listeners({user.pk: user for user in live.values()}.values())
    return {login: listeners[user.pk] for login, user in live.items()}


async def newest_id(connection: redis.asyncio.Redis) -> str:
    entries: Any = await connection.xrevrange(stream_name(), count=1)
    return entries[0][0].decode() if entries else "0-0"


async def is_trimmed(connection: redis.asyncio.Redis, update_id: str) -> bool:
    """Return True if updates after this id may have been dropped from the bounded stream."""
    oldest: Any = await connection.xrange(stream_name(), count=1)
    return not oldest or sort_key(oldest[0][0].decode()) > sort_key(update_id)


async def read_after(
    connection: redis.asyncio.Redis, update_id: str, *, block_s: float = 0
) -> list[LiveUpdate]:
    """Return the next updates after this id, oldest first; waits up to `block_s` for one."""
    if block_s:
        await connection.xread({stream_name(): update_id}, count=1, block=int(block_s * 1000))
    entries: Any = await connection.xrange(stream_name(), min=f"({update_id}", count=REPLAY_CHUNK)
    return [parse_update(raw_id, fields) for raw_id, fields in entries]


def parse_update(raw_id: bytes, fields: dict[bytes, bytes]) -> LiveUpdate:
    if b"many" in fields:
        payloads = [(Audience(*scopes), payload) for *scopes, payload in json.loads(fields[b"many"])]
    else:
        payloads = [(Audience(**json.loads(fields[b"audience"])), json.loads(fields[b"payload"]))]
    return LiveUpdate(update_id=raw_id.decode(), kind=fields[b"kind"].decode(), payloads=payloads)


def sort_key(update_id: str) -> tuple[int, int]:
    """Return an id as numbers that can be compared."""
    milliseconds, _, number = update_id.partition("-")
    return int(milliseconds), int(number)


def valid_id(text: str) -> str:
    """Return `text` if it has the form of an id, else "", as it comes from a request header."""
    return text if ID_SHAPE.fullmatch(text) else ""
