"""Agents with the same kinds of slot, in cells by what they have free.

A cell is one amount of devices (in tenths) and one of cores (in eighths), and lists its agents by memory. The cells that
are not empty are kept in the order of their numbers, so that the first that can suit a request is found by bisection,
however many agents there are; of those behind it a look at the agent with the most memory tells which to pass over.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable
from copy import copy
from typing import Self

from scheduler.engine.index.resource_vector import CPU_SHIFT, FIELD_BITS, FIELD_MASK, Layout

# As fine as people ask: in coarser cells those that are full would stand beside those with a little left.
DEVICES_OF_LEVEL, CORES_OF_BUCKET = 100, 125  # thousandths
LEVEL = 2**13  # a cell's number is its level of devices in such steps, and its bucket of cores
# Agents with more are in the last cells.
MOST_DEVICES, MOST_CORES = 2**10 * DEVICES_OF_LEVEL, (LEVEL - 1) * CORES_OF_BUCKET
MEMORY = FIELD_MASK << FIELD_BITS
MOST_NUMBERS = 2**14  # that are remembered
LOW = MEMORY | FIELD_MASK  # memory, and the ordinal that says whose it is


# A request, and where to look for it; a plain tuple, for each placement unpacks one, and a named one is unpacked as any sequence is.
Query = tuple[
    int,  # the request
    int,  # a cell: in none before
    int,  # a bucket of cores: in none with fewer
    int,  # memory, as cells hold it: nor in a cell before or behind this
    int,  # by how much what a cell holds of an agent grows, once the request is taken there
    Container[int] | None,  # no others will do; None: all will
]


def among(query: Query, hosts: Container[int] | None) -> Query:
    """The same on these alone; None: on all."""
    return (*query[:-1], hosts)


class Grid:
    """The agents of one pool; `free[ordinal]` is what each has, as a vector. Takes the fullest that has room, by devices,
    then cores, then memory. Of devices only the first kind has levels: in a pool with two kinds, requests for the other
    look at all agents that have enough of the rest."""

    flip = MEMORY  # the least memory last: cells hold it negated

    def __init__(self, free: list[int], layout: Layout, device: str | None) -> None:
        self._free = free
        self._guards = layout.guards
        device_shift = None if device is None else layout.shift_of(device)
        # Few amounts of cores and devices occur, and they do again and again.
        self._numbers = _Numbers(device_shift)
        self._filled: list[int] = []  # the numbers of the cells that are not empty, in order
        # Of these, memory and ordinal of each agent; the one to take first is the last: taking it moves no other.
        self._cells: list[list[int]] = []
        self._least_memory = 0  # the memory that is asked for at least, as a vector
        # Who came to have less: else most cells that are looked at would be theirs alone.
        self._left_out: set[int] = set()

    def copy(self, free: list[int], least_memory: int = 0) -> Self:
        """For a pass, which counts in `free` what the agents have left, and in which nobody asks for less memory than `least_memory` (a vector)."""
        twin = copy(self)
        twin._free, twin._least_memory, twin._left_out = free, least_memory, set()
        twin._filled = self._filled[:]
        twin._cells = [cell[:] for cell in self._cells]
        return twin

    def begin_behind(self, ordinal: int) -> None:
        """This agent was taken last, before the pass. Says nothing where nobody takes turns."""

    def query(self, request: int) -> Query:
        cell = self._numbers[request >> CPU_SHIFT]
        low = (request & LOW ^ self.flip) | FIELD_MASK
        return request, cell, cell % LEVEL, low, request & MEMORY, None

    def take(self, query: Query) -> int | None:
        """Take room for a request on the agent that suits best, and say which: its ordinal."""
        request, first, least, low, grows_by, hosts = query
        free, guards = self._free, self._guards
        filled, cells = self._filled, self._cells
        place, count = bisect_left(filled, first), len(filled)
        while place < count:
            cell = cells[place]
            if cell[0] > low or filled[place] % LEVEL < least:
                place += 1
                continue
            index = len(cell) if cell[-1] <= low else bisect_right(cell, low)
            while index:
                index -= 1
                entry = cell[index]
                ordinal = entry & FIELD_MASK
                left = free[ordinal] - request
                if not left & guards and (hosts is None or ordinal in hosts):
                    free[ordinal] = left
                    self._move(place, index, left, entry + grows_by)
                    return ordinal
            place += 1
        return None

    def fill(self, vectors: Iterable[int]) -> None:
        """Enter all agents, before the first is taken."""
        cells: dict[int, list[int]] = {}
        for vector in vectors:
            cells.setdefault(self._numbers[vector >> CPU_SHIFT], []).append(vector & LOW ^ self.flip)
        self._filled = sorted(cells)
        self._cells = [sorted(cells[number]) for number in self._filled]

    def set_free(self, ordinal: int, vector: int) -> None:
        """Say what an agent has free now."""
        was, self._free[ordinal] = self._free[ordinal], vector
        place, index = None, 0
        if ordinal in self._left_out:
            self._left_out.remove(ordinal)
        else:
            place = bisect_left(self._filled, self._numbers[was >> CPU_SHIFT])
            index = bisect_left(self._cells[place], was & LOW ^ self.flip)
        self._move(place, index, vector, vector & LOW ^ self.flip)

    def _move(self, place: int | None, index: int, vector: int, entry: int) -> None:
        """From there in the cell at `place`, if it is in one, to where `vector` belongs, which is what the agent has free now, as `entry`."""
        filled, cells = self._filled, self._cells
        is_left_out = vector & MEMORY < self._least_memory
        number = self._numbers[vector >> CPU_SHIFT]
        if place is not None:
            cell = cells[place]
            if len(cell) > 1:
                del cell[index]
            elif not is_left_out and number < filled[place] and (not place or filled[place - 1] < number):
                filled[place], cell[0] = number, entry  # it is alone, and goes past nobody
                return
            else:
                del filled[place], cells[place]
        if is_left_out:
            self._left_out.add(vector & FIELD_MASK)
            return
        place = bisect_left(filled, number)
        if place < len(filled) and filled[place] == number:
            insort(cells[place], entry)
        else:
            filled.insert(place, number)
            cells.insert(place, [entry])


class EmptiestFirst(Grid):
    """Takes the emptiest instead."""

    flip = 0

    def query(self, request: int) -> Query:
        cell = self._numbers[request >> CPU_SHIFT]
        return request, cell, cell % LEVEL, request & LOW, -(request & MEMORY), None

    def take(self, query: Query) -> int | None:
        request, first, least, low, grows_by, hosts = query
        free, guards, filled, cells = self._free, self._guards, self._filled, self._cells
        for place in range(len(filled) - 1, bisect_left(filled, first) - 1, -1):
            cell = cells[place]
            if cell[-1] < low or filled[place] % LEVEL < least:
                continue
            for index in range(len(cell) - 1, -1, -1):
                entry = cell[index]
                if entry < low:
                    break
                ordinal = entry & FIELD_MASK
                left = free[ordinal] - request
                if not left & guards and (hosts is None or ordinal in hosts):
                    free[ordinal] = left
                    self._move(place, index, left, entry + grows_by)
                    return ordinal
        return None


class _Numbers(dict[int, int]):
    """Of what an agent has free; for a request, the number of the first cell that can have room for it. By a vector without its fields below
    that of cores."""

    def __init__(self, device_shift: int | None) -> None:
        super().__init__()
        self._device_shift = device_shift

    def __missing__(self, cores_and_devices: int) -> int:
        if len(self) >= MOST_NUMBERS:
            self.clear()
        cores = cores_and_devices & FIELD_MASK
        number = min(cores, MOST_CORES) // CORES_OF_BUCKET
        if self._device_shift is not None:
            devices = cores_and_devices >> self._device_shift - CPU_SHIFT & FIELD_MASK
            number += min(devices, MOST_DEVICES) // DEVICES_OF_LEVEL * LEVEL
        self[cores_and_devices] = number
        return number
