"""One Redis connection pool per process, for threads and for the event loop, and whether it answers."""

import asyncio
from functools import cache
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings

from common.resilience.circuit_breaker import Circuit

PING_S = 1.0


@cache
def client() -> redis.Redis:
    """For threads. Short time limits: Redis carries news and work, never the truth."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2)


def async_client() -> redis.asyncio.Redis:
    """For the event loop; the caller closes it. No read limit: it blocks for news."""
    return redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=None)


def demand_redis() -> None:
    """It answered just now, or does so within a second. For whoever can do without: a Redis that hangs would hold up
    each of them for its whole time limit. Raises Outage."""
    _circuit().demand_answer()


@cache
def quick_client() -> redis.Redis:
    """For threads that would rather do without an answer than wait for it."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=PING_S, socket_connect_timeout=PING_S)


_quick_async: WeakKeyDictionary[asyncio.AbstractEventLoop, redis.asyncio.Redis] = WeakKeyDictionary()


def quick_async_client() -> redis.asyncio.Redis:
    """Return a client with the same limits for the running event loop, which keeps it."""
    loop = asyncio.get_running_loop()
    if loop not in _quick_async:
        _quick_async[loop] = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=PING_S, socket_connect_timeout=PING_S
        )
    return _quick_async[loop]


@cache
def _circuit() -> Circuit:
    return Circuit(quick_client().ping, (redis.RedisError,))
