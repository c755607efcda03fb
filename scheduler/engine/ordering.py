"""In which order waiting sessions are tried. Who is next depends on what was placed before, inside one pass."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from itertools import groupby
from operator import itemgetter

from scheduler.engine.model import PendingSession, Policy, Rules, Snapshot
from scheduler.engine.shares import Shares, Standing

_Place = tuple[int, datetime, int, PendingSession]  # band, negated; enqueued at; id; the session


def in_order(snapshot: Snapshot, now: datetime, shares: Shares) -> Iterator[PendingSession]:
    """Every pending session once: higher bands first, inside a band as the group's policy says, and in all else the older
    before the newer. Charge `shares` with what is placed before asking for the next."""
    line = _line(snapshot, now)
    if snapshot.rules.policy in (Policy.FIFO, Policy.LIFO):
        for place in line:
            yield place[-1]
        return
    for _, banded in groupby(line, key=itemgetter(0)):
        yield from _least_share_first((place[-1] for place in banded), shares)


def band_of(session: PendingSession, rules: Rules, now: datetime) -> int:
    """Its priority, raised by one for each `rules.ageing` that it has waited. Never below its priority."""
    if rules.ageing is None or now <= session.enqueued_at:
        return session.priority
    return session.priority + (now - session.enqueued_at) // rules.ageing


def _line(snapshot: Snapshot, now: datetime) -> list[_Place]:
    rules = snapshot.rules
    if rules.ageing is None:
        line = [(-each.priority, each.enqueued_at, each.id.int, each) for each in snapshot.pending]
    else:
        line = [
            (-band_of(each, rules, now), each.enqueued_at, each.id.int, each) for each in snapshot.pending
        ]
    line.sort()
    if rules.policy is Policy.LIFO:
        newest_first = sorted(line, key=itemgetter(1, 2), reverse=True)
        line = sorted(newest_first, key=itemgetter(0))
    return line


class _Node:
    """A tenant with those below it, or with its own sessions. The heap's first is who has the least share."""

    __slots__ = ("children", "heap", "sessions", "standing")

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.children: dict[str, _Node] = {}
        self.heap: list[tuple[float, int, _Node]] = []
        self.sessions: list[PendingSession] = []  # the next is the last

    def order(self) -> None:
        """To be called once, when all are in."""
        self.sessions.reverse()
        self.heap = [(child.standing.share, age, child) for age, child in enumerate(self.children.values())]
        heapify(self.heap)
        for child in self.children.values():
            child.order()

    def first(self) -> "_Node":
        """The child with the least share now: shares that grew since they were entered are entered again."""
        while True:
            share, age, child = self.heap[0]
            if child.standing.share == share:
                return child
            heapreplace(self.heap, (child.standing.share, age, child))

    def drop_if_over(self, child: "_Node") -> None:
        """`child` was the first; none of its sessions may be left."""
        if not child.heap and not child.sessions:
            heappop(self.heap)


def _least_share_first(sessions: Iterable[PendingSession], shares: Shares) -> Iterator[PendingSession]:
    root = _Node(Standing())
    leaves: dict[tuple[str, ...], _Node] = {}
    for session in sessions:
        leaf = leaves.get(session.tenants)
        if leaf is None:
            leaf = leaves[session.tenants] = _leaf_of(session, root, shares)
        leaf.sessions.append(session)
    root.order()

    while root.heap:
        path = [root]
        while path[-1].heap:
            path.append(path[-1].first())
        session = path[-1].sessions.pop()
        for parent, child in zip(path[-2::-1], path[:0:-1], strict=True):
            parent.drop_if_over(child)
        yield session


def _leaf_of(session: PendingSession, root: _Node, shares: Shares) -> _Node:
    node = root
    for key, standing in shares.of(session.tenants):
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = _Node(standing)
        node = child
    return node
