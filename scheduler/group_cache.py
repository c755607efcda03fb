"""What a worker keeps by resource group, for a while: groups come and go, and workers share them out by chance."""

from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class KeptByGroup(Generic[Thing]):
    """Things of this process, each until `for_s` seconds after it was put. What is older is dropped when any is put or asked for."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._lock = Lock()
        self._kept: dict[int, tuple[float, Thing]] = {}  # since when, by the monotonic clock

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
        """It, so that no other thread has it meanwhile."""
        with self._lock:
            self._forget_old()
            _since, thing = self._kept.pop(group_id, (0.0, None))
        return thing

    def clear(self) -> None:
        with self._lock:
            self._kept = {}

    def _forget_old(self) -> float:
        """What time it is."""
        now = monotonic()
        self._kept = {each: kept for each, kept in self._kept.items() if now - kept[0] <= self._for_s}
        return now
