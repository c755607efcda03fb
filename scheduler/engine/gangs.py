"""How the kernels of one session lie: anywhere, on one machine, or each on another."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum


class Gang(StrEnum):
    """Where the kernels of a session may be; in each case all of them start, or none."""

    ANYWHERE = "anywhere"
    ONE_MACHINE = "one_machine"  # all on the same agent: one search, for what they ask together
    SPREAD = "spread"  # no two of them on one agent


def most_apart(requests: Sequence[int], vectors: Iterable[int], fits: Callable[[int, int], bool]) -> int:
    """For how many of these requests, the largest first, one of the vectors each has room: each takes the least that has."""
    left = sorted(vectors)
    found = 0
    for request in requests:
        place = next((n for n, room in enumerate(left) if fits(request, room)), None)
        if place is not None:
            del left[place]
            found += 1
    return found
