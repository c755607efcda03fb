"""Limit of concurrent calls to one service, which follows how it answers.

Otherwise a service that answers probes and then hangs would get every thread of a worker: each
caller waits for its full timeout.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

MOST = 1024


class CallWindow:
    """Window of one service and process: open at first, one call after one that was not answered in
    time, and twice as many after each answer. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._allowed = MOST
        self._under_way = 0

    @contextmanager
    def call(self) -> Iterator[bool]:
        """Count a call during the block. Yields False if it must not be made now."""
        with self._lock:
            is_allowed = self._under_way < self._allowed
            self._under_way += is_allowed
        try:
            yield is_allowed
        finally:
            with self._lock:
                self._under_way -= is_allowed

    def note_answer(self) -> None:
        with self._lock:
            self._allowed = min(MOST, 2 * self._allowed)

    def note_timeout(self) -> None:
        with self._lock:
            self._allowed = 1
