"""Thread pool with one task at a time per key (agent): a hanging task blocks only its key."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)
Result = TypeVar("Result")


class KeyedPool(Generic[Result]):
    """Keyed pool with at most `count` threads. A task that exceeds the timeout continues in its
    thread, and its key is skipped by later rounds until it ends.
    """

    def __init__(self, name: str, count: int) -> None:
        self._name = name
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._under_way: dict[int, Future[Result]] = {}

    @property
    def is_idle(self) -> bool:
        return all(lane.done() for lane in self._under_way.values())

    def run(self, work: Mapping[int, Callable[[], Result]], *, timeout_s: float) -> dict[int, Result]:
        """Run one round and return the results available within `timeout_s`, by key. Tasks that
        raise are logged, those that ended since the last round too, and omitted.
        """
        for key, lane in self._under_way.items():
            if lane.done():
                self._went_well(key, lane)
        begun = {
            key: self._pool.submit(copy_context().run, each)
            for key, each in work.items()
            if key not in self._under_way or self._under_way[key].done()
        }
        self._under_way = {key: lane for key, lane in self._under_way.items() if not lane.done()} | begun
        wait(begun.values(), timeout=timeout_s)
        ended = {key: lane for key, lane in begun.items() if lane.done()}
        self._under_way = {key: lane for key, lane in self._under_way.items() if key not in ended}
        return {key: lane.result() for key, lane in ended.items() if self._went_well(key, lane)}

    def _went_well(self, key: int, lane: Future[Result]) -> bool:
        error = lane.exception()
        if error is not None:
            log.error("lane.failed", lanes=self._name, key=key, exc_info=error)
        return error is None
