"""Agents with the same kinds of slot that take turns."""

from bisect import bisect_left
from collections.abc import Iterable
from copy import copy
from typing import Self

from scheduler.engine.index.bin_index import Grid, Query
from scheduler.engine.index.resource_vector import FIELD_MASK


class Rounds(Grid):
    """Takes the next agent that has room behind the one that was taken last, by id, and after the last the first again. Looks
    at one agent after the other, so it takes the longer the more of them are full."""

    def copy(self, free: list[int], least_memory: int = 0) -> Self:
        twin = copy(self)
        twin._free = free
        return twin

    def query(self, request: int) -> Query:
        return request, 0, 0, 0, 0, None

    def fill(self, vectors: Iterable[int]) -> None:
        self._negated = sorted(-(vector & FIELD_MASK) for vector in vectors)  # the smallest id first
        self._next = 0  # whose turn it is

    def begin_behind(self, ordinal: int) -> None:
        self._next = bisect_left(self._negated, 1 - ordinal)

    def take(self, query: Query) -> int | None:
        request, *_, hosts = query
        free, guards, negated = self._free, self._guards, self._negated
        count, first = len(negated), self._next
        for turn in range(first, first + count):
            ordinal = -negated[turn % count]
            left = (free[ordinal] | guards) - request
            if left & guards == guards and (hosts is None or ordinal in hosts):
                free[ordinal] = left ^ guards
                self._next = (turn + 1) % count
                return ordinal
        return None

    def set_free(self, ordinal: int, vector: int) -> None:
        self._free[ordinal] = vector
