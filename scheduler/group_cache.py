"""Per-process cache with one value per resource group and an expiry time."""

from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class KeptByGroup(Generic[Thing]):
    """Thread-safe cache of one value per resource group. A value expires `for_s` seconds after it
    was put; expired values are removed on each access, as groups come and go and workers share them
    by chance.
    """

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._lock = Lock()
        self._kept: dict[int, tuple[float, Thing]] = {}  # stored at (monotonic clock), value

    def put(self, group_id: int, thing: Thing) -> None:
        with self._lock:
            now = self._forget_old()
            self._kept[group_id] = (now, thing)

    def get(self, group_id: int) -> Thing | None:
        with self._lock:
            self._forget_old()
            _since, thing = self._kept.get(group_id, (0.0, None))
        return thing

    def take(self, group_id: int) -> Thing | None:
        """Remove and return the value, so that no other thread uses it meanwhile; None if there is
        none.
        """
        with self._lock:
            self._forget_old()
            _since, thing = self._kept.pop(group_id, (0.0, None))
        return thing

    def clear(self) -> None:
        with self._lock:
            self._kept = {}

    def _forget_old(self) -> float:
        """Remove expired values. Return the present time by the monotonic clock."""
        now = monotonic()
        self._kept = {each: kept for each, kept in self._kept.items() if now - kept[0] <= self._for_s}
        return now
