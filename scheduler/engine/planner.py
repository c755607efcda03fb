"""One scheduling pass: decide for each pending session where it runs or why it stays pending."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

from scheduler.engine.capacity.backfill import Prospect, longest, soonest
from scheduler.engine.capacity.fractional import machines_of
from scheduler.engine.capacity.gathering import choose, with_earlier
from scheduler.engine.collector import undisturbed
from scheduler.engine.columns import Columns, index_of
from scheduler.engine.explainer import Diagnosis
from scheduler.engine.index.agent_index import Fleet, UnknownSlot
from scheduler.engine.index.request_shape import Shape
from scheduler.engine.paused import plan_of_pause
from scheduler.engine.plan import Eviction, Placement, Plan, Reservation
from scheduler.engine.policy.fair_share import Shares, Standing, charge
from scheduler.engine.policy.preemption import Preemptor
from scheduler.engine.policy.preemption_claims import Promises
from scheduler.engine.policy.queue_order import Line
from scheduler.engine.policy.quota_tracker import Account, Allowances, return_form
from scheduler.engine.snapshot import Gathering, PendingSession, Snapshot
from scheduler.engine.values import LENGTH_OF_UNKNOWN
from scheduler.engine.what_if import Foresight, foresight_in

MOST_LOOKS = 8
"""Maximum of failed searches per pass to reserve capacity for gangs of one shape before reservation
windows: each kernel alone may have the time, though the gang has not.
"""


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide for each pending session of the snapshot: a placement, or a deferral with its reason.

    Guarantees: no agent gets more than it has free, no scope exceeds its quota; a session gets an
    agent for each kernel or for none; equal snapshots give equal plans. A session without capacity
    does not stop the pass: later ones may start before it, but capacity is reserved for the first
    that finds none, so that they do not delay it (backfill).
    """
    return Planner().plan(snapshot, now)


class Planner:
    """Planner for repeated passes over one group; decides as `plan` does. Data about objects that
    were in the last snapshot too (agents, needs, allowances) is reused.
    """

    def __init__(self) -> None:
        self._fleet: Fleet | None = None
        self._allowances: Allowances | None = None

    def plan(self, snapshot: Snapshot, now: datetime) -> Plan:
        if snapshot.rules.is_paused:
            return plan_of_pause(snapshot, now)
        with undisturbed():
            return self._pass_over(snapshot, now).answer()

    def foresee(self, snapshot: Snapshot, session: PendingSession | None, now: datetime) -> Foresight:
        """Return the decision about `session`, one of the snapshot (None: no session), and all
        placements. Reasons of other deferrals are computed when read.
        """
        if snapshot.rules.is_paused:
            return foresight_in(plan_of_pause(snapshot, now), session)
        with undisturbed():
            return self._pass_over(snapshot, now).answer_for(session)

    def _pass_over(self, snapshot: Snapshot, now: datetime) -> "_Pass":
        if self._fleet is None or not self._fleet.follow(snapshot):
            self._fleet, self._allowances = Fleet(snapshot), None
        try:
            return self._decide_with(self._fleet, snapshot, now)
        except UnknownSlot:
            self._fleet, self._allowances = Fleet(snapshot), None
            return self._decide_with(self._fleet, snapshot, now)

    def _decide_with(self, fleet: Fleet, snapshot: Snapshot, now: datetime) -> "_Pass":
        if self._allowances is None or not self._allowances.follow(snapshot.allowances):
            self._allowances = Allowances(snapshot.allowances, fleet.layout)
        decided = _Pass(snapshot, now, fleet, self._allowances)
        decided.run()
        return decided


class _Pass:
    def __init__(self, snapshot: Snapshot, now: datetime, fleet: Fleet, allowances: Allowances) -> None:
        self._snapshot = snapshot
        self._now = now
        self._patient_since = now - snapshot.rules.patience
        self._fleet = fleet
        self._layout = fleet.layout
        least_memory = fleet.learn_shapes(snapshot.pending)
        self._machines = machines_of(fleet, now, snapshot.companions, least_memory)
        self._allowances = allowances
        self._placed: list[PendingSession] = []
        self._agent_ids: list[tuple[int, ...]] = []  # one for each of `_placed`
        self._waiting: list[PendingSession] = []
        self._waiting_shapes: list[Shape] = []  # one for each of `_waiting`
        self._reservations: list[Reservation] = []
        self._gathered: list[Gathering] = []
        self._runnable: dict[Shape, bool] = {}  # by shape that exceeded a quota
        self._heads: list[UUID] = []  # pinned heads with a reservation again
        self._first_kept: UUID | None = None  # first other session with one
        self._evictions: list[Eviction] = []
        self._making_room: dict[UUID, datetime] = {}  # latest end of the preemptions, by session
        self._nothing_is_left_for: set[tuple[Shape, timedelta | None]] = set()
        rule = snapshot.rules.preemption
        self._preemptor = None if rule is None else Preemptor(fleet, self._machines, rule, now)
        # Pending preemption claims on each quota: reserved until the turn of the claiming sessions,
        # and theirs as soon as the victims end.
        self._on_the_way: Counter[Account] = Counter()
        promised = [
            (each, each.promised.agent_id) for each in snapshot.pending if self._preemptor and each.promised
        ]
        for session, agent_id in promised:
            self._machines.promise(agent_id)
            for account in allowances.of(session.scopes):
                self._on_the_way[account] += fleet.shapes[id(session.needs)].total
        self._promises = Promises(fleet, self._machines, now)
        self._line = Line(snapshot, now, Shares(snapshot, fleet.total), self if promised else None)

    def run(self) -> None:
        """Try every session in order. Takes a few microseconds per session, so lookups are hoisted
        out of the loop.
        """
        line, machines, guards = self._line, self._machines, self._layout.guards
        shapes = self._fleet.shapes
        known_accounts, accounts_of = self._allowances.by_scopes, self._allowances.of
        add_placed, add_agents = self._placed.append, self._agent_ids.append
        wait, wait_shaped = self._waiting.append, self._waiting_shapes.append
        patient_since, preemptor, knows_until = self._patient_since, self._preemptor, machines.knows_until
        for session in line:
            needs, scopes, lasts = session.needs, session.scopes, session.lasts
            shape = shapes[id(needs)]
            # Shortcut for nearly all sessions of a long queue: the shape found no capacity, the
            # session cannot use reserved capacity, and it is too early to reserve or preempt.
            if (
                shape.has_no_room
                and session.enqueued_at > patient_since
                and not (shape.is_bounded or preemptor or session.promised)
                and (lasts is None or not knows_until())
            ):
                wait(session)
                wait_shaped(shape)
                continue
            accounts = known_accounts.get(scopes) or accounts_of(scopes)
            total, met = shape.total, guards
            for account in accounts:
                account.left = left = account.left - total
                met &= left
            if met != guards:
                return_form(accounts, total)
                self._wait_for_limit(session, shape)
                continue
            until = None if lasts is None else self._now + lasts
            agent_ids = machines.place(shape, until)
            if agent_ids is None:
                return_form(accounts, total)
                self._wait_for_room(session, shape)
                continue
            add_placed(session)
            add_agents(agent_ids)
            if standings := line.standings:
                charge(standings, shape.fractions)
                line.was_charged = True

    def settle(self, session: PendingSession, charged: tuple[Standing, ...]) -> bool:
        """Place the session on capacity freed by its preemptions. Return False if it is not free
        yet, or a quota is exceeded.
        """
        shape, accounts = self._fleet.shapes[id(session.needs)], self._allowances.of(session.scopes)
        guards, total = self._layout.guards, shape.total
        if any((each.left - total) & guards != guards for each in accounts):
            return False
        until = None if session.lasts is None else self._now + session.lasts
        agent_ids = self._promises.place(session, shape, until)
        if agent_ids is None:
            return False
        for account in accounts:
            account.left -= total
            self._on_the_way[account] -= total
        self._placed.append(session)
        self._agent_ids.append(agent_ids)
        charge(charged, shape.fractions)
        return True

    def come_to(self, session: PendingSession) -> PendingSession:
        if session.promised:
            self._promises.come_to(session)
        return session

    def _wait_for_room(self, session: PendingSession, shape: Shape) -> None:
        if not (self._keep_promise(session, shape) or self._evict_for(session, shape)):
            self._keep_room(session, shape)
        shape.has_no_room = True
        self._wait(session, shape)

    def _wait_for_limit(self, session: PendingSession, shape: Shape) -> None:
        if self._has_waited(session) and self._may_run(shape):
            self._allowances.gather(session, shape.total)
        self._wait(session, shape)

    def _may_run(self, shape: Shape) -> bool:
        """Return True if schedulable agents are large enough; otherwise no quota accumulates for
        the shape.
        """
        if shape not in self._runnable:
            self._runnable[shape] = self._fleet.may_hold(shape)
        return self._runnable[shape]

    def _wait(self, session: PendingSession, shape: Shape) -> None:
        self._waiting.append(session)
        self._waiting_shapes.append(shape)

    def _keep_promise(self, session: PendingSession, shape: Shape) -> bool:
        """Reserve the capacity of its pending preemptions, if still possible."""
        ordinal = self._promises.agent_for(session, shape)
        if session.promised is None or ordinal is None:
            return False
        until = session.promised.until
        for account in self._allowances.of(session.scopes):
            self._on_the_way[account] -= shape.total  # reserved with the agent instead
        self._keep_on(session, shape, [ordinal], until if until > self._now else None, is_first=False)
        self._making_room[session.id] = until
        return True

    def _evict_for(self, session: PendingSession, shape: Shape) -> bool:
        """Preempt others for the session, unless capacity becomes free as soon without that. Return
        True if capacity is reserved for it now.
        """
        preemptor, rule = self._preemptor, self._snapshot.rules.preemption
        if preemptor is None or rule is None or not preemptor.may_evict_for(session, shape):
            return False
        if session.promised or not self._may_have_on_the_way(session, shape):
            return False
        by = self._now + rule.grace
        prospect = self._soonest(session, shape, self._machines.hosts, known_only=True)
        if prospect is not None and prospect.is_in_time(by):
            return False
        if self._keep_beside(session, shape, by):
            preemptor.note_look()
            return True
        eviction = preemptor.evict_for(session, shape)
        if eviction is None:
            return False
        self._evictions.append(eviction)
        self._reservations.append(Reservation(session.id, (eviction.agent_id,), eviction.ends_at))
        self._making_room[session.id] = eviction.ends_at
        self._allowances.set_aside(session, shape.total, of_owner_alone=False)
        return True

    def _keep_beside(self, session: PendingSession, shape: Shape, by: datetime) -> bool:
        """Reserve capacity that will be free before the preemption grace period ends, even if the
        pool already has a reservation, so that no session is preempted.
        """
        key = shape, session.lasts if shape.is_bounded else None
        if shape.designated is not None or key in self._nothing_is_left_for:
            return False
        prospect = self._soonest(session, shape, self._machines.clearable, known_only=True)
        if prospect is None or not prospect.is_in_time(by):
            self._nothing_is_left_for.add(key)
            return False
        self._keep_on(session, shape, prospect.ordinals, prospect.until, is_first=False)
        return True

    def _soonest(
        self,
        session: PendingSession,
        shape: Shape,
        hosts_of: Callable[[Shape], list[int]],
        *,
        known_only: bool,
    ) -> Prospect | None:
        """Return the soonest prospect. If `known_only` and no end is known, return None without
        looking at agents.
        """
        machines = self._machines
        if known_only and not machines.has_ends():
            return None
        hosts, now = hosts_of(shape), self._now
        return soonest(machines, self._layout, shape, now, session.lasts, hosts=hosts, known_only=known_only)

    def _may_have_on_the_way(self, session: PendingSession, shape: Shape) -> bool:
        """Return True if its quotas suffice even after all pending preemption claims."""
        layout = self._layout
        return all(
            layout.fits(shape.total, layout.less(account.left ^ layout.guards, self._on_the_way[account]))
            for account in self._allowances.of(session.scopes)
        )

    def _keep_room(self, session: PendingSession, shape: Shape) -> None:
        """Make a backfill reservation for `session` where capacity is free first; if no time is
        known, only after the group's patience.
        """
        has_waited = self._has_waited(session)
        if not shape.may_keep or self._keeps_none(session, shape, has_waited=has_waited):
            return
        prospect = self._soonest(session, shape, self._machines.hosts, known_only=True)
        if prospect is None and has_waited:
            prospect = self._gather(session, shape)
        if prospect is not None:
            self._keep_on(session, shape, prospect.ordinals, prospect.until)
            if prospect.until is not None:
                self._note_head(session)
            shape.may_keep = False
        elif shape.is_bounded:
            shape.looks_in_vain += 1
        else:
            shape.may_keep, shape.looked_in_vain = not has_waited, True

    def _gather(self, session: PendingSession, shape: Shape) -> Prospect | None:
        """Return where capacity accumulates for the session: at its last choice while that holds,
        else where it is expected to suffice first.
        """
        was, ids, there = session.gathered, self._fleet.ids, None
        if was is not None:
            hosts = [each for each in self._machines.hosts(shape) if ids[each] in was.agent_ids]
            there = self._soonest(session, shape, lambda _: hosts, known_only=False)
            if there is not None and was.holds_at(self._now):
                self._gathered.append(was)
                return there
        best = self._soonest(session, shape, self._machines.hosts, known_only=False)
        if best is None or best.until is not None:
            return best
        chosen, gathering = choose(session, best, there, self._now, ids)
        self._gathered.append(gathering)
        return chosen

    def _keeps_none(self, session: PendingSession, shape: Shape, *, has_waited: bool) -> bool:
        """Return True if a search cannot succeed: it failed for another session of the shape, or
        the session is too long to end before the next reservation windows.
        """
        if not shape.is_bounded:
            return shape.looked_in_vain and not has_waited
        if has_waited not in shape.longest:
            hosts = self._machines.hosts(shape)
            shape.longest[has_waited] = longest(
                self._machines, self._layout, shape, self._now, hosts=hosts, known_only=not has_waited
            )
        lasts = LENGTH_OF_UNKNOWN if session.lasts is None else session.lasts
        return lasts > shape.longest[has_waited] or shape.looks_in_vain >= MOST_LOOKS

    def _note_head(self, session: PendingSession) -> None:
        """Pin at most one new head. With several, two that need different agents could close these
        in turn to a third that needs both, or the better one, and is ahead of them.
        """
        if session.head_rank:
            self._heads.append(session.id)
        elif self._first_kept is None:
            self._first_kept = session.id

    def _keep_on(
        self,
        session: PendingSession,
        shape: Shape,
        ordinals: list[int],
        until: datetime | None,
        *,
        is_first: bool = True,
    ) -> None:
        agent_ids = self._machines.keep(shape, ordinals, until, priority=session.priority, is_first=is_first)
        self._reservations.append(Reservation(session.id, agent_ids, until))
        of_owner_alone = until is None and session.promised is None
        self._allowances.set_aside(session, shape.total, of_owner_alone=of_owner_alone)

    def _has_waited(self, session: PendingSession) -> bool:
        """Return True if the session has waited for the group's patience."""
        return session.enqueued_at <= self._patient_since

    def answer(self) -> Plan:
        """Return the plan. Call it, or `answer_for`, once after `run`."""
        snapshot, diagnosis = self._snapshot, self._diagnosis()
        return Plan(
            group_id=snapshot.group_id,
            group_name=snapshot.group_name,
            epoch=snapshot.epoch,
            planned_at=self._now,
            placements=self._placements(),
            deferrals=diagnosis.of_all(self._waiting, self._waiting_shapes),
            reservations=tuple(self._reservations),
            evictions=tuple(self._evictions),
            heads=tuple(self._heads) or (() if self._first_kept is None else (self._first_kept,)),
            gathered=with_earlier(self._gathered, self._waiting),
        )

    def answer_for(self, session: PendingSession | None) -> Foresight:
        diagnosis, waiting, shapes = self._diagnosis(), self._waiting, self._waiting_shapes
        placements = self._placements()
        placed, index = index_of(session, self._placed), index_of(session, waiting)
        return Foresight(
            placement=None if placed is None else placements[placed],
            deferral=None if index is None else diagnosis.of(waiting[index], shapes[index], index + 1),
            ahead=map(diagnosis.of, waiting[:index], shapes, count(1)),
            placements=placements,
            reservations=tuple(self._reservations),
            gathered=tuple(self._gathered),
        )

    def _placements(self) -> Sequence[Placement]:
        return Columns(Placement, self._placed, self._agent_ids)

    def _diagnosis(self) -> Diagnosis:
        is_enough = self._snapshot.rules.ageing is None
        return Diagnosis(
            self._machines,
            self._layout,
            self._allowances,
            self._making_room,
            self._waiting,
            is_raise_enough=is_enough,
        )
