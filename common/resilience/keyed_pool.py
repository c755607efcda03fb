"""Thread pool with one task at a time per key (agent): a hanging task blocks only its key."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from contextvars import copy_context
from typing import Generic, TypeVar

import structlog
from django.db import connection

log = structlog.get_logger(__name__)
Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class KeyedPool(Generic[Result]):
    """Keyed pool with at most `count` threads. A task that exceeds the timeout continues in its
    thread, and its key is skipped by later rounds until it ends.
    """

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._under_way: dict[Hashable, Future[Result]] = {}

    @property
    def is_idle(self) -> bool:
        return all(lane.done() for lane in self._under_way.values())

    def is_busy(self, key: Hashable) -> bool:
        """Return True if a task of an earlier round still runs, so that the next round would skip the key."""
        return key in self._under_way and not self._under_way[key].done()

    def run(self, work: Mapping[Key, Callable[[], Result]], *, timeout_s: float) -> dict[Key, Result]:
        """Run one round and return the results available within `timeout_s`, by key. Tasks that
        raise are logged, those that ended since the last round too, and omitted.
        """
        return dict(self.results(work, timeout_s=timeout_s))

    def results(
        self, work: Mapping[Key, Callable[[], Result]], *, timeout_s: float
    ) -> Iterator[tuple[Key, Result]]:
        """Run one round like `run`, and yield each key with its result as soon as it is there."""
        for earlier, lane in self._under_way.items():
            if lane.done():
                self._went_well(earlier, lane)
        begun = {
            key: self._pool.submit(copy_context().run, _run, each)
            for key, each in work.items()
            if not self.is_busy(key)
        }
        self._under_way = {key: lane for key, lane in self._under_way.items() if not lane.done()} | begun
        key_by_lane = {lane: key for key, lane in begun.items()}
        with suppress(TimeoutError):
            for lane in as_completed(key_by_lane, timeout=timeout_s):
                key = key_by_lane[lane]
                del self._under_way[key]
                if self._went_well(key, lane):
                    yield key, lane.result()

    def _went_well(self, key: Hashable, lane: Future[Result]) -> bool:
        error = lane.exception()
        if error is not None:
            log.error("lane.failed", lanes=self.name, key=key, exc_info=error)
        return error is None


def _run(work: Callable[[], Result]) -> Result:
    try:
        return work()
    finally:
        connection.close()  # else each thread keeps one of the process's connections for good
