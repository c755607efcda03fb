"""Rounds of tasks by key, of which some hang or fail."""

from threading import Event
from unittest.mock import Mock

import pytest

from common.resilience import keyed_pool
from common.resilience.keyed_pool import KeyedPool
from tests.waiting import wait_until


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The database connection of the thread."""
    double = Mock()
    monkeypatch.setattr(keyed_pool, "connection", double)
    return double


def fail() -> str:
    raise KeyError("no such field")


def test_tasks_that_hang_or_fail_delay_no_other(connection: Mock) -> None:
    pool, goes_on = KeyedPool[str]("test", 4), Event()
    work = {1: lambda: str(goes_on.wait(30)), 2: fail, 3: lambda: "well"}
    try:
        results = pool.results(work, timeout_s=1)
        assert next(results) == (3, "well")
        assert list(results) == []
        assert pool.run({1: lambda: "again", 3: lambda: "again"}, timeout_s=1) == {3: "again"}
        assert [pool.is_busy(key) for key in (1, 2, 3)] == [True, False, False]
    finally:
        goes_on.set()
        wait_until(lambda: connection.close.call_count == 4)


def test_threads_keep_no_connection_to_the_database(connection: Mock) -> None:
    KeyedPool[str]("test", 2).run({1: fail, 2: lambda: "well"}, timeout_s=10)
    assert connection.close.call_count == 2
