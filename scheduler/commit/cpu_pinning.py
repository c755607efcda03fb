"""Which cores of its machine a kernel runs on, and how engines write that down. Pure.

Sessions that ask for whole cores get them apart from each other as long as there are enough; where more are asked for
than there are (several small sessions), each core carries as much as the others."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

MILLI = 1000


class CoreUse(NamedTuple):
    """A kernel that is on the machine: its CPU in millicores, and its cores; none named means all."""

    cpu_milli: int
    cpuset: str


class CoreLoads:
    """What the cores of one machine carry. What a kernel uses is spread evenly over its cores."""

    def __init__(self, core_count: int) -> None:
        self._load = [0] * core_count  # in millionths of a core

    def add(self, use: CoreUse) -> None:
        """Cores that the machine does not have count for nothing."""
        cores = parse_cores(use.cpuset)
        if cores and max(cores) >= len(self._load):
            cores = [core for core in cores if core < len(self._load)]
        self._put(use.cpu_milli, cores or range(len(self._load)))

    def take(self, cpu_milli: int) -> str:
        """The least used cores, as many as `cpu_milli` needs, in the form "0-2,5"; they carry it from now on. Of two that are
        used alike the lower number is taken. Empty, which means all, where it needs them all."""
        wanted = max(1, -(-cpu_milli // MILLI))
        if wanted >= len(self._load):
            self._put(cpu_milli, range(len(self._load)))
            return ""
        cores = tuple(sorted(sorted(range(len(self._load)), key=self._load.__getitem__)[:wanted]))
        self._put(cpu_milli, cores)
        return format_cores(cores)

    def _put(self, cpu_milli: int, cores: Sequence[int]) -> None:
        for core in cores:
            self._load[core] += cpu_milli * MILLI // len(cores)


def choose_cores(cpu_milli: int, core_count: int, others: Iterable[CoreUse]) -> str:
    """What a kernel gets on a machine that runs `others`."""
    loads = CoreLoads(core_count)
    for other in others:
        loads.add(other)
    return loads.take(cpu_milli)


@lru_cache(maxsize=10_000)
def parse_cores(text: str) -> Sequence[int]:
    """The cores of "0-2,5": 0, 1, 2 and 5."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return tuple(core for low, _, high in ranges for core in range(int(low), int(high or low) + 1))


@lru_cache(maxsize=10_000)
def format_cores(cores: tuple[int, ...]) -> str:
    """The shortest text for cores that ascend: (0, 1, 2, 5) is "0-2,5"."""
    runs = [
        [core for _, core in run] for _, run in groupby(enumerate(cores), key=lambda each: each[1] - each[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
