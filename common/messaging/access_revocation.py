"""Word, sent to every process at once, that somebody may have lost access.

It carries nothing: who holds something open looks again. A lost word costs seconds, as everybody looks again by
themselves too (`RECHECK_S`).
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

# What was lost is gone 5 s later at the latest: this long until somebody looks, and a second for looking.
RECHECK_S = 4.0
# Words that follow each other closely are one.
GATHER_S = 0.1
RETRY_S = 1.0


def channel() -> str:
    return f"berth:revoked:{settings.BERTH_INSTALLATION}"


def ring_on_commit() -> None:
    """Let everybody look again once the present transaction is committed."""
    transaction.on_commit(_ring, robust=True)


def _ring() -> None:
    try:
        client().publish(channel(), b"")
    except redis.RedisError as error:
        log.warning("revocations.word_lost", error=str(error))


class Ears:
    """One listener's: rings are not lost between two waits."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def hear(self) -> None:
        self._rung.set()

    async def wait(self, at_most_s: float) -> None:
        """Until a word comes, or for this long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._rung.wait()
                await asyncio.sleep(min(GATHER_S, at_most_s))
        self._rung.clear()


class Bell:
    """Of one process. Follows Redis while somebody listens; all from one event loop."""

    def __init__(self) -> None:
        self._listeners: set[Ears] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[Ears]:
        ears = Ears()
        self._listeners.add(ears)
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._follow())
        try:
            yield ears
        finally:
            self._listeners.discard(ears)
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _follow(self) -> None:
        while True:
            try:
                async with async_client() as connection, connection.pubsub() as news:
                    await news.subscribe(channel())
                    async for _ in news.listen():
                        for ears in list(self._listeners):
                            ears.hear()
            except (redis.RedisError, OSError) as error:
                log.info("revocations.redis_lost", error=str(error))
                await asyncio.sleep(RETRY_S)


bell = Bell()
