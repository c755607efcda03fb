"""Agents with the same kinds of slot, in cells by what they have free.

A cell is one amount of devices (in tenths) and one of cores (in eighths), and lists its agents by memory. The numbers of
the cells that are not empty are kept in order, so that the best cell for a request is found by bisection, however
many agents there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from copy import copy
from typing import NamedTuple, Self

from scheduler.engine.vectors import CPU_SHIFT, FIELD_BITS, FIELD_MASK, Layout

# As fine as people ask: in coarser cells those that are full would stand beside those with a little left.
DEVICES_OF_LEVEL, CORES_OF_BUCKET = 100, 125  # thousandths
LEVEL = 2**13  # a cell's number is its level of devices in such steps, and its bucket of cores
MOST_DEVICES, MOST_CORES = (
    2**10 * DEVICES_OF_LEVEL,
    (LEVEL - 1) * CORES_OF_BUCKET,
)  # with more: the last cells
MEMORY = FIELD_MASK << FIELD_BITS
LOW = MEMORY | FIELD_MASK  # memory, and the ordinal that says whose it is


class Query(NamedTuple):
    """A request, and where to look for it."""

    request: int
    cell: int  # in none before
    bucket: int  # of cores; in none with fewer
    low: int  # memory, as cells hold it; nor in a cell before or behind this
    hosts: frozenset[int] | None = None  # no others are large enough; None: all are


class Grid:
    """The agents of one pool; `free[ordinal]` is what each has, as a vector. Takes the fullest that has room, by devices,
    then cores, then memory. Of devices only the first kind has levels: in a pool with two kinds, requests for the other
    look at all agents that have enough of the rest."""

    flip = MEMORY  # the least memory last: cells hold it negated

    def __init__(self, free: list[int], layout: Layout, device: str | None) -> None:
        self._free = free
        self._guards = layout.guards
        self._device_shift = None if device is None else layout.shift_of(device)
        # Memory and ordinal of each agent; the one to take first is the last: taking it moves no other.
        self._cells: dict[int, list[int]] = {}
        self._filled: list[int] = []  # the numbers of these cells, in order

    def copy(self, free: list[int]) -> Self:
        """For a pass, which counts in `free` what the agents have left."""
        twin = copy(self)
        twin._free = free
        twin._cells = {number: cell[:] for number, cell in self._cells.items()}
        twin._filled = self._filled[:]
        return twin

    def begin_behind(self, ordinal: int) -> None:
        """This agent was taken last, before the pass. Says nothing where nobody takes turns."""

    def query(self, request: int) -> Query:
        cell = self._cell_of(request)
        return Query(request, cell, cell % LEVEL, (request & LOW ^ self.flip) | FIELD_MASK)

    def take(self, query: Query) -> int | None:
        """Take room for a request on the agent that suits best, and say which: its ordinal."""
        request, first, least, low, hosts = query
        free, guards, filled = self._free, self._guards, self._filled
        place = bisect_left(filled, first)
        while place < len(filled):
            number = filled[place]
            if number % LEVEL < least:
                place = bisect_left(filled, number - number % LEVEL + least, place)
                continue
            cell = self._cells[number]
            index = len(cell) if cell[-1] <= low else bisect_right(cell, low)
            while index:
                index -= 1
                ordinal = cell[index] & FIELD_MASK
                left = (free[ordinal] | guards) - request
                if left & guards == guards and (hosts is None or ordinal in hosts):
                    self._move(number, index, left ^ guards)
                    return ordinal
            place += 1
        return None

    def fill(self, vectors: Iterable[int]) -> None:
        """Enter all agents, before the first is taken."""
        for vector in vectors:
            self._cells.setdefault(self._cell_of(vector), []).append(vector & LOW ^ self.flip)
        for cell in self._cells.values():
            cell.sort()
        self._filled = sorted(self._cells)

    def set_free(self, ordinal: int, vector: int) -> None:
        """Say what an agent has free now."""
        was = self._free[ordinal]
        number = self._cell_of(was)
        self._move(number, bisect_left(self._cells[number], was & LOW ^ self.flip), vector)

    def _move(self, number: int, index: int, vector: int) -> None:
        """From that place in a cell to where `vector` belongs, which is what the agent has free now."""
        cells = self._cells
        cell = cells[number]
        if len(cell) > 1:
            del cell[index]
        else:
            del cells[number]
            del self._filled[bisect_left(self._filled, number)]
        self._free[vector & FIELD_MASK] = vector
        number = self._cell_of(vector)
        if number in cells:
            insort(cells[number], vector & LOW ^ self.flip)
        else:
            cells[number] = [vector & LOW ^ self.flip]
            insort(self._filled, number)

    def _cell_of(self, vector: int) -> int:
        """Its number; for a request, that of the first that can have room for it."""
        cores = vector >> CPU_SHIFT & FIELD_MASK
        number = (cores if cores < MOST_CORES else MOST_CORES) // CORES_OF_BUCKET
        if self._device_shift is None:
            return number
        devices = vector >> self._device_shift & FIELD_MASK
        return number + (devices if devices < MOST_DEVICES else MOST_DEVICES) // DEVICES_OF_LEVEL * LEVEL


class EmptiestFirst(Grid):
    """Takes the emptiest instead."""

    flip = 0

    def query(self, request: int) -> Query:
        cell = self._cell_of(request)
        return Query(request, cell, cell % LEVEL, request & LOW)

    def take(self, query: Query) -> int | None:
        request, first, least, low, hosts = query
        free, guards, filled = self._free, self._guards, self._filled
        place = len(filled) - 1
        while place >= 0 and (number := filled[place]) >= first:
            if number % LEVEL < least:
                place = bisect_left(filled, number - number % LEVEL) - 1
                continue
            cell = self._cells[number]
            for index in range(len(cell) - 1, bisect_left(cell, low) - 1, -1):
                ordinal = cell[index] & FIELD_MASK
                left = (free[ordinal] | guards) - request
                if left & guards == guards and (hosts is None or ordinal in hosts):
                    self._move(number, index, left ^ guards)
                    return ordinal
            place -= 1
        return None
