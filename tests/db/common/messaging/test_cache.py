"""Clearing the cache leaves other keys of the same Redis alone: Celery, simulated engines, installations."""

import pytest
from django.conf import settings
from django.core.cache import cache

from common.messaging.cache import FallbackRedisCache
from common.messaging.redis import client

pytestmark = pytest.mark.usefixtures("empty_redis")


def test_clearing_forgets_what_the_cache_holds_and_nothing_else() -> None:
    prefix = settings.CACHES["default"]["KEY_PREFIX"]
    of_others = FallbackRedisCache(settings.REDIS_URL, {"KEY_PREFIX": f"{prefix}-other"})
    of_others.set("key", "theirs")
    ours = [f"{prefix}:launch", f"berth:simulated:{settings.BERTH_INSTALLATION}:one:containers"]
    for name in ours:
        client().set(name, 1)
    cache.set_many({"key": 1, "another": 2}, timeout=None)

    cache.clear()

    assert cache.get_many(["key", "another"]) == {}
    assert of_others.get("key") == "theirs"
    assert client().exists(*ours) == len(ours)
