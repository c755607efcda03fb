"""Requests succeed without Redis: cached values are computed again."""

from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.models import User
from common.messaging import dispatch, live_updates
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.messaging.live_updates import Audience, push_now
from common.resilience.circuit_breaker import Outage
from tests.conftest import People

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def lost_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise Outage("timed out")

    for module in ("common.messaging.cache", "common.messaging.live_updates", "common.messaging.dispatch"):
        monkeypatch.setattr(f"{module}.check_redis", refuse)


@pytest.mark.usefixtures("lost_redis")
def test_a_cache_without_redis_is_empty_and_keeps_nothing() -> None:
    cache.set("key", 1)
    assert cache.get("key", "nothing") == "nothing"
    assert cache.add("key", 1)
    assert cache.add("key", 1)
    assert not cache.has_key("key")
    assert cache.get_many(["key"]) == {}
    assert cache.incr("key", 2) == 2
    assert not cache.delete("key")
    assert not cache.touch("key")
    assert cache.set_many({"key": 1}) == ["key"]
    cache.delete_many(["key"])
    cache.clear()


@pytest.mark.usefixtures("lost_redis")
def test_news_and_work_are_lost_without_waiting_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("nobody may be asked")

    monkeypatch.setattr(live_updates, "client", fail)
    monkeypatch.setattr(dispatch.current_app, "send_task", fail)
    push_now("session-changed", audience=Audience(), payload={})
    enqueue_on_commit(TaskName.TICK)


@pytest.mark.usefixtures("lost_redis")
def test_pages_show_without_redis(people: People, browser_of: Callable[[User], Client]) -> None:
    browser = browser_of(people.member)
    for page in ("/", "/sessions/", "/data/", "/profile/"):
        assert browser.get(page).status_code == 200, page
