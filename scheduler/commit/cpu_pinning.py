"""Choose the CPU cores of a kernel on its agent, and convert cpuset strings. Pure.

Sessions that request whole cores get separate cores as long as there are enough; if more is
requested than exists (many small sessions), the load is spread evenly.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

MILLI = 1000


class CoreUse(NamedTuple):
    """CPU allocation of a kernel on the agent: millicores, and its cores; an empty cpuset means
    all.
    """

    cpu_milli: int
    cpuset: str


class CoreLoads:
    """Load of each core of one agent. The load of a kernel is spread evenly over its cores."""

    def __init__(self, core_count: int) -> None:
        self._load = [0] * core_count  # in millionths of a core

    def add(self, use: CoreUse) -> None:
        """Add the load of a kernel. Cores that the agent does not have are ignored."""
        cores = parse_cores(use.cpuset)
        if cores and max(cores) >= len(self._load):
            cores = [core for core in cores if core < len(self._load)]
        self._put(use.cpu_milli, cores or range(len(self._load)))

    def take(self, cpu_milli: int, near: Collection[int] = ()) -> str:
        """Allocate the least loaded cores, as many as `cpu_milli` needs; ties go to those of `near`, then
        to the lower number. Return a cpuset string like "0-2,5"; empty, meaning all cores, if it needs them all.
        """
        wanted = max(1, -(-cpu_milli // MILLI))
        if wanted >= len(self._load):
            self._put(cpu_milli, range(len(self._load)))
            return ""
        by_load = sorted(range(len(self._load)), key=lambda core: (self._load[core], core not in near))
        cores = tuple(sorted(by_load[:wanted]))
        self._put(cpu_milli, cores)
        return format_cores(cores)

    def _put(self, cpu_milli: int, cores: Sequence[int]) -> None:
        for core in cores:
            self._load[core] += cpu_milli * MILLI // len(cores)


def choose_cores(cpu_milli: int, core_count: int, others: Iterable[CoreUse]) -> str:
    """Return the cpuset of a new kernel on an agent that runs `others`."""
    loads = CoreLoads(core_count)
    for other in others:
        loads.add(other)
    return loads.take(cpu_milli)


@lru_cache(maxsize=10_000)
def parse_cores(text: str) -> Sequence[int]:
    """Parse a cpuset string: "0-2,5" is 0, 1, 2, 5."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return tuple(core for low, _, high in ranges for core in range(int(low), int(high or low) + 1))


@lru_cache(maxsize=10_000)
def format_cores(cores: tuple[int, ...]) -> str:
    """Return the shortest cpuset string of ascending cores: (0, 1, 2, 5) is "0-2,5"."""
    runs = [
        [core for _, core in run] for _, run in groupby(enumerate(cores), key=lambda each: each[1] - each[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
