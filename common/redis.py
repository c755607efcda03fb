"""One Redis connection pool per process, for threads and for the event loop."""

from functools import cache

import redis
import redis.asyncio
from django.conf import settings


@cache
def client() -> redis.Redis:
    """For threads. Short time limits: Redis carries news and work, never the truth."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2)


def async_client() -> redis.asyncio.Redis:
    """For the event loop; the caller closes it. No read limit: it blocks for news."""
    return redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=None)
