"""Round-robin index of agents with equal slot kinds."""

from bisect import bisect_left
from collections.abc import Iterable
from copy import copy
from typing import Self

from scheduler.engine.index.bin_index import BinIndex, Query
from scheduler.engine.index.resource_vector import FIELD_MASK


class RoundRobinIndex(BinIndex):
    """Index that takes the next agent with capacity behind the last one taken, by id, cyclically.
    Examines one agent after the other, so it slows down as agents fill up.
    """

    def copy(self, free: list[int], least_memory: int = 0) -> Self:
        twin = copy(self)
        twin._free = free
        return twin

    def query(self, request: int) -> Query:
        return request, 0, 0, 0, 0, None

    def fill(self, vectors: Iterable[int]) -> None:
        self._negated = sorted(-(vector & FIELD_MASK) for vector in vectors)  # smallest id first
        self._next = 0  # index of the next agent

    def start_behind(self, agent_number: int) -> None:
        self._next = bisect_left(self._negated, 1 - agent_number)

    def take(self, query: Query) -> int | None:
        request, *_, hosts = query
        free, guards, negated = self._free, self._guards, self._negated
        count, first = len(negated), self._next
        for turn in range(first, first + count):
            agent_number = -negated[turn % count]
            left = (free[agent_number] | guards) - request
            if left & guards == guards and (hosts is None or agent_number in hosts):
                free[agent_number] = left ^ guards
                self._next = (turn + 1) % count
                return agent_number
        return None

    def set_free(self, agent_number: int, vector: int) -> None:
        self._free[agent_number] = vector
