"""Forecast the next tick with one more session, and the start of pending sessions, by running the
engine on a cached snapshot.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import islice
from math import ceil
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID, uuid4

from agents.models import Agent, ResourceGroup
from common import clock
from common.i18n import gettext_noop
from common.values.resources import ResourceSlots
from common.values.stored_message import StoredMessage
from scheduler.engine import (
    Accumulation,
    AgentView,
    Deferral,
    Explanation,
    Gang,
    PendingSession,
    Planner,
    ReasonCode,
    Requirements,
    Rules,
    Snapshot,
    WhatIf,
)
from scheduler.engine.policy.quota_tracker import OF_GROUP
from scheduler.engine.values import ASSUMED_RUNTIME
from scheduler.explain.messages import message_for, who_may_raise
from scheduler.forecast.snapshot_cache import BacklogThreshold, cached_snapshot
from scheduler.group_cache import GroupCache
from scheduler.snapshot import run_lengths
from scheduler.snapshot.accelerators import closed_agents
from scheduler.snapshot.group_limits import GroupLimits
from scheduler.snapshot.placement_groups import placement_group
from scheduler.snapshot.reader import (
    TENANT_SCOPES,
    least_isolation,
    project_of,
    quotas_for,
    read_snapshot,
    scope_key,
)
from scheduler.snapshot.start_time_model import (
    MAX_AHEAD,
    AllocatedKernel,
    Kind,
    QueuedSession,
    at_the_latest,
    estimate_each,
)
from sessions_app.admission.forecast import STARTS_NOW
from sessions_app.core.start_estimate import StartRange
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from sessions_app.ports import HypotheticalSession, StartForecast, WaitForecast

STARTS = gettext_noop("Starts now on {agent}.")
NO_LIMIT = gettext_noop(
    "When it starts is not known: something that runs has no time limit, and nothing like it ran lately that would say how long it may take."
)
NO_LIMIT_THERE = gettext_noop(
    "When it starts is not known: room is gathered for it on {agents}, where something has no time limit and runs longer than what ran lately."
)
MANY_AHEAD = gettext_noop(
    "When it starts is not known: more than {count} sessions wait ahead of it, too many to foresee."
)
NEXT_TICK = StartRange(0, 10)
# many clients poll a queue that changes often: computing ranges each time would cost too much
STARTS_HOLD_S = 10.0
NO_KINDS: Mapping[UUID, Kind] = MappingProxyType({})
# Reasons for which the end of running sessions does not help.
NOT_FOR_ROOM = frozenset(
    {
        ReasonCode.NO_AGENTS, ReasonCode.AGENT_UNAVAILABLE, ReasonCode.STORAGE_UNREACHED, ReasonCode.NO_SUCH_DEVICE, ReasonCode.NEVER_FITS, ReasonCode.DEVICES_WITHHELD, ReasonCode.LIMIT_REACHED,
        ReasonCode.BUDGET_SPENT, ReasonCode.PLACEMENT_RULE, ReasonCode.GROUP_PAUSED,
    }
)  # fmt: skip


class Starts(NamedTuple):
    """Start ranges of a group's pending sessions, and the ids that were considered; no range means
    unknown.
    """

    waiting: frozenset[UUID]
    ranges: dict[UUID, StartRange]


class Estimate(NamedTuple):
    """Start range of one session; `unknown` says why it has no upper bound: NO_LIMIT, MANY_AHEAD,
    or "".
    """

    start_range: StartRange | None
    unknown_because: str = ""


_starts = GroupCache[Starts](for_s=STARTS_HOLD_S)


def forecast_start(question: HypotheticalSession) -> StartForecast:
    """Return the outlook of a session that would be enqueued now, behind all pending ones of its
    priority, on this process's cached snapshot. At most 8 queries, 4 more if it would wait, none if
    the same question was answered a moment ago. No capacity is reserved for it.
    """
    now = clock.now()
    owner_id, _image, session_type = question.kind
    limits = GroupLimits(question.group, now)
    named = tuple(scope_key(*key) for key in question.keys)
    cached = cached_snapshot(question.group, question.keys)
    asked = PendingSession(
        id=uuid4(),
        enqueued_at=now,
        requirements=_requirements(question, cached.snapshot, named),
        kernel_ids=tuple([uuid4() for _ in question.containers]),
        priority=question.priority,
        scopes=named + limits.keys_for(session_type, owner_id, _union(question.containers)),
        tenants=named[:TENANT_SCOPES],
        max_runtime=None if question.lasts_s is None else timedelta(seconds=question.lasts_s),
    )
    own_quotas = [*quotas_for(question.scopes, question.budgets), *limits.quotas()]
    with cached.lock:
        forecast = cached.what_if(asked, own_quotas, now)
        rooms, snapshot, deferral = cached.rooms(question.architecture), cached.snapshot, forecast.deferral
        if forecast.placement is not None:
            agent, *others = map(cached.agent_name, dict.fromkeys(forecast.placement.agent_ids))
            sentence = StoredMessage(STARTS, {"agent": ", ".join([agent, *others])})
            return StartForecast(agent, STARTS_NOW, sentence, start_range=NEXT_TICK, rooms=rooms)
        assert deferral is not None
        question_key = (asked.requirements, asked.scopes, asked.priority, asked.max_runtime, question.kind)
        key = (deferral.position, _waits_for_capacity(deferral), *question_key)
        if key not in cached.ranges:
            asked_kind = {asked.id: question.kind}
            cached.ranges[key] = _estimate(
                deferral, asked, snapshot, forecast, now, asked_kind, cached.backlog
            ).start_range
        start_range = cached.ranges[key]
    why = deferral.explanation
    sentence = message_for(why, snapshot.group_name)
    room = ResourceSlots() if why.excess else why.best_agent
    reason, who = deferral.reason.value, who_may_raise(why)
    return StartForecast(
        "",
        reason,
        sentence,
        deferral.position,
        room,
        start_range,
        who,
        waits_for_group=_waits_for_group(why, asked),
        rooms=rooms,
        lasts=_assumed_runtime(asked),
    )


def _requirements(question: HypotheticalSession, snapshot: Snapshot, scopes: tuple[str, ...]) -> Requirements:
    return Requirements(
        question.architecture,
        question.containers,
        question.designated_agent_id,
        snapshot.reservations_for(scopes),
        question.may_run_elsewhere,
        question.device_model,
        gang=Gang(question.gang) if len(question.containers) > 1 else Gang.ANYWHERE,
        placement_group=placement_group(question.placement_key, question.placement_rule),
        device_mem_bytes=question.device_mem_bytes,
        device_api_version=question.device_api_version,
        linked_devices=question.linked_devices,
        least_isolation=max(least_isolation(slots, question.isolation) for slots in question.containers),
        closed_agents=closed_agents(
            snapshot.agents, snapshot.sharers, project_of(scopes), question.containers[0]
        ),
        storage_hosts=question.storage_hosts,
    )


def _union(containers: Iterable[ResourceSlots]) -> dict[str, int]:
    """Return one amount for each slot that a container requests."""
    return {name: amount for slots in containers for name, amount in slots.items()}


def forecast_wait(session: ComputeSession) -> WaitForecast | None:
    """Return the outlook of a pending session; None if it is not pending, is held, or was just
    placed. At most 9 queries, any number of rows.
    """
    if session.status != Status.PENDING.value:
        return None
    snapshot, now = read_snapshot(session.resource_group_id), clock.now()
    asked = next((each for each in snapshot.pending if each.id == session.pk), None)
    if asked is None:
        return None
    forecast = Planner().what_if(snapshot, asked, now)
    deferral = forecast.deferral
    if deferral is None:
        return WaitForecast(NEXT_TICK)
    estimate, why = _estimate(deferral, asked, snapshot, forecast, now), deferral.explanation
    return WaitForecast(
        estimate.start_range,
        ResourceSlots() if why.excess else why.best_agent,
        who_may_raise(why),
        waits_for_group=_waits_for_group(why, asked),
        lasts=_assumed_runtime(asked),
        unknown_because=_unknown_because(estimate, asked, forecast),
    )


def _unknown_because(estimate: Estimate, asked: PendingSession, forecast: WhatIf) -> StoredMessage:
    """Return why the latest start is unknown; empty if it is known. Names agents, but no sessions
    of others.
    """
    if estimate.unknown_because == MANY_AHEAD:
        return StoredMessage(MANY_AHEAD, {"count": MAX_AHEAD})
    if estimate.unknown_because != NO_LIMIT:
        return StoredMessage()
    gathered = next((each for each in forecast.accumulations if each.session_id == asked.id), None)
    if gathered is None:
        return StoredMessage(NO_LIMIT)
    names = Agent.objects.filter(pk__in=gathered.agent_ids).order_by("name").values_list("name", flat=True)
    return StoredMessage(NO_LIMIT_THERE, {"agents": ", ".join(names)})


def _waits_for_group(why: Explanation, asked: PendingSession) -> bool:
    """Return True if the session might start in another resource group."""
    is_of_group = why.excess is None or why.excess.quota.level in OF_GROUP
    return is_of_group and asked.requirements.designated_agent_id is None


def start_ranges_in(group: ResourceGroup, ids: Collection[UUID]) -> dict[UUID, StartRange]:
    """Return the probable start ranges of these sessions; unknown ones are left out. Ranges of the
    first pending sessions are computed together and cached for STARTS_HOLD_S: at most 11 queries
    then, any number of rows, else none.
    """
    known = _starts.get(group.pk)
    if known is None or not known.waiting.issuperset(ids):
        cached, now = cached_snapshot(group, ()), clock.now()
        with cached.lock:
            ranges = _all_ranges(cached.snapshot, cached.what_if_unchanged(now), now)
        # Includes ids that are not in the snapshot, so that they are not looked up again meanwhile.
        known = Starts(frozenset({*ids, *(each.id for each in cached.snapshot.pending)}), ranges)
        _starts.put(group.pk, known)
    return {pk: known.ranges[pk] for pk in ids if pk in known.ranges}


def _all_ranges(snapshot: Snapshot, forecast: WhatIf, now: datetime) -> dict[UUID, StartRange]:
    kept = _reserved_within_s(forecast, now)
    first = _sessions(_first_waiting_for_capacity(forecast.ahead), snapshot)
    drawn = _ranges(first, snapshot, forecast, now) if first else {}
    known = {pk: at_the_latest(kept_s) for pk, kept_s in kept.items()}
    known |= {each.id: drawn[each.id] for each in first if not _depends_on_placement(each)}
    known |= {each.session.id: NEXT_TICK for each in forecast.placements}
    return {pk: found for pk, found in known.items() if found is not None}


def _estimate(
    deferral: Deferral,
    asked: PendingSession,
    snapshot: Snapshot,
    forecast: WhatIf,
    now: datetime,
    asked_kind: Mapping[UUID, Kind] = NO_KINDS,
    backlog: BacklogThreshold | None = None,
) -> Estimate:
    """Estimate the start of `asked`. `crowd`: cached backlog threshold of the snapshot's queue."""
    if not _waits_for_capacity(deferral):
        return Estimate(None)
    backlog = backlog or BacklogThreshold()
    kept = at_the_latest(_reserved_within_s(forecast, now).get(asked.id))
    if _depends_on_placement(asked):
        return Estimate(kept)
    if not backlog.is_exceeded(deferral.position):
        first = _first_waiting_for_capacity(forecast.ahead)
        if len(first) <= MAX_AHEAD:
            queue = [*_sessions(first, snapshot), asked]
            drawn = _ranges(queue, snapshot, forecast, now, asked_kind)[asked.id]
            is_known = drawn is not None and drawn.latest_s is not None
            return Estimate(drawn, "" if is_known else NO_LIMIT)
        backlog.position = first[-1].position
    return Estimate(kept, "" if kept else MANY_AHEAD)


def _first_waiting_for_capacity(deferrals: Iterable[Deferral]) -> list[Deferral]:
    """Return the first deferrals that wait for capacity, in order, MAX_AHEAD + 1 at most."""
    return list(islice(filter(_waits_for_capacity, deferrals), MAX_AHEAD + 1))


def _sessions(deferrals: Iterable[Deferral], snapshot: Snapshot) -> list[PendingSession]:
    sessions = {each.id: each for each in snapshot.pending}
    return [sessions[each.session_id] for each in deferrals]


def _waits_for_capacity(deferral: Deferral) -> bool:
    return deferral.reason not in NOT_FOR_ROOM and not deferral.explanation.is_quota_reserved


def _depends_on_placement(session: PendingSession) -> bool:
    """Return True if a strict placement rule or linked devices make its agents depend on where other
    sessions and their devices are, so that no estimate is possible.
    """
    companions = session.requirements.placement_group
    has_strict_rule = companions is not None and companions.rule.is_strict
    return has_strict_rule or bool(session.requirements.linked_amounts)


def _reserved_within_s(forecast: WhatIf, now: datetime) -> dict[UUID, float]:
    """Seconds until reserved capacity is free at the latest, by session."""
    return {
        each.session_id: max(0.0, (each.starts_at - now).total_seconds())
        for each in forecast.reservations
        if each.starts_at is not None
    }


def _ranges(
    queue: Sequence[PendingSession],
    snapshot: Snapshot,
    forecast: WhatIf,
    now: datetime,
    more_kinds: Mapping[UUID, Kind] = NO_KINDS,
) -> dict[UUID, StartRange | None]:
    """Return the start range of each session of the queue after the placements of this pass; None
    if it is gone.
    """
    placed = [each.session for each in forecast.placements]
    kinds = run_lengths.read_kinds(each.id for each in (*queue, *placed)) | dict(more_kinds)
    held = run_lengths.read_allocations(snapshot.group_id, now)
    free = {each.id: dict(each.free.items()) for each in snapshot.agents if each.is_schedulable}
    for placement in forecast.placements:
        if placement.session.id not in kinds:
            continue
        for kernel in placement.kernels:
            kind, lasts_s = kinds[placement.session.id], _max_runtime_s(placement.session)
            held.append(AllocatedKernel(kernel.agent_id, kernel.slots, kind, 0.0, lasts_s))
            for name, amount in kernel.slots.items():
                free[kernel.agent_id][name] -= amount
    gathered = {each.session_id: each for each in forecast.accumulations}
    suiting = cache(partial(_suiting, snapshot.agents))
    wanted = [
        _queued_session(each, kinds[each.id], suiting(each.requirements), now)
        for each in queue
        if each.id in kinds
    ]
    images = {image for _owner, image, _type in kinds.values()} | {each.kind[1] for each in held}
    lengths = run_lengths.read_run_lengths(images, now)
    kept = _reserved_within_s(forecast, now)
    found = estimate_each(wanted, held, free, lengths, no_later_s=kept) if wanted else {}
    # Capacity elsewhere may go to later sessions: only the reserved agents bound the latest start.
    sure = {each.session_id: tuple(dict.fromkeys(each.agent_ids)) for each in forecast.reservations}
    if any(each.id in sure for each in wanted):
        there = [replace(each, agent_ids=sure.get(each.id, each.agent_ids)) for each in wanted]
        for pk, surely in estimate_each(there, held, free, lengths, no_later_s=kept).items():
            found[pk] = _no_later_than_surely(found[pk], surely)
    return {
        each.id: found.get(each.id)
        if each.id in kept
        else _not_sooner(found.get(each.id), each, gathered.get(each.id), snapshot.rules, now)
        for each in queue
    }


def _no_later_than_surely(anywhere: StartRange | None, surely: StartRange | None) -> StartRange | None:
    if anywhere is None or surely is None:
        return anywhere and replace(anywhere, latest_s=None)
    return StartRange(min(anywhere.earliest_s, surely.earliest_s), surely.latest_s)


def _not_sooner(
    drawn: StartRange | None,
    session: PendingSession,
    gathered: Accumulation | None,
    rules: Rules,
    now: datetime,
) -> StartRange | None:
    """Correct the range of a session without a backfill reservation that has a known start. If
    capacity accumulates for it, the latest start is not before that choice is made again. Otherwise
    others may pass it: the latest start is not before it has waited as long again or, if sooner,
    before capacity would accumulate for as long.
    """
    if drawn is None or drawn.latest_s is None:
        return drawn
    if gathered is not None:
        latest_s = ceil((gathered.until - now).total_seconds())
    else:
        waited = now - session.enqueued_at
        until_gathered = max(timedelta(), rules.patience - waited) + timedelta(seconds=drawn.latest_s)
        latest_s = ceil(min(waited, until_gathered).total_seconds())
    return replace(drawn, latest_s=max(drawn.latest_s, latest_s))


def _queued_session(
    session: PendingSession, kind: Kind, found: Sequence[AgentView], now: datetime
) -> QueuedSession:
    """Make the model's input. `found`: agents that suit the session."""
    requirements = session.requirements
    closed = {agent.id: spans for agent in found if (spans := _blocked_spans(agent, session, now))}
    is_one = requirements.gang is Gang.ONE_MACHINE
    slots, count = (requirements.total, 1) if is_one else (requirements.kernels[0], len(requirements.kernels))
    agent_ids, is_spread = [agent.id for agent in found], requirements.gang is Gang.SPREAD
    return QueuedSession(
        session.id, dict(slots.items()), count, agent_ids, kind, _max_runtime_s(session), closed, is_spread
    )


def _blocked_spans(agent: AgentView, session: PendingSession, now: datetime) -> list[tuple[float, float]]:
    """Return the spans in which reservations prevent a start on the agent, in seconds: the session
    must end before a reservation begins or, if it may use that one, begin with it.
    """
    spans = []
    lasts, own = _assumed_runtime(session), session.requirements.reservations
    for window in (agent.window, agent.next_window):
        if window is not None and (opens_at := window.opens_at(own)) > now:
            latest = (window.starts_at - lasts - now).total_seconds()
            spans.append((max(0.0, latest), (opens_at - now).total_seconds()))
    return spans


def _suiting(agents: Iterable[AgentView], requirements: Requirements) -> list[AgentView]:
    """Return the schedulable agents that could host each kernel if empty."""
    suiting = [agent for agent in agents if agent.is_schedulable and requirements.suits(agent)]
    return [agent for agent in suiting if all(slots.fits_in(agent.largest) for slots in requirements.kernels)]


def _assumed_runtime(session: PendingSession) -> timedelta:
    """Return the run time that future reservations assume for the session."""
    return ASSUMED_RUNTIME if session.max_runtime is None else session.max_runtime


def _max_runtime_s(session: PendingSession) -> float | None:
    return None if session.max_runtime is None else session.max_runtime.total_seconds()
