"""In which order waiting sessions are tried. Who is next depends on what was placed before, inside one pass."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter, lt
from typing import Protocol

from scheduler.engine.policy.fair_share import NOBODY, Shares, Standing
from scheduler.engine.snapshot import PendingSession, Rules, Snapshot
from scheduler.engine.values import Policy

NOTHING = timedelta()
# An owner's share, its age in the line, whom to charge for it if anybody asks, its sessions: the next is the last.
_Turn = tuple[float, int, tuple[Standing, ...], list[PendingSession]]
# Which of a session's tenants are charged.
_SHARING = {
    Policy.FIFO: slice(0),
    Policy.LIFO: slice(0),
    Policy.DRF: slice(-1, None),
    Policy.FAIR_SHARE: slice(None),
}


class Settling(Protocol):
    """Who gives sessions the room that others left for them."""

    def settle(self, session: PendingSession, charged: tuple[Standing, ...]) -> bool:
        """Whether it got it."""

    def come_to(self, session: PendingSession) -> PendingSession:
        """It is its turn: the same session."""


class Line:
    """Every pending session once: higher bands first, inside a band its heads and then as the group's policy says, and in all else the older
    before the newer; first in, first out, which needs no heads, with ageing in the order of their head starts. `standings`: whom to charge
    for the session that came last, if it is placed. Where others are ended for sessions, each of these is settled when its band begins, and comes in its turn
    if it got nothing then."""

    def __init__(
        self, snapshot: Snapshot, now: datetime, shares: Shares, settling: Settling | None = None
    ) -> None:
        rules, self._settling = snapshot.rules, settling
        if rules.policy is Policy.FIFO and rules.ageing is not None:
            waiting = _with_head_starts(snapshot.pending, rules.ageing, now)
            self._bands = [waiting] if settling is None else _apart(waiting)
        else:
            self._bands = _bands(snapshot.pending, rules, now)
        self._policy = rules.policy
        self._shares = shares
        self.standings: tuple[Standing, ...] = ()  # none, where nobody asks any more what share they have
        self.was_charged = False  # said by who charges them: else whoever is first would stay first

    def __iter__(self) -> Iterator[PendingSession]:
        settling, bands = self._settling, iter(self._bands)
        if settling is None:
            return self._in_order(bands)
        return map(settling.come_to, self._in_order(self._unsettled(band, settling) for band in bands))

    def _in_order(self, bands: Iterator[list[PendingSession]]) -> Iterator[PendingSession]:
        """Each band is asked for when it begins."""
        if self._policy is Policy.FIFO:
            return chain.from_iterable(bands)
        most = len(self._bands)
        return chain.from_iterable(
            self._heads_first(band, is_last=number == most) for number, band in enumerate(bands, 1)
        )

    def _unsettled(self, band: list[PendingSession], settling: Settling) -> list[PendingSession]:
        charged_for, settle = self._charged_for, settling.settle
        return [each for each in band if not (each.promised and settle(each, charged_for(each)))]

    def _heads_first(self, band: list[PendingSession], *, is_last: bool) -> Iterator[PendingSession]:
        """Mostly one. If another could get before it, two that need the room of different machines might take turns, and the room that is kept
        for one be given away in the turn of the other."""
        heads = [session for session in band if session.head_rank]
        if not heads:
            return self._by_policy(band, is_last=is_last)
        heads.sort(key=attrgetter("head_rank"))
        others = [session for session in band if not session.head_rank]
        return chain(self._one_by_one(heads), self._by_policy(others, is_last=is_last))

    def _one_by_one(self, heads: Iterable[PendingSession]) -> Iterator[PendingSession]:
        for session in heads:
            self.standings = self._charged_for(session)
            yield session

    def _charged_for(self, session: PendingSession) -> tuple[Standing, ...]:
        """Whom to charge for it."""
        return tuple(map(self._shares.standing, (session.tenants or NOBODY)[_SHARING[self._policy]]))

    def _by_policy(self, band: list[PendingSession], *, is_last: bool) -> Iterator[PendingSession]:
        if self._policy is Policy.LIFO:
            return reversed(band)
        if self._policy is Policy.DRF:
            return self._least_owner_first(band, is_last=is_last)
        return self._least_share_first(band)

    def _least_owner_first(
        self, band: Iterable[PendingSession], *, is_last: bool
    ) -> Iterator[PendingSession]:
        """Where owners alone share. Most of them have few sessions, so little is made for each of them."""
        least, first, heap = self._turns(band, is_last=is_last)
        for _, age, charged, sessions in first:  # whoever was charged comes behind them
            grown = least
            while sessions and grown == least:
                session = sessions.pop()
                self.standings = charged if sessions or not is_last else ()
                yield session
                grown = charged[0].share if charged else least
            if sessions:
                heap.append((grown, age, charged, sessions))
        heapify(heap)
        while heap:
            share, age, charged, sessions = heap[0]
            session = sessions.pop()
            if not sessions:
                heappop(heap)
            self.standings = charged if sessions or not is_last else ()
            yield session
            if sessions and charged[0].share != share:
                heapreplace(heap, (charged[0].share, age, charged, sessions))

    def _turns(
        self, band: Iterable[PendingSession], *, is_last: bool
    ) -> tuple[float, list[_Turn], list[_Turn]]:
        """Of all owners in the band: the least share, whose it is, and the others."""
        shares = self._shares
        owners: dict[str, list[PendingSession]] = defaultdict(list)
        for session in band:
            owners[(session.tenants or NOBODY)[-1]].append(session)
        turns: list[_Turn] = []
        for age, (owner, sessions) in enumerate(owners.items()):
            sessions.reverse()
            # In the last band nobody asks any more what share somebody has of whom nothing waits.
            charged = () if is_last and len(sessions) == 1 else (shares.standing(owner),)
            turns.append((charged[0].share if charged else shares.share(owner), age, charged, sessions))
        least = min(map(itemgetter(0), turns), default=0.0)
        first, others = (
            [each for each in turns if each[0] == least],
            [each for each in turns if each[0] != least],
        )
        return least, first, others

    def _least_share_first(self, band: Iterable[PendingSession]) -> Iterator[PendingSession]:
        root = _tree(band, self._shares)
        while root.heap:
            leaf = root
            while heap := leaf.heap:
                share, age, standing, leaf = heap[0]
                while share != standing.share:  # it grew since it was entered
                    heapreplace(heap, (standing.share, age, standing, leaf))
                    share, age, standing, leaf = heap[0]
            self.standings, self.was_charged = leaf.path, False
            while leaf.sessions and not self.was_charged:  # else whoever was first still is
                session = leaf.sessions.pop()
                if not leaf.sessions:
                    leaf.leave()
                yield session


def _with_head_starts(
    pending: Iterable[PendingSession], ageing: timedelta, now: datetime
) -> list[PendingSession]:
    """The oldest first, as if each had come earlier by `ageing` for each one of its priority. Of two that wait the same is always ahead; if both
    were raised in steps, each at moments of its own, they would take turns, and the room that is kept for one would be given away in
    the turn of the other."""
    waiting = _oldest_first(pending)
    head_starts = {priority: priority * ageing for priority in {session.priority for session in waiting}}
    if len(head_starts) > 1:
        # Relative to now: the year has no room for large ones. Whoever came by a clock that is ahead came now.
        waiting.sort(key=lambda each: min(each.enqueued_at - now, NOTHING) - head_starts[each.priority])
    return waiting


def _bands(pending: Iterable[PendingSession], rules: Rules, now: datetime) -> list[list[PendingSession]]:
    """The sessions of equal band, the oldest first; the highest band first. A band is a priority, raised by one for each
    `rules.ageing` that the session has waited; never below the priority."""
    bands: dict[int, list[PendingSession]] = {}
    for raised, alike in _raised(_oldest_first(pending), rules.ageing, now):
        for priority, members in groupby(alike, attrgetter("priority")):
            bands.setdefault(priority + raised, []).extend(members)
    return [bands[band] for band in sorted(bands, reverse=True)]


def _apart(waiting: Iterable[PendingSession]) -> list[list[PendingSession]]:
    """In bands, so that one begins with each for which others are ended."""
    bands: list[list[PendingSession]] = [[]]
    for session in waiting:
        if session.promised:
            bands.append([])
        bands[-1].append(session)
    return bands


def _oldest_first(pending: Iterable[PendingSession]) -> list[PendingSession]:
    """Of the same moment, which is rare, the one with the smaller id."""
    waiting = list(pending)
    for key in (attrgetter("enqueued_at"), attrgetter("enqueued_at", "id")):
        moments = list(map(attrgetter("enqueued_at"), waiting))
        if all(map(lt, moments, islice(moments, 1, None))):
            break
        waiting.sort(key=key)
    return waiting


def _raised(
    waiting: list[PendingSession], ageing: timedelta | None, now: datetime
) -> Iterator[tuple[int, list[PendingSession]]]:
    """By how much sessions are raised, the oldest first, and those of them that are raised by so much."""
    start = 0
    while start < len(waiting):
        raised, end = 0, len(waiting)
        if ageing is not None and (raised := max(0, (now - waiting[start].enqueued_at) // ageing)):
            end = bisect_right(waiting, now - raised * ageing, start, key=attrgetter("enqueued_at"))
        yield raised, waiting[start:end]
        start = end


class _Node:
    """A tenant with those below it, or with its own sessions. The heap's first is who has the least share."""

    __slots__ = ("children", "heap", "parent", "path", "sessions", "standing")

    def __init__(self, standing: Standing, parent: "_Node | None" = None) -> None:
        self.standing = standing
        self.parent = parent
        # Its standing and those of all above it.
        self.path: tuple[Standing, ...] = (standing, *parent.path) if parent else ()
        self.children: dict[str, _Node] = {}
        self.heap: list[tuple[float, int, Standing, _Node]] = []  # of the children
        self.sessions: list[PendingSession] = []  # the next is the last

    def order(self) -> None:
        """To be called once, when all are in."""
        children = self.children.values()
        self.heap = [(child.standing.share, age, child.standing, child) for age, child in enumerate(children)]
        heapify(self.heap)
        for child in children:
            child.sessions.reverse()
            if child.children:
                child.order()

    def leave(self) -> None:
        """Nobody waits here any more, nor above where none is left; each of them is the first of its heap."""
        node = self
        while not (node.sessions or node.heap) and node.parent is not None:
            node = node.parent
            heappop(node.heap)


def _tree(band: Iterable[PendingSession], shares: Shares) -> _Node:
    root = _Node(Standing())
    leaves: dict[int, _Node] = {}  # by the tenants' object, which sessions of one owner share
    for session in band:
        leaf = leaves.get(id(session.tenants))
        if leaf is None:
            leaf = leaves[id(session.tenants)] = _leaf_of(session.tenants, root, shares)
        leaf.sessions.append(session)
    root.order()
    return root


def _leaf_of(tenants: tuple[str, ...], root: _Node, shares: Shares) -> _Node:
    node = root
    for key in tenants or NOBODY:
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = _Node(shares.standing(key), node)
        node = child
    return node
