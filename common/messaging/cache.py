"""Django's cache on a Redis that may be away: what is not known is asked anew, and no page fails for it."""

from collections.abc import Callable
from typing import Any

import redis
import structlog
from django.conf import settings
from django.core.cache.backends.redis import RedisCache

from common.messaging.redis import client, demand_redis
from common.resilience.circuit_breaker import Outage

log = structlog.get_logger(__name__)


def _calm(name: str, answer: Callable[..., Any]) -> Any:
    """The method of the backend; `answer` gives the value while Redis is away, from the same arguments."""
    ask = getattr(RedisCache, name)

    def method(self: RedisCache, *args: Any, **kwargs: Any) -> Any:
        try:
            demand_redis()
            return ask(self, *args, **kwargs)
        except (redis.RedisError, Outage) as error:
            log.warning("cache.lost", method=name, error=str(error))
            return answer(*args, **kwargs)

    return method


class CalmRedisCache(RedisCache):
    """While Redis is away it is an empty cache that keeps nothing: `add` succeeds, as it does for whoever is first.

    So nothing that must hold may rest on it alone: a limit that is counted here is not kept in such a time.
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
        """Forget what this cache holds and nothing else. Django would empty the whole database of Redis:
        messages to workers, what simulated engines have, and all that other installations keep there."""
        _forget(self.make_key("*"), "clear")


def forget_what_was_asked() -> None:
    """Forget who asked for what (keys with `-asked`): Redis counts seconds by the time of day, and would remember it for
    hours when that is set back."""
    _forget(f"{settings.CACHES['default']['KEY_PREFIX']}:*-asked*", "forget_what_was_asked")


def _forget(pattern: str, method: str) -> None:
    """Delete all keys like this, where Redis answers."""
    try:
        demand_redis()
        for key in client().scan_iter(match=pattern, count=1000):
            client().delete(key)
    except (redis.RedisError, Outage) as error:
        log.warning("cache.lost", method=method, error=str(error))
