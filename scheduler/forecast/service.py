"""What the next tick would do with one more session, and when one that waits will start: the engine is asked, on the picture that a
tick would have."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from math import ceil
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID, uuid4

from agents.models import Agent, ResourceGroup
from common import clock
from common.i18n import gettext_noop
from common.values.resources import ResourceSlots
from common.values.stored_message import KeptSentence
from scheduler.engine import (
    AgentView,
    Deferral,
    Explanation,
    Foresight,
    Gang,
    Gathering,
    Needs,
    PendingSession,
    Planner,
    ReasonCode,
    Rules,
    Snapshot,
)
from scheduler.engine.policy.quota_tracker import OF_GROUP
from scheduler.engine.values import LENGTH_OF_UNKNOWN
from scheduler.explain.messages import sentence_for, who_may_raise
from scheduler.forecast.snapshot_cache import Crowd, picture_of
from scheduler.group_cache import KeptByGroup
from scheduler.snapshot import run_lengths
from scheduler.snapshot.group_limits import GroupLimits
from scheduler.snapshot.placement_groups import companions_in
from scheduler.snapshot.reader import OWNERS, allowances_of, read_snapshot, scope_key
from scheduler.snapshot.start_time_model import MOST_AHEAD, Held, Kind, Wanted, at_the_latest, estimate_each
from sessions_app.admission.forecast import STARTS_NOW
from sessions_app.core.start_estimate import StartRange
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession
from sessions_app.ports import Outlook, Prospect, Question

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
STARTS_HOLD_S = 10.0  # so many look at a queue, and it changes so often, that nobody could pay for each time
NO_KINDS: Mapping[UUID, Kind] = MappingProxyType({})
# What these wait for is not that something that runs in the group ends.
NOT_FOR_ROOM = frozenset(
    {
        ReasonCode.NO_AGENTS, ReasonCode.AGENT_UNAVAILABLE, ReasonCode.NEVER_FITS, ReasonCode.LIMIT_REACHED,
        ReasonCode.BUDGET_SPENT, ReasonCode.PLACEMENT_RULE, ReasonCode.GROUP_PAUSED,
    }
)  # fmt: skip


class Starts(NamedTuple):
    """When those that wait in one group will start, and who was looked at; who has no range, nobody can know of."""

    waiting: frozenset[UUID]
    ranges: dict[UUID, StartRange]


class Estimate(NamedTuple):
    """Range in which one session will start; `unknown` where nobody knows how late: NO_LIMIT or MANY_AHEAD, "" for another reason."""

    start_range: StartRange | None
    unknown: str = ""


_starts = KeptByGroup[Starts](for_s=STARTS_HOLD_S)


def foresee(question: Question) -> Outlook:
    """The outlook of a session that would be enqueued now, behind all of its priority that wait, on the picture of the group that
    this process keeps: at most 8 queries, 4 more where it would wait, and none where the same was asked a moment ago. Nothing is
    kept free for it: whoever asks first gets the room."""
    now = clock.now()
    owner_id, _image, session_type = question.kind
    limits = GroupLimits(question.group, now)
    named = tuple(scope_key(*key) for key in question.keys)
    picture = picture_of(question.group, question.keys)
    asked = PendingSession(
        id=uuid4(),
        enqueued_at=now,
        needs=Needs(
            question.architecture,
            (question.slots,),
            question.designated_agent_id,
            picture.snapshot.reservations_of(named),
            question.may_run_elsewhere,
            question.device_model,
            companions=companions_in(question.placement_key, question.placement_rule),
        ),
        kernel_ids=(uuid4(),),
        priority=question.priority,
        scopes=named + limits.keys_for(session_type, owner_id, question.slots),
        tenants=named[:OWNERS],
        lasts=None if question.lasts_s is None else timedelta(seconds=question.lasts_s),
    )
    its_allowances = [*allowances_of(question.scopes, question.budgets), *limits.allowances()]
    with picture.lock:
        foreseen = picture.foresee(asked, its_allowances, now)
        rooms, snapshot, deferral = picture.rooms(question.architecture), picture.snapshot, foreseen.deferral
        if foreseen.placement is not None:
            agent = picture.agent_named(foreseen.placement.agent_ids[0])
            sentence = KeptSentence(STARTS, {"agent": agent})
            return Outlook(agent, STARTS_NOW, sentence, start_range=NEXT_TICK, rooms=rooms)
        assert deferral is not None
        of_asked = (asked.needs, asked.scopes, asked.priority, asked.lasts, question.kind)
        key = (deferral.position, _is_for_room(deferral), *of_asked)
        if key not in picture.ranges:
            asked_kind = {asked.id: question.kind}
            picture.ranges[key] = _estimate_of(
                deferral, asked, snapshot, foreseen, now, asked_kind, picture.crowd
            ).start_range
        start_range = picture.ranges[key]
    why = deferral.why
    sentence = sentence_for(why, snapshot.group_name)
    room = ResourceSlots() if why.excess else why.best_agent
    reason, who = deferral.reason.value, who_may_raise(why)
    return Outlook(
        "",
        reason,
        sentence,
        deferral.position,
        room,
        start_range,
        who,
        waits_for_group=_waits_for_group(why, asked),
        rooms=rooms,
        lasts=_counted_lasts(asked),
    )


def prospect_of(session: ComputeSession) -> Prospect | None:
    """What may become of a session that waits; None for one that does not, is held back, or was placed just now. At most 9 queries,
    any number of rows."""
    if session.status != Status.PENDING.value:
        return None
    snapshot, now = read_snapshot(session.resource_group_id), clock.now()
    asked = next((each for each in snapshot.pending if each.id == session.pk), None)
    if asked is None:
        return None
    foreseen = Planner().foresee(snapshot, asked, now)
    deferral = foreseen.deferral
    if deferral is None:
        return Prospect(NEXT_TICK)
    estimate, why = _estimate_of(deferral, asked, snapshot, foreseen, now), deferral.why
    return Prospect(
        estimate.start_range,
        ResourceSlots() if why.excess else why.best_agent,
        who_may_raise(why),
        waits_for_group=_waits_for_group(why, asked),
        lasts=_counted_lasts(asked),
        unknown_because=_unknown_because(estimate, asked, foreseen),
    )


def _unknown_because(estimate: Estimate, asked: PendingSession, foreseen: Foresight) -> KeptSentence:
    """Return why nobody can know how late a session starts; "" where somebody can. Says of others no more than the machine."""
    if estimate.unknown == MANY_AHEAD:
        return KeptSentence(MANY_AHEAD, {"count": MOST_AHEAD})
    if estimate.unknown != NO_LIMIT:
        return KeptSentence()
    gathered = next((each for each in foreseen.gathered if each.session_id == asked.id), None)
    if gathered is None:
        return KeptSentence(NO_LIMIT)
    names = Agent.objects.filter(pk__in=gathered.agent_ids).order_by("name").values_list("name", flat=True)
    return KeptSentence(NO_LIMIT_THERE, {"agents": ", ".join(names)})


def _waits_for_group(why: Explanation, asked: PendingSession) -> bool:
    """Whether it might start in another one: what is in the way is of this group."""
    is_of_group = why.excess is None or why.excess.allowance.level in OF_GROUP
    return is_of_group and asked.needs.designated_agent_id is None


def start_ranges_in(group: ResourceGroup, ids: Collection[UUID]) -> dict[UUID, StartRange]:
    """When those of these sessions that wait there will probably start; who is left out, nobody can know of. The first that wait are
    found out together, for all who ask in the next `STARTS_HOLD_S`: at most 11 queries then, any number of rows, and else none."""
    known = _starts.get(group.pk)
    if known is None or not known.waiting.issuperset(ids):
        picture, now = picture_of(group, ()), clock.now()
        with picture.lock:
            ranges = _starts_in(picture.snapshot, picture.foresee_all(now), now)
        # Whoever was asked about and is not in the picture is not looked for again meanwhile.
        known = Starts(frozenset({*ids, *(each.id for each in picture.snapshot.pending)}), ranges)
        _starts.put(group.pk, known)
    return {pk: known.ranges[pk] for pk in ids if pk in known.ranges}


def _starts_in(snapshot: Snapshot, foreseen: Foresight, now: datetime) -> dict[UUID, StartRange]:
    kept = _kept_for(foreseen, now)
    first = _sessions_of(_first_for_room(foreseen.ahead), snapshot)
    drawn = _ranges_of(first, snapshot, foreseen, now) if first else {}
    known = {pk: at_the_latest(kept_s) for pk, kept_s in kept.items()}
    known |= {each.id: drawn[each.id] for each in first if not _is_ruled(each)}
    known |= {each.session.id: NEXT_TICK for each in foreseen.placements}
    return {pk: found for pk, found in known.items() if found is not None}


def _estimate_of(
    deferral: Deferral,
    asked: PendingSession,
    snapshot: Snapshot,
    foreseen: Foresight,
    now: datetime,
    asked_kind: Mapping[UUID, Kind] = NO_KINDS,
    crowd: Crowd | None = None,
) -> Estimate:
    """`crowd`: of the queue that the snapshot has, where somebody keeps it."""
    if not _is_for_room(deferral):
        return Estimate(None)
    crowd = crowd or Crowd()
    kept = at_the_latest(_kept_for(foreseen, now).get(asked.id))
    if _is_ruled(asked):
        return Estimate(kept)
    if not crowd.is_before(deferral.position):
        first = _first_for_room(foreseen.ahead)
        if len(first) <= MOST_AHEAD:
            queue = [*_sessions_of(first, snapshot), asked]
            drawn = _ranges_of(queue, snapshot, foreseen, now, asked_kind)[asked.id]
            is_known = drawn is not None and drawn.latest_s is not None
            return Estimate(drawn, "" if is_known else NO_LIMIT)
        crowd.ends_at = first[-1].position
    return Estimate(kept, "" if kept else MANY_AHEAD)


def _first_for_room(deferrals: Iterable[Deferral]) -> list[Deferral]:
    """Those that wait for room, in their order, until they are more than MOST_AHEAD."""
    return list(islice(filter(_is_for_room, deferrals), MOST_AHEAD + 1))


def _sessions_of(deferrals: Iterable[Deferral], snapshot: Snapshot) -> list[PendingSession]:
    sessions = {each.id: each for each in snapshot.pending}
    return [sessions[each.session_id] for each in deferrals]


def _is_for_room(deferral: Deferral) -> bool:
    return deferral.reason not in NOT_FOR_ROOM and not deferral.why.is_limit_kept


def _is_ruled(session: PendingSession) -> bool:
    """Whether where it may run depends on others, so that nothing can be drawn."""
    companions = session.needs.companions
    return companions is not None and companions.rule.is_strict


def _kept_for(foreseen: Foresight, now: datetime) -> dict[UUID, float]:
    """In how many seconds room that is kept for a session is there at the latest."""
    return {
        each.session_id: max(0.0, (each.starts_at - now).total_seconds())
        for each in foreseen.reservations
        if each.starts_at is not None
    }


def _ranges_of(
    queue: Sequence[PendingSession],
    snapshot: Snapshot,
    foreseen: Foresight,
    now: datetime,
    more_kinds: Mapping[UUID, Kind] = NO_KINDS,
) -> dict[UUID, StartRange | None]:
    """Of each in the queue, behind what is placed now; None for one that is gone meanwhile."""
    placed = [each.session for each in foreseen.placements]
    kinds = run_lengths.kinds_of(each.id for each in (*queue, *placed)) | dict(more_kinds)
    held = run_lengths.held_in(snapshot.group_id, now)
    free = {each.id: dict(each.free.items()) for each in snapshot.agents if each.is_schedulable}
    for placement in foreseen.placements:
        if placement.session.id not in kinds:
            continue
        for kernel in placement.kernels:
            kind, lasts_s = kinds[placement.session.id], _lasts_s(placement.session)
            held.append(Held(kernel.agent_id, kernel.slots, kind, 0.0, lasts_s))
            for name, amount in kernel.slots.items():
                free[kernel.agent_id][name] -= amount
    hosts: dict[int, list[AgentView]] = {}
    gathered = {each.session_id: each for each in foreseen.gathered}
    wanted = [_wanted(each, kinds[each.id], snapshot, hosts, now) for each in queue if each.id in kinds]
    images = {image for _owner, image, _type in kinds.values()} | {each.kind[1] for each in held}
    lengths = run_lengths.lengths_of(images, now)
    kept = _kept_for(foreseen, now)
    found = estimate_each(wanted, held, free, lengths, no_later_s=kept) if wanted else {}
    # It may find room anywhere, but what others leave elsewhere may go to whoever comes: it is sure of these machines alone.
    sure = {each.session_id: tuple(dict.fromkeys(each.agent_ids)) for each in foreseen.reservations}
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
    drawn: StartRange | None, session: PendingSession, gathered: Gathering | None, rules: Rules, now: datetime
) -> StartRange | None:
    """The range of a session for which no room is kept of which it is known when it will be there. Where some is gathered, the latest is not
    before that is asked again, which is later each time. Before, others may pass it: the latest is not before it has waited as
    long again, or, if that is sooner, before room would be gathered for so long."""
    if drawn is None or drawn.latest_s is None:
        return drawn
    if gathered is not None:
        latest_s = ceil((gathered.until - now).total_seconds())
    else:
        waited = now - session.enqueued_at
        until_gathered = max(timedelta(), rules.patience - waited) + timedelta(seconds=drawn.latest_s)
        latest_s = ceil(min(waited, until_gathered).total_seconds())
    return replace(drawn, latest_s=max(drawn.latest_s, latest_s))


def _wanted(
    session: PendingSession, kind: Kind, snapshot: Snapshot, hosts: dict[int, list[AgentView]], now: datetime
) -> Wanted:
    """`hosts` remembers who could run what: sessions with equal needs share one object."""
    needs = session.needs
    if id(needs) not in hosts:
        hosts[id(needs)] = [
            agent
            for agent in snapshot.agents
            if agent.is_schedulable and needs.suits(agent) and _fits(needs.kernels, agent.largest)
        ]
    found = hosts[id(needs)]
    closed = {agent.id: spans for agent in found if (spans := _closed(agent, session, now))}
    is_one = needs.gang is Gang.ONE_MACHINE
    slots, count = (needs.total, 1) if is_one else (needs.kernels[0], len(needs.kernels))
    agent_ids, is_spread = [agent.id for agent in found], needs.gang is Gang.SPREAD
    return Wanted(
        session.id, dict(slots.items()), count, agent_ids, kind, _lasts_s(session), closed, is_spread
    )


def _closed(agent: AgentView, session: PendingSession, now: datetime) -> list[tuple[float, float]]:
    """From when until when a reservation lets it not begin there: it has to have ended when that begins, or, if that is its own, to
    begin with it."""
    spans = []
    lasts, own = _counted_lasts(session), session.needs.reservations
    for window in (agent.window, agent.next_window):
        if window is not None and (opens_at := window.opens_at(own)) > now:
            latest = (window.starts_at - lasts - now).total_seconds()
            spans.append((max(0.0, latest), (opens_at - now).total_seconds()))
    return spans


def _fits(kernels: Iterable[ResourceSlots], largest: ResourceSlots) -> bool:
    return all(slots.fits_in(largest) for slots in kernels)


def _counted_lasts(session: PendingSession) -> timedelta:
    """How long it runs, as reservations to come count it."""
    return LENGTH_OF_UNKNOWN if session.lasts is None else session.lasts


def _lasts_s(session: PendingSession) -> float | None:
    return None if session.lasts is None else session.lasts.total_seconds()
