"""What a person does, told from what a page does by itself: pages ask and tell in a beat, people do not. Pure.

Times are seconds of any steady clock.
"""

from collections import OrderedDict
from collections.abc import Hashable

MOST_KINDS = 64
MOST_PATHS = 512
BURST_S = 1.0
TOLERANCE = 0.2
LEARNING_S = 120.0
SETTLING_S = 3.0
_KEPT_INTERVALS = 4


class Rhythm:
    """Messages of several kinds, each of which may come in a beat of its own."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: OrderedDict[Hashable, tuple[float, tuple[float, ...]]] = OrderedDict()

    def is_out_of_beat(self, kind: Hashable, at: float) -> bool:
        """Whether this one comes otherwise than those of its kind before: a beat is known from its third stroke on. Those
        within BURST_S are typing."""
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
        if len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)


class Attention:
    """What the pages of one session's apps ask for, as one process sees it."""

    __slots__ = ("_learns_until", "_paths", "_rhythm")

    def __init__(self, now: float) -> None:
        self._learns_until = now + LEARNING_S
        self._paths: OrderedDict[str, None] = OrderedDict()
        self._rhythm = Rhythm()

    def is_new_reading(self, path: str, now: float) -> bool:
        """Whether a script that reads `path` does so for the first time. What a page begins with is no news."""
        if path in self._paths:
            return False
        self._paths[path] = None
        if len(self._paths) > MOST_PATHS:
            self._paths.popitem(last=False)
        return now >= self._learns_until

    def is_deed(self, method: str, path: str, now: float) -> bool:
        """Whether a request that changes something is a person's."""
        return self._rhythm.is_out_of_beat((method, path), now)


class Conversation:
    """The messages of one websocket, from the client."""

    __slots__ = ("_rhythm", "_settled_at")

    def __init__(self, now: float) -> None:
        self._settled_at = now + SETTLING_S
        self._rhythm = Rhythm()

    def is_deed(self, size: int, now: float) -> bool:
        """Whether a message of `size` bytes is a person's. What a page says to begin with is not: it connects anew by
        itself."""
        return now >= self._settled_at and self._rhythm.is_out_of_beat(size, now)
