"""Limits on what one person has open at once, over all web processes.

Each thing that is open is a lease in Redis, renewed while it is open: what a killed process had open counts LEASE_S longer.
Redis carries no truth (ADR 25): while it does not answer, each process counts for itself; what is open then is counted
again once it answers.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from secrets import token_hex

import redis
import structlog
from django.conf import settings

from common.redis import quick_client

log = structlog.get_logger(__name__)

LEASE_S = 30
RENEWED_EVERY_S = 10.0
ASKED_AGAIN_AFTER_S = 5.0
_ANY_NUMBER = 2**31

# KEYS: the leases of one person. ARGV: a lease, how many there may be, seconds until it is over. By the clock of Redis.
_TAKE = """
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""


class TooManyOpen(Exception):
    """The person has as many open as there may be."""


class ConcurrencyLimit:
    """One kind of thing that a person may have `limit` of open at once. One object for each process, used from one event
    loop at a time."""

    def __init__(self, name: str, limit: int) -> None:
        self.limit = limit
        self._name = name
        self._held: dict[str, int] = {}
        self._renewer: asyncio.Task[None] | None = None
        self._releases: set[asyncio.Task[None]] = set()
        self._silent_until = 0.0

    @asynccontextmanager
    async def hold(self, user_id: int) -> AsyncIterator[None]:
        """Count one more open thing of this person while the block lasts. Raises TooManyOpen."""
        if sum(holder == user_id for holder in self._held.values()) >= self.limit:
            raise TooManyOpen
        lease = token_hex(16)
        self._held[lease] = user_id
        try:
            if closing := [each for each in self._releases if each.get_loop() is asyncio.get_running_loop()]:
                await asyncio.wait(closing)  # what was closed just now is not to count any more
            if not await self._take(lease, user_id, self.limit):
                raise TooManyOpen
            self._ensure_renewer()
            yield
        finally:
            del self._held[lease]
            self._release_soon(lease, user_id)

    async def _take(self, lease: str, user_id: int, limit: int) -> bool:
        """Take or renew the lease; True also while Redis does not answer."""
        if time.monotonic() < self._silent_until:
            return True
        try:
            return bool(
                await asyncio.to_thread(
                    quick_client().eval, _TAKE, 1, self._key(user_id), lease, limit, LEASE_S
                )
            )
        except redis.RedisError as error:
            self._silent_until = time.monotonic() + ASKED_AGAIN_AFTER_S
            log.warning("concurrency.redis_lost", kind=self._name, error=str(error))
            return True

    def _release_soon(self, lease: str, user_id: int) -> None:
        """Not waited for: whoever closes may be cancelled at any moment. A release that is lost expires."""
        task = asyncio.get_running_loop().create_task(self._release(lease, user_id))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def _release(self, lease: str, user_id: int) -> None:
        if time.monotonic() < self._silent_until:
            return
        try:
            await asyncio.to_thread(quick_client().zrem, self._key(user_id), lease)
        except redis.RedisError as error:
            log.warning("concurrency.redis_lost", kind=self._name, error=str(error))

    def _ensure_renewer(self) -> None:
        loop = asyncio.get_running_loop()
        if self._renewer is None or self._renewer.done() or self._renewer.get_loop() is not loop:
            self._renewer = loop.create_task(self._renew_while_held())

    async def _renew_while_held(self) -> None:
        while self._held:
            await asyncio.sleep(RENEWED_EVERY_S)
            for lease, user_id in list(self._held.items()):
                await self._take(lease, user_id, _ANY_NUMBER)
                if lease not in self._held:  # released meanwhile
                    await self._release(lease, user_id)

    def _key(self, user_id: int) -> str:
        return f"berth:{settings.BERTH_INSTALLATION}:open:{self._name}:{user_id}"
