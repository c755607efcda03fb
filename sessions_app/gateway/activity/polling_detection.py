"""Distinguish user activity from automatic polling. Pure.

Messages of one kind that repeat at a constant interval are polling; all others count as activity.
Times are seconds of any monotonic clock.
"""

from collections import OrderedDict
from collections.abc import Hashable

MAX_KINDS = 64
MAX_PATHS = 512
BURST_S = 1.0
TOLERANCE = 0.2
LEARNING_S = 120.0
SETTLING_S = 3.0
_KEPT_INTERVALS = 4


class IntervalDetector:
    """Interval detector for messages of several kinds."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: OrderedDict[Hashable, tuple[float, tuple[float, ...]]] = OrderedDict()

    def is_irregular(self, kind: Hashable, at: float) -> bool:
        """Return True if this message does not repeat an earlier interval of its kind.

        An interval is known from the third message on. Messages within BURST_S count as typing.
        """
        before = self._kinds.pop(kind, None)
        if before is None:
            self._keep(kind, at, ())
            return True
        last_at, intervals = before
        interval = at - last_at
        if interval < BURST_S:
            self._keep(kind, at, intervals)
            return True
        self._keep(kind, at, (interval, *intervals)[:_KEPT_INTERVALS])
        return not any(abs(interval - other) <= max(BURST_S, TOLERANCE * other) for other in intervals)

    def _keep(self, kind: Hashable, at: float, intervals: tuple[float, ...]) -> None:
        self._kinds[kind] = (at, intervals)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)


class RequestActivity:
    """Activity detector for the HTTP requests to one session's apps, as seen by one process."""

    __slots__ = ("_intervals", "_learns_until", "_paths")

    def __init__(self, now: float) -> None:
        self._learns_until = now + LEARNING_S
        self._paths: OrderedDict[str, None] = OrderedDict()
        self._intervals = IntervalDetector()

    def is_first_read(self, path: str, now: float) -> bool:
        """Return True if `path` is read for the first time after the first LEARNING_S seconds, in
        which a page loads its resources.
        """
        if path in self._paths:
            return False
        self._paths[path] = None
        if len(self._paths) > MAX_PATHS:
            self._paths.popitem(last=False)
        return now >= self._learns_until

    def is_user_action(self, method: str, path: str, now: float) -> bool:
        """Return True if a request that changes something is a user action, not polling."""
        return self._intervals.is_irregular((method, path), now)


class WebsocketActivity:
    """Activity detector for the client's messages on one websocket."""

    __slots__ = ("_intervals", "_settled_at")

    def __init__(self, now: float) -> None:
        self._settled_at = now + SETTLING_S
        self._intervals = IntervalDetector()

    def is_user_action(self, size: int, now: float) -> bool:
        """Return True if a message of `size` bytes is a user action. Messages in the first
        SETTLING_S seconds are not: pages reconnect automatically.
        """
        return now >= self._settled_at and self._intervals.is_irregular(size, now)
