"""Agents with the same kinds of slot, in cells by what they have free.

A cell is one number of whole devices and one number of cores, and lists its agents by memory. One integer per
number of devices has a bit for each cell that is not empty, so that the best cell for a request is found by
looking at bits, however many agents there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import NamedTuple

from scheduler.engine.vectors import CPU_SHIFT, FIELD_BITS, FIELD_MASK, Layout

DEVICE = 1000
CORE_BITS = 10  # a bucket of 1,024 millicores
CORES_SHIFT = CPU_SHIFT + CORE_BITS
CORES_MASK = FIELD_MASK >> CORE_BITS
MOST_DEVICES, MOST_CORES = 2**6, 2**13  # agents with more share the last cells
MEMORY = FIELD_MASK << FIELD_BITS
LOW = MEMORY | FIELD_MASK  # memory, and the ordinal that says whose it is

Cell = list[
    int
]  # memory and ordinal of each agent; the one to take first is the last: taking it moves no other


class Query(NamedTuple):
    """A request, and where to look for it."""

    request: int
    devices: int  # in no cell with fewer, whole
    cores: int  # nor in one with fewer of these buckets
    low: int  # nor, in a cell, beyond this


class Grid:
    """The agents of one pool; `free[ordinal]` is what each has, as a vector. Takes the fullest that has room, by devices,
    then cores, then memory."""

    flip = MEMORY  # the least memory last: cells hold it negated

    def __init__(self, free: list[int], layout: Layout, device: str | None) -> None:
        self._free = free
        self._guards = layout.guards
        self._device_shift = None if device is None else layout.shift_of(device)
        self._cells: list[dict[int, Cell]] = [{}]
        self._filled = [0]  # by number of devices, a bit for each bucket of cores whose cell is not empty

    def query(self, request: int) -> Query:
        return Query(request, *self._place_of(request), (request & LOW ^ self.flip) | FIELD_MASK)

    def take(self, query: Query) -> int | None:
        """Take room for a request on the agent that suits best, and say which: its ordinal."""
        request, fewest, cores, low = query
        free, guards = self._free, self._guards
        for devices in range(fewest, len(self._cells)):
            filled = self._filled[devices] >> cores
            bucket = cores - 1
            while filled:
                step = (filled & -filled).bit_length()
                bucket += step
                filled >>= step
                cell = self._cells[devices][bucket]
                index = len(cell) if cell[-1] <= low else bisect_right(cell, low)
                while index:
                    index -= 1
                    ordinal = cell[index] & FIELD_MASK
                    left = (free[ordinal] | guards) - request
                    if left & guards == guards:
                        self._leave(devices, bucket, index)
                        free[ordinal] = left ^ guards
                        self._enter(left ^ guards)
                        return ordinal
        return None

    def fill(self, vectors: Iterable[int]) -> None:
        """Enter many agents at once, before the first is taken."""
        for vector in vectors:
            devices, bucket = self._place_of(vector)
            while len(self._cells) <= devices:
                self._cells.append({})
                self._filled.append(0)
            self._cells[devices].setdefault(bucket, []).append(vector & LOW ^ self.flip)
        for devices, cells in enumerate(self._cells):
            for bucket, cell in cells.items():
                cell.sort()
                self._filled[devices] |= 1 << bucket

    def set_free(self, ordinal: int, vector: int) -> None:
        """Say what an agent has free now."""
        was = self._free[ordinal]
        devices, bucket = self._place_of(was)
        self._leave(devices, bucket, bisect_left(self._cells[devices][bucket], was & LOW ^ self.flip))
        self._free[ordinal] = vector
        self._enter(vector)

    def _enter(self, vector: int) -> None:
        devices, bucket = self._place_of(vector)
        while len(self._cells) <= devices:
            self._cells.append({})
            self._filled.append(0)
        cells = self._cells[devices]
        if bucket in cells:
            insort(cells[bucket], vector & LOW ^ self.flip)
        else:
            cells[bucket] = [vector & LOW ^ self.flip]
        self._filled[devices] |= 1 << bucket

    def _leave(self, devices: int, bucket: int, index: int) -> None:
        cell = self._cells[devices][bucket]
        del cell[index]
        if not cell:
            self._filled[devices] ^= 1 << bucket

    def _place_of(self, vector: int) -> tuple[int, int]:
        """Devices and bucket of cores; for a request, the fewest that can have room for it."""
        bucket = vector >> CORES_SHIFT & CORES_MASK
        if bucket > MOST_CORES:
            bucket = MOST_CORES
        if self._device_shift is None:
            return 0, bucket
        devices = (vector >> self._device_shift & FIELD_MASK) // DEVICE
        return (devices if devices < MOST_DEVICES else MOST_DEVICES), bucket


class EmptiestFirst(Grid):
    """Takes the emptiest instead."""

    flip = 0

    def query(self, request: int) -> Query:
        return Query(request, *self._place_of(request), request & LOW)

    def take(self, query: Query) -> int | None:
        request, fewest, cores, low = query
        free, guards = self._free, self._guards
        for devices in range(len(self._cells) - 1, fewest - 1, -1):
            filled = self._filled[devices] >> cores
            while filled:
                top = filled.bit_length() - 1
                filled ^= 1 << top
                cell = self._cells[devices][cores + top]
                for index in range(len(cell) - 1, bisect_left(cell, low) - 1, -1):
                    ordinal = cell[index] & FIELD_MASK
                    left = (free[ordinal] | guards) - request
                    if left & guards == guards:
                        self._leave(devices, cores + top, index)
                        free[ordinal] = left ^ guards
                        self._enter(left ^ guards)
                        return ordinal
        return None
