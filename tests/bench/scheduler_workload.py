"""Define agents and pending sessions as plain records, the same for each scheduler measured.

Uses the standard library only: the peer's virtual environment imports it too.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

SEED = 23
GIB = 2**30
DOMAINS, PROJECTS, USERS = 8, 50, 400
KINDS = {"cpu": 30, "gpu": 65, "gang": 5}  # per hundred sessions
GPUS = (1, 2, 4, 8)
SHARES_MILLI = (100, 250, 500)
PAUSE = "pause"  # printed by the peer's process, which then waits for a line


class Size(NamedTuple):
    """Size of a node or of one container; one GPU is 1000."""

    cores: int
    mem_gib: int
    milli_gpus: int = 0


class Session(NamedTuple):
    """Pending session; older ones have smaller numbers.

    Its equal `containers` start all or none.
    """

    number: int
    user: int
    size: Size
    containers: int = 1

    @property
    def project(self) -> int:
        return self.user % PROJECTS

    @property
    def domain(self) -> int:
        return self.project % DOMAINS


class Workload(NamedTuple):
    """Pending sessions and `nodes` equal nodes, each with `held` allocated already."""

    nodes: int
    sessions: tuple[Session, ...]
    held: Size = Size(0, 0)

    @property
    def free_gpus(self) -> float:
        return self.nodes * (NODE.milli_gpus - self.held.milli_gpus) / 1000


NODE = Size(64, 512, 8000)


def mixed(nodes: int, pending: int, *, is_fractional: bool = False) -> Workload:
    """Return a mixed workload. Fractional: sessions of one GPU ask for a share of one instead."""
    chance = random.Random(SEED)
    return Workload(
        nodes, tuple(_any_session(chance, number, is_fractional=is_fractional) for number in range(pending))
    )


def user_by_user(nodes: int = 100, users: int = 10, each: int = 200) -> Workload:
    """Return `each` one-GPU sessions per user of a project, all of one user before the next."""
    owners = (user * PROJECTS for user in range(users) for _ in range(each))
    return Workload(nodes, _alike(owners, first=0))


def behind_a_gang(nodes: int = 100) -> Workload:
    """Return a workload on half-free nodes: a gang that needs whole
    ones, then sessions that fit.
    """
    gang = Session(0, 0, NODE, containers=4)
    fitting = [0] * (nodes * NODE.milli_gpus // 2000)
    return Workload(nodes, (gang, *_alike(fitting, first=1)), held=Size(*(amount // 2 for amount in NODE)))


WORKLOADS: dict[str, Callable[..., Workload]] = {
    each.__name__: each for each in (mixed, user_by_user, behind_a_gang)
}


def held_after(workload: Workload, count: int) -> list[Size]:
    """Return the allocation of each node once the oldest `count` sessions run (first fit)."""
    held = [workload.held] * workload.nodes
    for session in workload.sessions[:count]:
        for _ in range(session.containers):
            after = (_sum(each, session.size) for each in held)
            number, size = next(pair for pair in enumerate(after) if _fits(pair[1], NODE))
            held[number] = size
    return held


def jain(amounts: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 = equal shares, 1/n = one has all; 0 if all are 0."""
    squares = sum(amount**2 for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 0.0


def _any_session(chance: random.Random, number: int, *, is_fractional: bool) -> Session:
    user = chance.randrange(USERS)
    [kind] = chance.choices(list(KINDS), weights=list(KINDS.values()))
    if kind == "cpu":
        cores = chance.choice((1, 2, 4, 8, 16))
        return Session(number, user, Size(cores, cores * chance.choice((2, 4, 8))))
    if kind == "gang":
        return Session(number, user, _with_gpus(chance, chance.choice((4, 8))), chance.randint(2, 4))
    size = _with_gpus(chance, chance.choice(GPUS))
    if is_fractional and size.milli_gpus == 1000:
        size = size._replace(milli_gpus=chance.choice(SHARES_MILLI))
    return Session(number, user, size)


def _with_gpus(chance: random.Random, gpus: int) -> Size:
    return Size(gpus * chance.choice((2, 4, 8)), gpus * chance.choice((16, 32, 64)), gpus * 1000)


def _alike(users: Iterable[int], *, first: int) -> tuple[Session, ...]:
    return tuple(Session(number, user, Size(4, 32, 1000)) for number, user in enumerate(users, start=first))


def _sum(one: Size, other: Size) -> Size:
    return Size(one.cores + other.cores, one.mem_gib + other.mem_gib, one.milli_gpus + other.milli_gpus)


def _fits(asked: Size, room: Size) -> bool:
    return asked.cores <= room.cores and asked.mem_gib <= room.mem_gib and asked.milli_gpus <= room.milli_gpus
