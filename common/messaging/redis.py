"""Redis clients of a process, for threads and the event loop, with a circuit breaker."""

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
    """Return the client for threads. Timeouts are short, as Redis is never authoritative."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2)


def async_client() -> redis.asyncio.Redis:
    """Return a client for the event loop, without read timeout; the caller closes it."""
    return redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=None)


def check_redis() -> None:
    """Return if Redis answers now or did recently (circuit breaker); for callers that can do
    without it, as a hanging Redis would delay each by its full timeout. Raises Outage.
    """
    _circuit().check_answer()


@cache
def quick_client() -> redis.Redis:
    """Return a client for threads with a timeout of PING_S."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=PING_S, socket_connect_timeout=PING_S)


_quick_async: WeakKeyDictionary[asyncio.AbstractEventLoop, redis.asyncio.Redis] = WeakKeyDictionary()


def quick_async_client() -> redis.asyncio.Redis:
    """Return the running event loop's client with a timeout of PING_S."""
    loop = asyncio.get_running_loop()
    if loop not in _quick_async:
        _quick_async[loop] = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=PING_S, socket_connect_timeout=PING_S
        )
    return _quick_async[loop]


@cache
def _circuit() -> Circuit:
    return Circuit(quick_client().ping, (redis.RedisError,))
