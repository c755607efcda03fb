"""Machines and the sessions that wait for them, as plain records: the same for each scheduler that is measured.

Standard library alone: it is imported in the peer's virtual environment too.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

SEED = 23
GIB = 2**30
DOMAINS, PROJECTS, USERS = 8, 50, 400
KINDS = {"cpu": 30, "gpu": 65, "gang": 5}  # in hundred sessions
GPUS = (1, 2, 4, 8)
SHARES_MILLI = (100, 250, 500)
PAUSE = "pause"  # a line of the peer's process, which then waits for one


class Size(NamedTuple):
    """Of a node or of one container; a whole GPU is a thousand."""

    cores: int
    mem_gib: int
    milli_gpus: int = 0


class Session(NamedTuple):
    """The older, the smaller its number. `containers` of one size start together or not at all."""

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
    """`nodes` machines of one kind, each of which holds `held` already."""

    nodes: int
    sessions: tuple[Session, ...]
    held: Size = Size(0, 0)

    @property
    def free_gpus(self) -> float:
        return self.nodes * (NODE.milli_gpus - self.held.milli_gpus) / 1000


NODE = Size(64, 512, 8000)


def mixed(nodes: int, pending: int, *, is_fractional: bool = False) -> Workload:
    """What a busy cluster waits for. Fractional: sessions of one GPU ask for a share of one."""
    chance = random.Random(SEED)
    return Workload(
        nodes, tuple(_any_session(chance, number, is_fractional=is_fractional) for number in range(pending))
    )


def user_by_user(nodes: int = 100, users: int = 10, each: int = 200) -> Workload:
    """Users of one project: each asks for `each` sessions of one GPU, all before the next user comes."""
    owners = (user * PROJECTS for user in range(users) for _ in range(each))
    return Workload(nodes, _alike(owners, first=0))


def behind_a_gang(nodes: int = 100) -> Workload:
    """Half of each machine is free. One user asks for a gang on whole ones, then for sessions that have room."""
    gang = Session(0, 0, NODE, containers=4)
    fitting = [0] * (nodes * NODE.milli_gpus // 2000)
    return Workload(nodes, (gang, *_alike(fitting, first=1)), held=Size(*(amount // 2 for amount in NODE)))


WORKLOADS: dict[str, Callable[..., Workload]] = {
    each.__name__: each for each in (mixed, user_by_user, behind_a_gang)
}


def held_after(workload: Workload, count: int) -> list[Size]:
    """What each node holds once the oldest `count` sessions run, each container on the first node that has room."""
    held = [workload.held] * workload.nodes
    for session in workload.sessions[:count]:
        for _ in range(session.containers):
            after = (_sum(each, session.size) for each in held)
            number, size = next(pair for pair in enumerate(after) if _fits(pair[1], NODE))
            held[number] = size
    return held


def jain(amounts: Sequence[float]) -> float:
    """How evenly something is shared: 1 = everybody has as much, 1/n = one has all; 0 where nobody has any."""
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
