"""Bounds calls to storage hosts: a host that stalls delays a few callers and hangs nobody.

A read of a network file system whose server is gone may wait for ever, and nothing can interrupt it.
So every call runs in a thread of its own; its caller waits until a deadline and then gets a sentence.
Overdue calls go on and keep their place. When all places of a host are taken by overdue calls, the
next call is refused at once; as soon as one of them ends, the host is tried again.

A call must not use the database, and must own what it opens: its caller may be gone before it ends.
"""

import asyncio
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field
from math import inf
from threading import Condition, Thread
from typing import ParamSpec, TypeVar

import structlog
from django.utils.translation import gettext as _

from vfolders.storage.base import StorageUnavailable

log = structlog.get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

PLACES = 16
"""Calls to one host at a time, in each process; long ones (above SHORT_S) have as many of their own, and
so have copies (above LONG_S)."""
SHORT_S = 20.0
"""Deadline of calls that users wait for: to list, to look, to write a piece."""
LONG_S = 600.0
"""Deadline of calls in the background, such as removing a tree."""
TURN_S = 5.0
"""Longest wait for a place."""


@dataclass(eq=False)
class _Places:
    """Deadlines of the calls in progress, by thread."""

    is_free: Condition = field(default_factory=Condition)
    deadlines: dict[Thread, float] = field(default_factory=dict)

    def take(self, thread: Thread, timeout_s: float) -> bool:
        """Wait for a place; False if there is none, at once if all are overdue."""
        turn_ends_at = time.monotonic() + TURN_S
        with self.is_free:
            while len(self.deadlines) >= PLACES:
                now = time.monotonic()
                if now >= turn_ends_at or all(each < now for each in self.deadlines.values()):
                    return False
                self.is_free.wait(min(0.5, turn_ends_at - now))
            self.deadlines[thread] = time.monotonic() + timeout_s
        return True

    def give_back(self, thread: Thread) -> None:
        with self.is_free:
            self.deadlines.pop(thread, None)
            self.is_free.notify()


_places: defaultdict[tuple[int, int], _Places] = defaultdict(_Places)


@dataclass(frozen=True, slots=True)
class HostCalls:
    """Calls to one storage host, which is known by its id."""

    host_id: int
    host_name: str

    def run(self, call: Callable[[], T], *, timeout_s: float = SHORT_S) -> T:
        """Return what `call` returns. Raises what it raises, and StorageUnavailable if it is not done in time."""
        try:
            return self._begin(call, timeout_s).result(timeout_s)
        except TimeoutError as error:
            raise self._stalled(timeout_s) from error

    async def arun(self, call: Callable[[], T], *, timeout_s: float = SHORT_S) -> T:
        """Like `run`, for coroutines. Waits for a place in a thread only if none is free."""
        places = self._places_of(timeout_s)
        if len(places.deadlines) < PLACES:
            begun = self._begin(call, timeout_s)
        else:
            begun = await asyncio.to_thread(self._begin, call, timeout_s)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(begun), timeout_s)
        except TimeoutError as error:
            raise self._stalled(timeout_s) from error

    def is_stalled(self) -> bool:
        """True if a call of this process to the host is overdue."""
        now = time.monotonic()
        return any(
            deadline < now
            for longest_s in (SHORT_S, LONG_S, inf)
            for deadline in tuple(self._places_of(longest_s).deadlines.values())
        )

    def _places_of(self, timeout_s: float) -> _Places:
        return _places[self.host_id, bisect_left((SHORT_S, LONG_S), timeout_s)]

    def _begin(self, call: Callable[[], T], timeout_s: float) -> "Future[T]":
        places = self._places_of(timeout_s)
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()
        context = copy_context()

        def work() -> None:
            try:
                done.set_result(context.run(call))
            except BaseException as error:  # noqa: BLE001  it reaches the caller
                done.set_exception(error)
            finally:
                places.give_back(thread)

        # A daemon, because a process must end even if a call never does.
        thread = Thread(target=work, name=f"storage-{self.host_id}", daemon=True)
        if not places.take(thread, timeout_s):
            raise self._stalled(TURN_S)
        try:
            thread.start()
        except RuntimeError as error:  # the process has too many threads
            places.give_back(thread)
            raise self._stalled(0) from error
        return done

    def _stalled(self, waited_s: float) -> StorageUnavailable:
        log.warning("storage.stalled", host=self.host_name, waited_s=waited_s)
        return StorageUnavailable(
            _("The storage host “{host}” does not answer.").format(host=self.host_name),
            hint=_("Try again in a minute. If it stays so, tell an administrator."),
        )
