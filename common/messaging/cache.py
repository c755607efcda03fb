"""Django cache on Redis that works as an empty cache while Redis is unavailable."""

from collections.abc import Callable
from typing import Any

import redis
import structlog
from django.conf import settings
from django.core.cache.backends.redis import RedisCache

from common.messaging.redis import check_redis, client
from common.resilience.circuit_breaker import Outage

log = structlog.get_logger(__name__)


def _calm(name: str, answer: Callable[..., Any]) -> Any:
    """Return a backend method that returns `answer(*args)` while Redis is unavailable."""
    ask = getattr(RedisCache, name)

    def method(self: RedisCache, *args: Any, **kwargs: Any) -> Any:
        try:
            check_redis()
            return ask(self, *args, **kwargs)
        except (redis.RedisError, Outage) as error:
            log.warning("cache.lost", method=name, error=str(error))
            return answer(*args, **kwargs)

    return method


class FallbackRedisCache(RedisCache):
    """Redis cache that behaves like an empty one while Redis is unavailable: `add` succeeds.

    A limit that must hold cannot rely on it alone.
    """

    get = _calm("get", lambda key, default=None, version=None: default)
    get_many = _calm("get_many", lambda keys, version=None: {})
    has_key = _calm("has_key", lambda key, version=None: False)
    add = _calm("add", lambda *_, **__: True)
    set = _calm("set", lambda *_, **__: None)
    set_many = _calm("set_many", lambda data, **__: list(data))
    touch = _calm("touch", lambda *_, **__: False)
    incr = _calm("incr", lambda key, delta=1, version=None: delta)
    delete = _calm("delete", lambda *_, **__: False)
    delete_many = _calm("delete_many", lambda *_, **__: None)

    def clear(self) -> None:
        """Delete only this cache's keys. Django would flush the whole Redis database: messages to
        workers, simulated engines, and data of other installations.
        """
        _forget(self.make_key("*"), "clear")


def delete_deduplication_keys() -> None:
    """Delete the deduplication keys of requests (`-asked`): Redis expires keys by the wall clock,
    so that they would last for hours if it is set back.
    """
    _forget(f"{settings.CACHES['default']['KEY_PREFIX']}:*-asked*", "delete_deduplication_keys")


def _forget(pattern: str, method: str) -> None:
    """Delete all keys that match the pattern, if Redis answers."""
    try:
        check_redis()
        for key in client().scan_iter(match=pattern, count=1000):
            client().delete(key)
    except (redis.RedisError, Outage) as error:
        log.warning("cache.lost", method=method, error=str(error))
