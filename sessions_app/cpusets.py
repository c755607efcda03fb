"""Which cores of its machine a kernel runs on, and how engines write that down. Pure.

Sessions that ask for whole cores get them apart from each other as long as there are enough; where more are asked for
than there are (several small sessions), each core carries as much as the others."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

MILLI = 1000


@dataclass(frozen=True, slots=True)
class CoreUse:
    """A kernel that is on the machine: its CPU in millicores, and its cores; none named means all."""

    cpu_milli: int
    cpuset: str


def choose_cores(cpu_milli: int, core_count: int, others: Iterable[CoreUse]) -> str:
    """The least used cores of the machine, as many as `cpu_milli` needs, in the form "0-2,5". What others use is spread
    evenly over their cores; of two that are used alike the lower number is taken. Empty, which means all, where it needs
    them all."""
    wanted = max(1, -(-cpu_milli // MILLI))
    if wanted >= core_count:
        return ""
    load = [0.0] * core_count
    for other in others:
        cores = [core for core in parse_cores(other.cpuset) if core < core_count] or range(core_count)
        for core in cores:
            load[core] += other.cpu_milli / len(cores)
    order = sorted(range(core_count), key=lambda core: (round(load[core], 3), core))
    return format_cores(sorted(order[:wanted]))


def parse_cores(text: str) -> list[int]:
    """The cores of "0-2,5": [0, 1, 2, 5]."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return [core for low, _, high in ranges for core in range(int(low), int(high or low) + 1)]


def format_cores(cores: Sequence[int]) -> str:
    """The shortest text for cores that ascend: [0, 1, 2, 5] is "0-2,5"."""
    runs = [
        [core for _, core in run] for _, run in groupby(enumerate(cores), key=lambda each: each[1] - each[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
