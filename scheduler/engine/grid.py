"""Agents with the same kinds of slot, in cells by what they have free.

A cell is one amount of devices (in tenths) and one of cores (in eighths), and lists its agents by memory. One integer
for each amount of devices has a bit for each cell that is not empty, and one for all has a bit for each amount, so
that the best cell for a request is found by looking at bits, however many agents there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import NamedTuple

from scheduler.engine.vectors import CPU_SHIFT, FIELD_BITS, FIELD_MASK, Layout

# As fine as people ask: in coarser cells those that are full would stand beside those with a little left.
DEVICES_OF_LEVEL, CORES_OF_BUCKET = 100, 125  # thousandths
MOST_LEVELS, MOST_BUCKETS = 2**10, 2**13  # agents with more share the last cells
MEMORY = FIELD_MASK << FIELD_BITS
LOW = MEMORY | FIELD_MASK  # memory, and the ordinal that says whose it is

Cell = list[
    int
]  # memory and ordinal of each agent; the one to take first is the last: taking it moves no other


class Query(NamedTuple):
    """A request, and where to look for it."""

    request: int
    level: int  # of devices; in no lower one
    bucket: int  # of cores; nor in a lower one
    low: int  # memory, as cells hold it; nor in a cell before or behind this


class Grid:
    """The agents of one pool; `free[ordinal]` is what each has, as a vector. Takes the fullest that has room, by devices,
    then cores, then memory. Of devices only the first kind has levels: in a pool with two kinds, requests for the other
    look at all agents that have enough of the rest."""

    flip = MEMORY  # the least memory last: cells hold it negated

    def __init__(self, free: list[int], layout: Layout, device: str | None) -> None:
        self._free = free
        self._guards = layout.guards
        self._device_shift = None if device is None else layout.shift_of(device)
        self._cells: list[dict[int, Cell]] = [{}]
        self._filled = [0]  # by level, a bit for each bucket whose cell is not empty
        self._levels = 0  # a bit for each level that is not empty

    def query(self, request: int) -> Query:
        return Query(request, *self._place_of(request), (request & LOW ^ self.flip) | FIELD_MASK)

    def take(self, query: Query) -> int | None:
        """Take room for a request on the agent that suits best, and say which: its ordinal."""
        request, level, least, low = query
        free, guards = self._free, self._guards
        levels = self._levels >> level
        while levels:
            step = (levels & -levels).bit_length()
            levels >>= step
            level += step
            cells, bucket = self._cells[level - 1], least
            filled = self._filled[level - 1] >> bucket
            while filled:
                step = (filled & -filled).bit_length()
                filled >>= step
                bucket += step
                cell = cells[bucket - 1]
                index = len(cell) if cell[-1] <= low else bisect_right(cell, low)
                while index:
                    index -= 1
                    ordinal = cell[index] & FIELD_MASK
                    left = (free[ordinal] | guards) - request
                    if left & guards == guards:
                        self._leave(level - 1, bucket - 1, index)
                        free[ordinal] = left ^ guards
                        self._enter(left ^ guards)
                        return ordinal
        return None

    def fill(self, vectors: Iterable[int]) -> None:
        """Enter all agents, before the first is taken. None has more later: what is given back was taken."""
        for vector in vectors:
            level, bucket = self._place_of(vector)
            while len(self._cells) <= level:
                self._cells.append({})
                self._filled.append(0)
            self._cells[level].setdefault(bucket, []).append(vector & LOW ^ self.flip)
        for level, cells in enumerate(self._cells):
            for bucket, cell in cells.items():
                cell.sort()
                self._filled[level] |= 1 << bucket
                self._levels |= 1 << level

    def set_free(self, ordinal: int, vector: int) -> None:
        """Say what an agent has free now."""
        was = self._free[ordinal]
        level, bucket = self._place_of(was)
        self._leave(level, bucket, bisect_left(self._cells[level][bucket], was & LOW ^ self.flip))
        self._free[ordinal] = vector
        self._enter(vector)

    def _enter(self, vector: int) -> None:
        level, bucket = self._place_of(vector)
        cells = self._cells[level]
        if bucket in cells:
            insort(cells[bucket], vector & LOW ^ self.flip)
        else:
            cells[bucket] = [vector & LOW ^ self.flip]
        self._filled[level] |= 1 << bucket
        self._levels |= 1 << level

    def _leave(self, level: int, bucket: int, index: int) -> None:
        cell = self._cells[level][bucket]
        del cell[index]
        if not cell:
            self._filled[level] ^= 1 << bucket
            if not self._filled[level]:
                self._levels ^= 1 << level

    def _place_of(self, vector: int) -> tuple[int, int]:
        """Level and bucket; for a request, the lowest that can have room for it."""
        bucket = (vector >> CPU_SHIFT & FIELD_MASK) // CORES_OF_BUCKET
        if bucket > MOST_BUCKETS:
            bucket = MOST_BUCKETS
        if self._device_shift is None:
            return 0, bucket
        level = (vector >> self._device_shift & FIELD_MASK) // DEVICES_OF_LEVEL
        return (level if level < MOST_LEVELS else MOST_LEVELS), bucket


class EmptiestFirst(Grid):
    """Takes the emptiest instead."""

    flip = 0

    def query(self, request: int) -> Query:
        return Query(request, *self._place_of(request), request & LOW)

    def take(self, query: Query) -> int | None:
        request, lowest, least, low = query
        free, guards = self._free, self._guards
        levels = self._levels >> lowest
        while levels:
            level = lowest + levels.bit_length() - 1
            levels ^= 1 << level - lowest
            filled = self._filled[level] >> least
            while filled:
                bucket = least + filled.bit_length() - 1
                filled ^= 1 << bucket - least
                cell = self._cells[level][bucket]
                for index in range(len(cell) - 1, bisect_left(cell, low) - 1, -1):
                    ordinal = cell[index] & FIELD_MASK
                    left = (free[ordinal] | guards) - request
                    if left & guards == guards:
                        self._leave(level, bucket, index)
                        free[ordinal] = left ^ guards
                        self._enter(left ^ guards)
                        return ordinal
        return None
