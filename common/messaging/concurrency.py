"""Limits on what one user has open at once, across all web processes.

Each open item is a lease in Redis, renewed while it is open; a killed process's leases expire after
LEASE_S. Redis is never authoritative (ADR 25): while it does not answer, each process counts on its
own, and open items are counted again once it answers.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any

import redis
import redis.asyncio
import structlog
from django.conf import settings

from common.messaging.redis import PING_S, quick_async_client

log = structlog.get_logger(__name__)

LEASE_S = 30
RENEWED_EVERY_S = 10.0
ASKED_AGAIN_AFTER_S = 5.0
_ANY_NUMBER = 2**31

# KEYS: leases of one user. ARGV: lease, limit, lifetime in seconds. By the clock of Redis.
_TAKE = """
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""


class TooManyOpen(Exception):
    """The user has reached the limit."""


class ConcurrencyLimit:
    """Limit on open items of one kind per user. One object per process and event loop."""

    def __init__(self, name: str, limit: int) -> None:
        self.limit = limit
        self._name = name
        self._held: dict[str, int] = {}
        self._renewer: asyncio.Task[None] | None = None
        self._releases: dict[asyncio.Task[None], int] = {}
        self._silent_until = 0.0

    @asynccontextmanager
    async def hold(self, user_id: int) -> AsyncIterator[None]:
        """Count one open item of this user while the block runs. Raises TooManyOpen."""
        if sum(holder == user_id for holder in self._held.values()) >= self.limit:
            raise TooManyOpen
        lease = token_hex(16)
        self._held[lease] = user_id
        try:
            await self._released(user_id)
            if not await self._take(lease, user_id, self.limit):
                raise TooManyOpen
            self._ensure_renewer()
            yield
        finally:
            del self._held[lease]
            self._release_soon(lease, user_id)

    async def _take(self, lease: str, user_id: int, limit: int) -> bool:
        """Take or renew the lease; True also while Redis does not answer."""
        taken = await self._ask(
            lambda client: client.eval(_TAKE, 1, self._key(user_id), lease, limit, LEASE_S)
        )
        return taken != 0

    def _release_soon(self, lease: str, user_id: int) -> None:
        """Release in the background, as the caller may be cancelled. A lost release expires."""
        task = asyncio.get_running_loop().create_task(self._release(lease, user_id))
        self._releases[task] = user_id
        task.add_done_callback(lambda task: self._releases.pop(task, None))

    async def _release(self, lease: str, user_id: int) -> None:
        await self._ask(lambda client: client.zrem(self._key(user_id), lease))

    async def _released(self, user_id: int) -> None:
        """Wait until this user's pending releases are done, or Redis does not answer."""
        loop = asyncio.get_running_loop()
        closing = [
            task for task, owner in self._releases.items() if owner == user_id and task.get_loop() is loop
        ]
        if closing:
            await asyncio.wait(closing, timeout=PING_S)

    async def _ask(self, question: Callable[[redis.asyncio.Redis], Awaitable[Any]]) -> int | None:
        """Return the answer of Redis, or None if there is none; then pause ASKED_AGAIN_AFTER_S."""
        if time.monotonic() < self._silent_until:
            return None
        try:
            return int(await question(quick_async_client()))
        except redis.RedisError as error:
            self._silent_until = time.monotonic() + ASKED_AGAIN_AFTER_S
            log.warning("concurrency.redis_lost", kind=self._name, error=str(error))
            return None

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
