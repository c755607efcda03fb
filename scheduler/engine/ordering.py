"""In which order waiting sessions are tried. Who is next depends on what was placed before, inside one pass."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heapreplace
from operator import attrgetter

from scheduler.engine.model import PendingSession, Policy, Rules, Snapshot
from scheduler.engine.shares import Fractions, Shares, Standing


class Line:
    """Every pending session once: higher bands first, inside a band as the group's policy says, and in all else the older
    before the newer."""

    def __init__(self, snapshot: Snapshot, now: datetime, shares: Shares) -> None:
        self._bands = _bands(snapshot.pending, snapshot.rules, now)
        self._policy = snapshot.rules.policy
        self._shares = shares
        self._tenant = _Node(Standing())  # whose session was the last, where shares count

    def __iter__(self) -> Iterator[PendingSession]:
        for number, band in enumerate(self._bands, start=1):
            if self._policy is Policy.FIFO:
                yield from band
            elif self._policy is Policy.LIFO:
                yield from reversed(band)
            else:
                yield from self._least_share_first(band, is_last=number == len(self._bands))

    def charge(self, fractions: Fractions) -> None:
        """Let the tenants of the session that came last hold so much more."""
        node = self._tenant
        while node.parent is not None:
            node.standing.charge(fractions)
            node = node.parent

    def _least_share_first(
        self, band: Iterable[PendingSession], *, is_last: bool
    ) -> Iterator[PendingSession]:
        root = _tree(band, self._shares)
        while root.heap:
            node = root
            while heap := node.heap:
                share, age, child = heap[0]
                while share != child.standing.share:  # it grew since it was entered
                    heapreplace(heap, (child.standing.share, age, child))
                    share, age, child = heap[0]
                node = child
            leaf, session = node, node.sessions.pop()
            while not (node.sessions or node.heap) and node.parent is not None:
                node = node.parent
                heappop(node.heap)
            # Of an owner of whom nothing waits any more the share interests nobody, unless the owner is in two projects.
            self._tenant = node if is_last and self._policy is Policy.DRF else leaf
            yield session


def _bands(pending: Iterable[PendingSession], rules: Rules, now: datetime) -> list[list[PendingSession]]:
    """The sessions of equal band, the oldest first; the highest band first. A band is a priority, raised by one for each
    `rules.ageing` that the session has waited; never below the priority."""
    bands: dict[int, list[PendingSession]] = {}
    raised, since = (
        0,
        datetime.min.replace(tzinfo=now.tzinfo),
    )  # by how much, if it waits since then or longer
    for session in sorted(pending, key=attrgetter("enqueued_at", "id")):
        if rules.ageing is not None and session.enqueued_at > since:
            raised = max(0, (now - session.enqueued_at) // rules.ageing)
            since = now - raised * rules.ageing
        band = session.priority + raised
        if band in bands:
            bands[band].append(session)
        else:
            bands[band] = [session]
    return [bands[band] for band in sorted(bands, reverse=True)]


class _Node:
    """A tenant with those below it, or with its own sessions. The heap's first is who has the least share."""

    __slots__ = ("children", "heap", "parent", "sessions", "standing")

    def __init__(self, standing: Standing, parent: "_Node | None" = None) -> None:
        self.standing = standing
        self.parent = parent
        self.children: dict[str, _Node] = {}
        self.heap: list[tuple[float, int, _Node]] = []
        self.sessions: list[PendingSession] = []  # the next is the last

    def order(self) -> None:
        """To be called once, when all are in."""
        children = self.children.values()
        self.heap = [(child.standing.share, age, child) for age, child in enumerate(children)]
        heapify(self.heap)
        for child in children:
            child.sessions.reverse()
            if child.children:
                child.order()


def _tree(band: Iterable[PendingSession], shares: Shares) -> _Node:
    root = _Node(Standing())
    leaves: dict[tuple[str, ...], _Node] = {}
    for session in band:
        leaf = leaves.get(session.tenants)
        if leaf is None:
            leaf = leaves[session.tenants] = _leaf_of(session.tenants, root, shares)
        leaf.sessions.append(session)
    root.order()
    return root


def _leaf_of(tenants: tuple[str, ...], root: _Node, shares: Shares) -> _Node:
    node = root
    for key in shares.keys(tenants):
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = _Node(shares.standing(key), node)
        node = child
    return node
