"""Broadcast to all processes that someone may have lost access.

The message is empty: each holder of an open connection checks its access again. A lost message
costs seconds, as access is also checked every `RECHECK_S`.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import redis
import structlog
from django.conf import settings
from django.db import transaction

from common.messaging.redis import async_client, client

log = structlog.get_logger(__name__)

# Access ends at most 5 s after its revocation: this interval, and a second for the check.
RECHECK_S = 4.0
# Messages within this time are treated as one.
GATHER_S = 0.1
RETRY_S = 1.0


def channel() -> str:
    return f"berth:revoked:{settings.BERTH_INSTALLATION}"


def broadcast_revocation_on_commit() -> None:
    """Make all processes check access again once the current transaction commits."""
    transaction.on_commit(_broadcast, robust=True)


def _broadcast() -> None:
    try:
        client().publish(channel(), b"")
    except redis.RedisError as error:
        log.warning("revocations.word_lost", error=str(error))


class Subscriber:
    """Subscriber of the broadcast; messages between two waits are not lost."""

    def __init__(self) -> None:
        self._notified = asyncio.Event()

    def notify(self) -> None:
        self._notified.set()

    async def wait(self, at_most_s: float) -> None:
        """Return on the next message, or after this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._notified.wait()
                await asyncio.sleep(min(GATHER_S, at_most_s))
        self._notified.clear()


class RevocationDispatcher:
    """Dispatcher of one process. Follows Redis while it has subscribers; all in one event loop."""

    def __init__(self) -> None:
        self._listeners: set[Subscriber] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def subscription(self) -> Iterator[Subscriber]:
        subscriber = Subscriber()
        self._listeners.add(subscriber)
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._follow())
        try:
            yield subscriber
        finally:
            self._listeners.discard(subscriber)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _follow(self) -> None:
        while True:
            try:
                async with async_client() as connection, connection.pubsub() as messages:
                    await messages.subscribe(channel())
                    async for _ in messages.listen():
                        for subscriber in list(self._listeners):
                            subscriber.notify()
            except (redis.RedisError, OSError) as error:
                log.info("revocations.redis_lost", error=str(error))
                await asyncio.sleep(RETRY_S)


revocations = RevocationDispatcher()
