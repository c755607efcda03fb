"""Per-process cache with one value per resource group and an expiry time."""

from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

Value = TypeVar("Value")


class GroupCache(Generic[Value]):
    """Thread-safe cache of one value per resource group. A value expires `for_s` seconds after it
    was put; expired values are removed on each access, as groups come and go and workers share them
    by chance.
    """

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._lock = Lock()
        self._values: dict[int, tuple[float, Value]] = {}  # stored at (monotonic clock), value

    def put(self, group_id: int, thing: Value) -> None:
        with self._lock:
            now = self._expire()
            self._values[group_id] = (now, thing)

    def get(self, group_id: int) -> Value | None:
        with self._lock:
            self._expire()
            _since, thing = self._values.get(group_id, (0.0, None))
        return thing

    def take(self, group_id: int) -> Value | None:
        """Remove and return the value, so that no other thread uses it meanwhile; None if there is
        none.
        """
        with self._lock:
            self._expire()
            _since, thing = self._values.pop(group_id, (0.0, None))
        return thing

    def clear(self) -> None:
        with self._lock:
            self._values = {}

    def _expire(self) -> float:
        """Remove expired values. Return the present time by the monotonic clock."""
        now = monotonic()
        self._values = {each: kept for each, kept in self._values.items() if now - kept[0] <= self._for_s}
        return now
