"""One scheduling pass: decide for each pending session where it runs or why it stays pending."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

from common.values.resources import ResourceSlots
from scheduler.engine.agent_views import total_capacity
from scheduler.engine.capacity.accumulation import choose_accumulation, with_earlier_choices
from scheduler.engine.capacity.backfill import EarliestStart, earliest_start, longest_runtime
from scheduler.engine.capacity.tracker import CapacityTracker
from scheduler.engine.columns import Columns, index_by_identity
from scheduler.engine.explainer import Explainer
from scheduler.engine.index.agent_index import AgentIndex, UnknownSlot
from scheduler.engine.index.request_class import RequestClass
from scheduler.engine.plan import (
    BackfillReservation,
    Deferral,
    Eviction,
    Explanation,
    Placement,
    Plan,
    WhatIf,
)
from scheduler.engine.policy.fair_share import TenantShare, TenantShares, charge
from scheduler.engine.policy.preemption import Preemptor
from scheduler.engine.policy.preemption_claims import PreemptionClaims
from scheduler.engine.policy.queue_order import QueueOrder
from scheduler.engine.policy.quota_tracker import Account, QuotaTracker, undo
from scheduler.engine.snapshot import Accumulation, PendingSession, Requirements, Snapshot
from scheduler.engine.values import ASSUMED_RUNTIME, ReasonCode

MAX_FAILED_SEARCHES = 8
"""Maximum of failed searches per pass to reserve capacity for gangs of one request class before reservation
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
        self._agents: AgentIndex | None = None
        self._quotas: QuotaTracker | None = None

    def plan(self, snapshot: Snapshot, now: datetime) -> Plan:
        if snapshot.rules.is_paused:
            return plan_while_paused(snapshot, now)
        with undisturbed():
            return self._run_pass(snapshot, now).plan()

    def what_if(self, snapshot: Snapshot, session: PendingSession | None, now: datetime) -> WhatIf:
        """Return the decision about `session`, one of the snapshot (None: no session), and all
        placements. Reasons of other deferrals are computed when read.
        """
        if snapshot.rules.is_paused:
            return what_if_from(plan_while_paused(snapshot, now), session)
        with undisturbed():
            return self._run_pass(snapshot, now).what_if(session)

    def _run_pass(self, snapshot: Snapshot, now: datetime) -> "_Pass":
        if self._agents is None or not self._agents.update(snapshot):
            self._agents, self._quotas = AgentIndex(snapshot), None
        try:
            return self._run_with(self._agents, snapshot, now)
        except UnknownSlot:
            self._agents, self._quotas = AgentIndex(snapshot), None
            return self._run_with(self._agents, snapshot, now)

    def _run_with(self, agents: AgentIndex, snapshot: Snapshot, now: datetime) -> "_Pass":
        if self._quotas is None or not self._quotas.update(snapshot.quotas):
            self._quotas = QuotaTracker(snapshot.quotas, agents.layout)
        decided = _Pass(snapshot, now, agents, self._quotas)
        decided.run()
        return decided


class _Pass:
    def __init__(
        self, snapshot: Snapshot, now: datetime, agents: AgentIndex, allowances: QuotaTracker
    ) -> None:
        self._snapshot = snapshot
        self._now = now
        self._patient_since = now - snapshot.rules.patience
        self._agents = agents
        self._layout = agents.layout
        classes = agents.compile_requirements(snapshot.pending)
        least_memory = min([each.least_memory for each in classes.values()], default=0)
        self._tracker = CapacityTracker(agents, now, snapshot.group_hosts, least_memory)
        states = self._tracker.states
        self._states = {requirements: states[each] for requirements, each in classes.items()}
        self._quotas = allowances
        self._placed: list[PendingSession] = []
        self._agent_ids: list[tuple[int, ...]] = []  # one for each of `_placed`
        self._deferred: list[PendingSession] = []
        self._deferred_classes: list[RequestClass] = []  # one for each of `_deferred`
        self._reservations: list[BackfillReservation] = []
        self._accumulations: list[Accumulation] = []
        self._can_ever_run: dict[RequestClass, bool] = {}  # by request class that exceeded a quota
        self._heads: list[UUID] = []  # pinned heads with a reservation again
        self._first_reserving: UUID | None = None  # first other session with one
        self._evictions: list[Eviction] = []
        self._preempting: dict[UUID, datetime] = {}  # latest end of the preemptions, by session
        self._nothing_free_in_time_for: set[tuple[RequestClass, timedelta | None]] = set()
        rule = snapshot.rules.preemption
        self._preemptor = None if rule is None else Preemptor(agents, self._tracker, rule, now)
        # Pending preemption claims on each quota: reserved until the turn of the claiming sessions,
        # and theirs as soon as the victims end.
        self._pending_claims: Counter[Account] = Counter()
        promised = [
            (each, each.preemption_claim.agent_id)
            for each in snapshot.pending
            if self._preemptor and each.preemption_claim
        ]
        for session, agent_id in promised:
            self._tracker.claim(agent_id)
            for account in allowances.accounts_for(session.scopes):
                self._pending_claims[account] += classes[session.requirements].total
        self._claims = PreemptionClaims(agents, self._tracker, now)
        self._order = QueueOrder(
            snapshot, now, TenantShares(snapshot, agents.total), self if promised else None
        )

    def run(self) -> None:
        """Try every session in order. Takes a few microseconds per session, so lookups are hoisted
        out of the loop.
        """
        line, tracker, guards = self._order, self._tracker, self._layout.guards
        states = self._states
        known_accounts, accounts_of = self._quotas.by_scopes, self._quotas.accounts_for
        add_placed, add_agents = self._placed.append, self._agent_ids.append
        wait, wait_shaped = self._deferred.append, self._deferred_classes.append
        patient_since, preemptor, knows_until = self._patient_since, self._preemptor, tracker.has_timed_hold
        for session in line:
            requirements, scopes, max_runtime = session.requirements, session.scopes, session.max_runtime
            state = states[requirements]
            request_class = state.request_class
            # Shortcut for nearly all sessions of a long queue: the request class found no capacity, the
            # session cannot use reserved capacity, and it is too early to reserve or preempt.
            if (
                state.has_no_room
                and session.enqueued_at > patient_since
                and not (request_class.is_bounded or preemptor or session.preemption_claim)
                and (max_runtime is None or not knows_until())
            ):
                wait(session)
                wait_shaped(request_class)
                continue
            accounts = known_accounts.get(scopes) or accounts_of(scopes)
            total, met = request_class.total, guards
            for account in accounts:
                account.remaining = left = account.remaining - total
                met &= left
            if met != guards:
                undo(accounts, total)
                self._defer_for_quota(session, request_class)
                continue
            until = None if max_runtime is None else self._now + max_runtime
            agent_ids = tracker.place(state, until)
            if agent_ids is None:
                undo(accounts, total)
                self._defer_for_capacity(session, request_class)
                continue
            add_placed(session)
            add_agents(agent_ids)
            if shares := line.charged:
                charge(shares, request_class.fractions)
                line.was_charged = True

    def place_on_claim(self, session: PendingSession, charged: tuple[TenantShare, ...]) -> bool:
        """Place the session on capacity freed by its preemptions. Return False if it is not free
        yet, or a quota is exceeded.
        """
        request_class, accounts = (
            self._states[session.requirements].request_class,
            self._quotas.accounts_for(session.scopes),
        )
        guards, total = self._layout.guards, request_class.total
        if any((each.remaining - total) & guards != guards for each in accounts):
            return False
        until = None if session.max_runtime is None else self._now + session.max_runtime
        agent_ids = self._claims.place(session, request_class, until)
        if agent_ids is None:
            return False
        for account in accounts:
            account.remaining -= total
            self._pending_claims[account] -= total
        self._placed.append(session)
        self._agent_ids.append(agent_ids)
        charge(charged, request_class.fractions)
        return True

    def begin_turn(self, session: PendingSession) -> PendingSession:
        if session.preemption_claim:
            self._claims.begin_turn(session)
        return session

    def _defer_for_capacity(self, session: PendingSession, request_class: RequestClass) -> None:
        if not (self._reserve_claim(session, request_class) or self._preempt_for(session, request_class)):
            self._reserve_capacity(session, request_class)
        self._tracker.states[request_class].has_no_room = True
        self._defer(session, request_class)

    def _defer_for_quota(self, session: PendingSession, request_class: RequestClass) -> None:
        if self._has_waited(session) and self._may_ever_run(request_class):
            self._quotas.accumulate(session, request_class.total)
        self._defer(session, request_class)

    def _may_ever_run(self, request_class: RequestClass) -> bool:
        """Return True if schedulable agents are large enough; otherwise no quota accumulates for
        the request class.
        """
        if request_class not in self._can_ever_run:
            self._can_ever_run[request_class] = self._agents.may_hold(request_class)
        return self._can_ever_run[request_class]

    def _defer(self, session: PendingSession, request_class: RequestClass) -> None:
        self._deferred.append(session)
        self._deferred_classes.append(request_class)

    def _reserve_claim(self, session: PendingSession, request_class: RequestClass) -> bool:
        """Reserve the capacity of its pending preemptions, if still possible."""
        agent_number = self._claims.claimed_agent(session, request_class)
        if session.preemption_claim is None or agent_number is None:
            return False
        until = session.preemption_claim.until
        for account in self._quotas.accounts_for(session.scopes):
            self._pending_claims[account] -= request_class.total  # reserved with the agent instead
        self._reserve_on(
            session, request_class, [agent_number], until if until > self._now else None, is_first=False
        )
        self._preempting[session.id] = until
        return True

    def _preempt_for(self, session: PendingSession, request_class: RequestClass) -> bool:
        """Preempt others for the session, unless capacity becomes free as soon without that. Return
        True if capacity is reserved for it now.
        """
        preemptor, rule = self._preemptor, self._snapshot.rules.preemption
        if preemptor is None or rule is None or not preemptor.may_preempt_for(session, request_class):
            return False
        if session.preemption_claim or not self._fits_beside_claims(session, request_class):
            return False
        by = self._now + rule.grace
        prospect = self._earliest_start(
            session, request_class, self._tracker.reservable_agents, known_only=True
        )
        if prospect is not None and prospect.is_in_time(by):
            return False
        if self._reserve_instead(session, request_class, by):
            preemptor.count_search()
            return True
        eviction = preemptor.preempt_for(session, request_class)
        if eviction is None:
            return False
        self._evictions.append(eviction)
        self._reservations.append(BackfillReservation(session.id, (eviction.agent_id,), eviction.ends_at))
        self._preempting[session.id] = eviction.ends_at
        self._quotas.earmark(session, request_class.total, of_owner_alone=False)
        return True

    def _reserve_instead(self, session: PendingSession, request_class: RequestClass, by: datetime) -> bool:
        """Reserve capacity that will be free before the preemption grace period ends, even if the
        pool already has a reservation, so that no session is preempted.
        """
        key = request_class, session.max_runtime if request_class.is_bounded else None
        if request_class.designated is not None or key in self._nothing_free_in_time_for:
            return False
        prospect = self._earliest_start(
            session, request_class, self._tracker.agents_without_hold, known_only=True
        )
        if prospect is None or not prospect.is_in_time(by):
            self._nothing_free_in_time_for.add(key)
            return False
        self._reserve_on(session, request_class, prospect.agent_numbers, prospect.until, is_first=False)
        return True

    def _earliest_start(
        self,
        session: PendingSession,
        request_class: RequestClass,
        hosts_of: Callable[[RequestClass], list[int]],
        *,
        known_only: bool,
    ) -> EarliestStart | None:
        """Return the soonest prospect. If `known_only` and no end is known, return None without
        looking at agents.
        """
        tracker = self._tracker
        if known_only and not tracker.has_ends():
            return None
        hosts, now = hosts_of(request_class), self._now
        return earliest_start(
            tracker, self._layout, request_class, now, session.max_runtime, hosts=hosts, known_only=known_only
        )

    def _fits_beside_claims(self, session: PendingSession, request_class: RequestClass) -> bool:
        """Return True if its quotas suffice even after all pending preemption claims."""
        layout = self._layout
        return all(
            layout.fits(
                request_class.total,
                layout.less(account.remaining ^ layout.guards, self._pending_claims[account]),
            )
            for account in self._quotas.accounts_for(session.scopes)
        )

    def _reserve_capacity(self, session: PendingSession, request_class: RequestClass) -> None:
        """Make a backfill reservation for `session` where capacity is free first; if no time is
        known, only after the group's patience.
        """
        has_waited, state = self._has_waited(session), self._tracker.states[request_class]
        if not state.may_reserve or self._is_reservation_hopeless(
            session, request_class, has_waited=has_waited
        ):
            return
        prospect = self._earliest_start(
            session, request_class, self._tracker.reservable_agents, known_only=True
        )
        if prospect is None and has_waited:
            prospect = self._accumulate(session, request_class)
        if prospect is not None:
            self._reserve_on(session, request_class, prospect.agent_numbers, prospect.until)
            if prospect.until is not None:
                self._pin_head(session)
            state.may_reserve = False
        elif request_class.is_bounded:
            state.failed_searches += 1
        else:
            state.may_reserve, state.search_failed = not has_waited, True

    def _accumulate(self, session: PendingSession, request_class: RequestClass) -> EarliestStart | None:
        """Return where capacity accumulates for the session: at its last choice while that holds,
        else where it is expected to suffice first.
        """
        was, ids, there = session.accumulation, self._agents.ids, None
        if was is not None:
            hosts = [
                each for each in self._tracker.reservable_agents(request_class) if ids[each] in was.agent_ids
            ]
            there = self._earliest_start(session, request_class, lambda _: hosts, known_only=False)
            if there is not None and was.is_in_force_at(self._now):
                self._accumulations.append(was)
                return there
        best = self._earliest_start(session, request_class, self._tracker.reservable_agents, known_only=False)
        if best is None or best.until is not None:
            return best
        chosen, gathering = choose_accumulation(session, best, there, self._now, ids)
        self._accumulations.append(gathering)
        return chosen

    def _is_reservation_hopeless(
        self, session: PendingSession, request_class: RequestClass, *, has_waited: bool
    ) -> bool:
        """Return True if a search cannot succeed: it failed for another session of the request class, or
        the session is too long to end before the next reservation windows.
        """
        state = self._tracker.states[request_class]
        if not request_class.is_bounded:
            return state.search_failed and not has_waited
        if has_waited not in state.longest_runtime:
            hosts = self._tracker.reservable_agents(request_class)
            state.longest_runtime[has_waited] = longest_runtime(
                self._tracker, self._layout, request_class, self._now, hosts=hosts, known_only=not has_waited
            )
        max_runtime = ASSUMED_RUNTIME if session.max_runtime is None else session.max_runtime
        is_too_long = max_runtime > state.longest_runtime[has_waited]
        return is_too_long or state.failed_searches >= MAX_FAILED_SEARCHES

    def _pin_head(self, session: PendingSession) -> None:
        """Pin at most one new head. With several, two that need different agents could close these
        in turn to a third that needs both, or the better one, and is ahead of them.
        """
        if session.head_rank:
            self._heads.append(session.id)
        elif self._first_reserving is None:
            self._first_reserving = session.id

    def _reserve_on(
        self,
        session: PendingSession,
        request_class: RequestClass,
        agent_numbers: list[int],
        until: datetime | None,
        *,
        is_first: bool = True,
    ) -> None:
        agent_ids = self._tracker.reserve(
            request_class, agent_numbers, until, priority=session.priority, is_first=is_first
        )
        self._reservations.append(BackfillReservation(session.id, agent_ids, until))
        of_owner_alone = until is None and session.preemption_claim is None
        self._quotas.earmark(session, request_class.total, of_owner_alone=of_owner_alone)

    def _has_waited(self, session: PendingSession) -> bool:
        """Return True if the session has waited for the group's patience."""
        return session.enqueued_at <= self._patient_since

    def plan(self) -> Plan:
        """Return the plan. Call it, or `what_if`, once after `run`."""
        snapshot, diagnosis = self._snapshot, self._explainer()
        return Plan(
            group_id=snapshot.group_id,
            group_name=snapshot.group_name,
            epoch=snapshot.epoch,
            planned_at=self._now,
            placements=self._placements(),
            deferrals=diagnosis.deferrals(self._deferred, self._deferred_classes),
            reservations=tuple(self._reservations),
            evictions=tuple(self._evictions),
            heads=tuple(self._heads) or (() if self._first_reserving is None else (self._first_reserving,)),
            accumulations=with_earlier_choices(self._accumulations, self._deferred),
        )

    def what_if(self, session: PendingSession | None) -> WhatIf:
        diagnosis, waiting, request_classes = self._explainer(), self._deferred, self._deferred_classes
        placements = self._placements()
        placed, index = index_by_identity(session, self._placed), index_by_identity(session, waiting)
        return WhatIf(
            placement=None if placed is None else placements[placed],
            deferral=None
            if index is None
            else diagnosis.deferral(waiting[index], request_classes[index], index + 1),
            ahead=map(diagnosis.deferral, waiting[:index], request_classes, count(1)),
            placements=placements,
            reservations=tuple(self._reservations),
            accumulations=tuple(self._accumulations),
        )

    def _placements(self) -> Sequence[Placement]:
        return Columns(Placement, self._placed, self._agent_ids)

    def _explainer(self) -> Explainer:
        is_enough = self._snapshot.rules.ageing is None
        return Explainer(
            self._tracker,
            self._layout,
            self._quotas,
            self._preempting,
            self._deferred,
            is_raise_enough=is_enough,
        )


@contextmanager
def undisturbed() -> Iterator[None]:
    """Disable garbage collection in all threads; restore the previous state at the end. A pass makes
    tens of thousands of small objects that live as long as its plan, and hardly any garbage: repeated
    collections would take a third of a long pass. If passes of two threads overlap, the first to end
    enables it again, which only costs time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def plan_while_paused(snapshot: Snapshot, now: datetime) -> Plan:
    """Defer each pending session, in queue order."""
    known: dict[Requirements, Explanation] = {}
    deferrals, heads, gathered = [], [], []
    total = total_capacity(snapshot.agents)
    for position, session in enumerate(QueueOrder(snapshot, now, TenantShares(snapshot, total)), start=1):
        why = known.get(session.requirements) or known.setdefault(
            session.requirements, _explain_pause(session.requirements)
        )
        deferrals.append(Deferral(session.id, position, why))
        if session.head_rank:
            heads.append(session.id)
        if session.accumulation:
            gathered.append(session.accumulation)
    return Plan(
        group_id=snapshot.group_id,
        group_name=snapshot.group_name,
        epoch=snapshot.epoch,
        planned_at=now,
        deferrals=tuple(deferrals),
        heads=tuple(heads),
        accumulations=tuple(gathered),
    )


def _explain_pause(requirements: Requirements) -> Explanation:
    """Explain the pause. Capacity is left out."""
    largest = max(requirements.kernels, key=lambda slots: tuple(slots.items()))
    return Explanation(
        reason=ReasonCode.GROUP_PAUSED,
        architecture=requirements.architecture,
        kernel_count=len(requirements.kernels),
        requested=requirements.total,
        requested_by_kernel=largest,
        best_agent=ResourceSlots(),
        group_total=ResourceSlots(),
        gang=requirements.gang,
        placement_group=requirements.placement_group,
    )


def what_if_from(plan: Plan, session: PendingSession | None) -> WhatIf:
    """Extract the decision about one session from a complete plan."""
    asked = session and session.id
    place = next((n for n, each in enumerate(plan.deferrals) if each.session_id == asked), None)
    return WhatIf(
        placement=next((each for each in plan.placements if each.session is session), None),
        deferral=None if place is None else plan.deferrals[place],
        ahead=iter(plan.deferrals[:place]),
        placements=plan.placements,
        reservations=plan.reservations,
        accumulations=plan.accumulations,
    )
