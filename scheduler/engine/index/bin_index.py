"""Grid of agents with equal slot kinds, in cells by free devices and cores.

A cell is one amount of devices (in tenths) and of cores (in eighths), and lists its agents by
memory. Non-empty cells are kept sorted by number, so the first one that can suit a request is found
by bisection, however many agents there are; later cells are skipped by comparing with their agent
that has the most memory.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable
from copy import copy
from typing import Self

from scheduler.engine.index.resource_vector import CPU_SHIFT, FIELD_BITS, FIELD_MASK, Layout

# As fine as usual requests: in coarser cells, full agents would stand beside agents with a little
# left.
DEVICES_OF_LEVEL, CORES_OF_BUCKET = 100, 125  # thousandths
LEVEL = 2**13  # cell number = device level × LEVEL + bucket of cores
# Agents with more are in the last cells.
MOST_DEVICES, MOST_CORES = 2**10 * DEVICES_OF_LEVEL, (LEVEL - 1) * CORES_OF_BUCKET
MEMORY = FIELD_MASK << FIELD_BITS
MAX_CACHED_NUMBERS = 2**14  # size of the cache
LOW = MEMORY | FIELD_MASK  # memory and agent number


# A request and where to search; a plain tuple, as each placement unpacks one, and named tuples
# unpack more slowly.
Query = tuple[
    int,  # the request
    int,  # first cell
    int,  # smallest bucket of cores
    int,  # memory, as stored in cells; cells without so much are skipped
    int,  # change of an agent's entry when the request is taken
    Container[int] | None,  # allowed agents; None: all
]


def restricted_to(query: Query, hosts: Container[int] | None) -> Query:
    """Return the query restricted to these agents; None: all."""
    return (*query[:-1], hosts)


class BinIndex:
    """Agents of one pool; `free[number]` is what each has, as a vector. Takes the fullest with
    capacity, by devices, then cores, then memory. Only the first kind of device has levels: in a
    pool with two kinds, requests for the other examine all agents with enough of the rest.
    """

    flip = MEMORY  # least memory last: cells store it negated

    def __init__(self, free: list[int], layout: Layout, device: str | None) -> None:
        self._free = free
        self._guards = layout.guards
        device_shift = None if device is None else layout.shift_of(device)
        # Cached, as few amounts of cores and devices occur.
        self._numbers = _BinNumbers(device_shift)
        self._bin_numbers: list[int] = []  # numbers of the non-empty cells, sorted
        # For each of these, memory and number of its agents; the next to take is the last, so that
        # taking it moves no other.
        self._bins: list[list[int]] = []
        self._least_memory = 0  # smallest memory request, as a vector
        # Agents with less than that, which would otherwise fill most of the examined cells.
        self._left_out: set[int] = set()

    def copy(self, free: list[int], least_memory: int = 0) -> Self:
        """Copy for a pass, which keeps free amounts in `free` and requests at least `least_memory`
        (a vector).
        """
        twin = copy(self)
        twin._free, twin._least_memory, twin._left_out = free, least_memory, set()
        twin._bin_numbers = self._bin_numbers[:]
        twin._bins = [cell[:] for cell in self._bins]
        return twin

    def start_behind(self, agent_number: int) -> None:
        """Set the agent that was taken last before the pass. Does nothing except for round-robin."""

    def query(self, request: int) -> Query:
        cell = self._numbers[request >> CPU_SHIFT]
        low = (request & LOW ^ self.flip) | FIELD_MASK
        return request, cell, cell % LEVEL, low, request & MEMORY, None

    def take(self, query: Query) -> int | None:
        """Take capacity for a request on the best agent. Return its number."""
        request, first, least, low, grows_by, hosts = query
        free, guards = self._free, self._guards
        filled, cells = self._bin_numbers, self._bins
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
                agent_number = entry & FIELD_MASK
                left = free[agent_number] - request
                if not left & guards and (hosts is None or agent_number in hosts):
                    free[agent_number] = left
                    self._move(place, index, left, entry + grows_by)
                    return agent_number
            place += 1
        return None

    def fill(self, vectors: Iterable[int]) -> None:
        """Insert all agents, before the first is taken."""
        cells: dict[int, list[int]] = {}
        for vector in vectors:
            cells.setdefault(self._numbers[vector >> CPU_SHIFT], []).append(vector & LOW ^ self.flip)
        self._bin_numbers = sorted(cells)
        self._bins = [sorted(cells[number]) for number in self._bin_numbers]

    def set_free(self, agent_number: int, vector: int) -> None:
        """Set what an agent has free."""
        was, self._free[agent_number] = self._free[agent_number], vector
        place, index = None, 0
        if agent_number in self._left_out:
            self._left_out.remove(agent_number)
        else:
            place = bisect_left(self._bin_numbers, self._numbers[was >> CPU_SHIFT])
            index = bisect_left(self._bins[place], was & LOW ^ self.flip)
        self._move(place, index, vector, vector & LOW ^ self.flip)

    def _move(self, place: int | None, index: int, vector: int, entry: int) -> None:
        """Move an agent from the cell at `place`, if any, to the cell of `vector`, its present free
        amounts; `entry` is its cell entry.
        """
        filled, cells = self._bin_numbers, self._bins
        is_left_out = vector & MEMORY < self._least_memory
        number = self._numbers[vector >> CPU_SHIFT]
        if place is not None:
            cell = cells[place]
            if len(cell) > 1:
                del cell[index]
            elif not is_left_out and number < filled[place] and (not place or filled[place - 1] < number):
                filled[place], cell[0] = number, entry  # alone in its cell, and passes no other
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


class EmptiestFirstIndex(BinIndex):
    """Grid that takes the emptiest agent."""

    flip = 0

    def query(self, request: int) -> Query:
        cell = self._numbers[request >> CPU_SHIFT]
        return request, cell, cell % LEVEL, request & LOW, -(request & MEMORY), None

    def take(self, query: Query) -> int | None:
        request, first, least, low, grows_by, hosts = query
        free, guards, filled, cells = self._free, self._guards, self._bin_numbers, self._bins
        for place in range(len(filled) - 1, bisect_left(filled, first) - 1, -1):
            cell = cells[place]
            if cell[-1] < low or filled[place] % LEVEL < least:
                continue
            for index in range(len(cell) - 1, -1, -1):
                entry = cell[index]
                if entry < low:
                    break
                agent_number = entry & FIELD_MASK
                left = free[agent_number] - request
                if not left & guards and (hosts is None or agent_number in hosts):
                    free[agent_number] = left
                    self._move(place, index, left, entry + grows_by)
                    return agent_number
        return None


class _BinNumbers(dict[int, int]):
    """Cache of cell numbers: of what an agent has free, or for a request the first cell that can
    have capacity; keyed by the vector's fields from cores upwards.
    """

    def __init__(self, device_shift: int | None) -> None:
        super().__init__()
        self._device_shift = device_shift

    def __missing__(self, cores_and_devices: int) -> int:
        if len(self) >= MAX_CACHED_NUMBERS:
            self.clear()
        cores = cores_and_devices & FIELD_MASK
        number = min(cores, MOST_CORES) // CORES_OF_BUCKET
        if self._device_shift is not None:
            devices = cores_and_devices >> self._device_shift - CPU_SHIFT & FIELD_MASK
            number += min(devices, MOST_DEVICES) // DEVICES_OF_LEVEL * LEVEL
        self[cores_and_devices] = number
        return number
