"""What a pass knows about equal needs: found out once, used for every session that has them."""

from dataclasses import dataclass

from scheduler.engine.grid import Grid, Query
from scheduler.engine.model import Needs
from scheduler.engine.shares import Fractions

Search = tuple[tuple[Grid, Query], ...]  # where a kernel could run, in the order to look


@dataclass(slots=True, eq=False)
class Shape:
    """Equal needs, compiled for one pass."""

    needs: Needs
    order: tuple[int, ...]  # the kernels of `needs`, the largest first
    searches: tuple[
        tuple[int, Search], ...
    ]  # of each, in that order, its request as a vector and where to look
    designated: int | None  # the ordinal of the only agent it may run on, if one is named; −1: there is none
    total: int  # of all kernels together, as a vector
    fractions: Fractions
    has_no_room: bool = False  # within a pass room only shrinks: what failed once fails again
    may_keep: bool = True  # whether room could still be kept for one of its sessions

    @property
    def grids(self) -> set[Grid]:
        """All in which one of its kernels could run."""
        return {grid for _, search in self.searches for grid, _ in search}
