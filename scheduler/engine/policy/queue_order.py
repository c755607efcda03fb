"""Order pending sessions for a pass, by priority and policy; the next one depends on placements so
far.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from heapq import heapify, heappop, heapreplace
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter, lt
from typing import Protocol

from scheduler.engine.policy.fair_share import NO_TENANTS, TenantShare, TenantShares
from scheduler.engine.snapshot import PendingSession, Rules, Snapshot
from scheduler.engine.values import Policy

NOTHING = timedelta()
# Owner's share, age in the queue, entries to charge if needed, sessions (the next is the last).
_Turn = tuple[float, int, tuple[TenantShare, ...], list[PendingSession]]
# Tenants of a session that are charged.
_CHARGED_TENANTS = {
    Policy.FIFO: slice(0),
    Policy.LIFO: slice(0),
    Policy.DRF: slice(-1, None),
    Policy.FAIR_SHARE: slice(None),
}


class ClaimPlacer(Protocol):
    """Interface of the planner to give sessions the capacity freed by their preemptions."""

    def place_on_claim(self, session: PendingSession, charged: tuple[TenantShare, ...]) -> bool:
        """Place the session on freed capacity. Return True if placed."""

    def begin_turn(self, session: PendingSession) -> PendingSession:
        """Begin the turn of the session, and return it."""


class QueueOrder:
    """Iterable of all pending sessions: higher bands first; within a band pinned heads, then by
    policy; ties by age. FIFO needs no heads; with ageing it orders by age plus head start.
    `standings`: entries to charge if the session yielded last is placed. Sessions with preemption
    claims are tried when their band begins, and again in their turn if that failed.
    """

    def __init__(
        self, snapshot: Snapshot, now: datetime, shares: TenantShares, settling: ClaimPlacer | None = None
    ) -> None:
        rules, self._placer = snapshot.rules, settling
        if rules.policy is Policy.FIFO and rules.ageing is not None:
            waiting = _with_head_starts(snapshot.pending, rules.ageing, now)
            self._bands = [waiting] if settling is None else _split_at_claims(waiting)
        else:
            self._bands = _bands(snapshot.pending, rules, now)
        self._policy = rules.policy
        self._shares = shares
        self.charged: tuple[TenantShare, ...] = ()  # empty if the share no longer matters
        self.was_charged = False  # set by the caller: otherwise the first would stay first

    def __iter__(self) -> Iterator[PendingSession]:
        settling, bands = self._placer, iter(self._bands)
        if settling is None:
            return self._in_order(bands)
        return map(
            settling.begin_turn, self._in_order(self._without_placed_claims(band, settling) for band in bands)
        )

    def _in_order(self, bands: Iterator[list[PendingSession]]) -> Iterator[PendingSession]:
        """Chain the bands; each is made when it begins."""
        if self._policy is Policy.FIFO:
            return chain.from_iterable(bands)
        most = len(self._bands)
        return chain.from_iterable(
            self._heads_first(band, is_last=number == most) for number, band in enumerate(bands, 1)
        )

    def _without_placed_claims(
        self, band: list[PendingSession], settling: ClaimPlacer
    ) -> list[PendingSession]:
        charged_for, settle = self._charged_shares, settling.place_on_claim
        return [each for each in band if not (each.preemption_claim and settle(each, charged_for(each)))]

    def _heads_first(self, band: list[PendingSession], *, is_last: bool) -> Iterator[PendingSession]:
        """Yield pinned heads first, mostly one. Otherwise two sessions that need different agents
        might take turns, and the capacity reserved for one be lost in the turn of the other.
        """
        heads = [session for session in band if session.head_rank]
        if not heads:
            return self._by_policy(band, is_last=is_last)
        heads.sort(key=attrgetter("head_rank"))
        others = [session for session in band if not session.head_rank]
        return chain(self._one_by_one(heads), self._by_policy(others, is_last=is_last))

    def _one_by_one(self, heads: Iterable[PendingSession]) -> Iterator[PendingSession]:
        for session in heads:
            self.charged = self._charged_shares(session)
            yield session

    def _charged_shares(self, session: PendingSession) -> tuple[TenantShare, ...]:
        """Return the fair-share entries to charge for a session."""
        return tuple(map(self._shares.entry, (session.tenants or NO_TENANTS)[_CHARGED_TENANTS[self._policy]]))

    def _by_policy(self, band: list[PendingSession], *, is_last: bool) -> Iterator[PendingSession]:
        if self._policy is Policy.LIFO:
            return reversed(band)
        if self._policy is Policy.DRF:
            return self._least_owner_first(band, is_last=is_last)
        return self._least_share_first(band)

    def _least_owner_first(
        self, band: Iterable[PendingSession], *, is_last: bool
    ) -> Iterator[PendingSession]:
        """Order a band by the owner with the least share (DRF). Most owners have few sessions, so
        little is built per owner.
        """
        least, first, heap = self._turns(band, is_last=is_last)
        for _, age, charged, sessions in first:  # charged owners go behind these
            grown = least
            while sessions and grown == least:
                session = sessions.pop()
                self.charged = charged if sessions or not is_last else ()
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
            self.charged = charged if sessions or not is_last else ()
            yield session
            if sessions and charged[0].share != share:
                heapreplace(heap, (charged[0].share, age, charged, sessions))

    def _turns(
        self, band: Iterable[PendingSession], *, is_last: bool
    ) -> tuple[float, list[_Turn], list[_Turn]]:
        """Return the least share, the owners with it, and the others."""
        shares = self._shares
        owners: dict[str, list[PendingSession]] = defaultdict(list)
        for session in band:
            owners[(session.tenants or NO_TENANTS)[-1]].append(session)
        turns: list[_Turn] = []
        for age, (owner, sessions) in enumerate(owners.items()):
            sessions.reverse()
            # In the last band the share of an owner without further sessions does not matter.
            charged = () if is_last and len(sessions) == 1 else (shares.entry(owner),)
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
                share, age, share_entry, leaf = heap[0]
                while share != share_entry.share:  # it grew since it was inserted
                    heapreplace(heap, (share_entry.share, age, share_entry, leaf))
                    share, age, share_entry, leaf = heap[0]
            self.charged, self.was_charged = leaf.path, False
            while leaf.sessions and not self.was_charged:  # otherwise the first is still first
                session = leaf.sessions.pop()
                if not leaf.sessions:
                    leaf.leave()
                yield session


def _with_head_starts(
    pending: Iterable[PendingSession], ageing: timedelta, now: datetime
) -> list[PendingSession]:
    """Sort by age plus a head start of `ageing` per priority. The order of two sessions never
    changes; if both were raised in steps at different moments, they would take turns, and the
    capacity reserved for one would be lost in the turn of the other.
    """
    waiting = _oldest_first(pending)
    head_starts = {priority: priority * ageing for priority in {session.priority for session in waiting}}
    if len(head_starts) > 1:
        # Relative to now, as large head starts overflow dates. Enqueue times in the future (clock
        # skew) count as now.
        waiting.sort(key=lambda each: min(each.enqueued_at - now, NOTHING) - head_starts[each.priority])
    return waiting


def _bands(pending: Iterable[PendingSession], rules: Rules, now: datetime) -> list[list[PendingSession]]:
    """Return the sessions per band, highest band first, oldest first within. A band is the priority
    plus one for each `rules.ageing` waited.
    """
    bands: dict[int, list[PendingSession]] = {}
    for raised, alike in _by_raise(_oldest_first(pending), rules.ageing, now):
        for priority, members in groupby(alike, attrgetter("priority")):
            bands.setdefault(priority + raised, []).extend(members)
    return [bands[band] for band in sorted(bands, reverse=True)]


def _split_at_claims(waiting: Iterable[PendingSession]) -> list[list[PendingSession]]:
    """Split into bands, so that each session with a preemption claim begins one."""
    bands: list[list[PendingSession]] = [[]]
    for session in waiting:
        if session.preemption_claim:
            bands.append([])
        bands[-1].append(session)
    return bands


def _oldest_first(pending: Iterable[PendingSession]) -> list[PendingSession]:
    """Sort by enqueue time, then by id; equal times are rare."""
    waiting = list(pending)
    for key in (attrgetter("enqueued_at"), attrgetter("enqueued_at", "id")):
        moments = list(map(attrgetter("enqueued_at"), waiting))
        if all(map(lt, moments, islice(moments, 1, None))):
            break
        waiting.sort(key=key)
    return waiting


def _by_raise(
    waiting: list[PendingSession], ageing: timedelta | None, now: datetime
) -> Iterator[tuple[int, list[PendingSession]]]:
    """Yield raises with the sessions that have waited for so many ageing periods, oldest first."""
    start = 0
    while start < len(waiting):
        raised, end = 0, len(waiting)
        if ageing is not None and (raised := max(0, (now - waiting[start].enqueued_at) // ageing)):
            end = bisect_right(waiting, now - raised * ageing, start, key=attrgetter("enqueued_at"))
        yield raised, waiting[start:end]
        start = end


class _Node:
    """Tenant with its children or own sessions; the first of the heap has the least share."""

    __slots__ = ("children", "heap", "parent", "path", "sessions", "share_entry")

    def __init__(self, share_entry: TenantShare, parent: "_Node | None" = None) -> None:
        self.share_entry = share_entry
        self.parent = parent
        # Its own entry and those of its ancestors.
        self.path: tuple[TenantShare, ...] = (share_entry, *parent.path) if parent else ()
        self.children: dict[str, _Node] = {}
        self.heap: list[tuple[float, int, TenantShare, _Node]] = []  # children
        self.sessions: list[PendingSession] = []  # the next is the last

    def order(self) -> None:
        """Build the heaps. Call once, when all sessions are added."""
        children = self.children.values()
        self.heap = [
            (child.share_entry.share, age, child.share_entry, child) for age, child in enumerate(children)
        ]
        heapify(self.heap)
        for child in children:
            child.sessions.reverse()
            if child.children:
                child.order()

    def leave(self) -> None:
        """Remove a node without pending sessions, and its empty ancestors; each is the first of its
        heap.
        """
        node = self
        while not (node.sessions or node.heap) and node.parent is not None:
            node = node.parent
            heappop(node.heap)


def _tree(band: Iterable[PendingSession], shares: TenantShares) -> _Node:
    root = _Node(TenantShare())
    leaves: dict[tuple[str, ...], _Node] = {}  # by tenants
    for session in band:
        leaf = leaves.get(session.tenants)
        if leaf is None:
            leaf = leaves[session.tenants] = _leaf_of(session.tenants, root, shares)
        leaf.sessions.append(session)
    root.order()
    return root


def _leaf_of(tenants: tuple[str, ...], root: _Node, shares: TenantShares) -> _Node:
    node = root
    for key in tenants or NO_TENANTS:
        child = node.children.get(key)
        if child is None:
            child = node.children[key] = _Node(shares.entry(key), node)
        node = child
    return node
