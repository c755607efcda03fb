"""One more session beside thousands that wait: placed on what the last tick left, without reading and deciding all again.

What the last tick of a group left is kept in this process, and trusted with nothing: the commit looks at everything under
lock, as it does for a whole plan. Where anything is in doubt, a whole tick decides. Whoever finds no room here is answered by
the next whole tick: at once where few wait, else by the timer.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from uuid import UUID

import structlog

from common import clock
from scheduler.commit import GroupBusy, StalePlan, all_or_nothing, commit_newcomers
from scheduler.engine import PendingSession, Placement, Plan, Policy, Snapshot
from scheduler.engine.leftovers import Leftovers
from scheduler.kept import KeptByGroup
from scheduler.newcomer_reads import read_newcomers
from scheduler.placement_groups import hosts_of, keys_of
from scheduler.run_state import ensure_state
from scheduler.snapshot import rules_of
from scheduler.waiting_rows import LONG_QUEUE

log = structlog.get_logger(__name__)
MOST = 8  # more at once are shared out by a whole plan
TRUSTED_FOR_S = 60.0


@dataclass(slots=True)
class _Memory:
    """Of one group."""

    lock: Lock = field(default_factory=Lock)  # of what follows; held for as long as a newcomer is decided
    leftovers: Leftovers | None = None
    read_at: float = 0.0
    over_at: float = 0.0  # when somebody last found no room whom no plan had seen
    placed_lately: deque[tuple[float, Placement]] = field(default_factory=lambda: deque(maxlen=1000))


_memories = KeptByGroup[_Memory](for_s=TRUSTED_FOR_S)


def remember(snapshot: Snapshot, decided: Plan | None, *, read_at: float) -> None:
    """This plan was committed, or nothing waited. `read_at`: by the monotonic clock, before its snapshot was read."""
    if decided is None and snapshot.epoch == 0:
        ensure_state(snapshot.group_id)  # which their commit locks
    memory = _memories.get(snapshot.group_id) or _Memory()
    with memory.lock:
        lately = memory.placed_lately
        while lately and lately[0][0] < read_at:
            lately.popleft()
        meanwhile = [placement for _, placement in lately]
        is_long = decided is not None and len(decided.deferrals) > LONG_QUEUE
        memory.leftovers, memory.read_at = None, read_at
        if read_at > memory.over_at:  # else it knows nothing of whoever found none
            memory.leftovers = Leftovers(snapshot, decided, meanwhile, is_long=is_long)
            memory.leftovers.take_stock(clock.now())  # which takes a while: now, not when somebody comes
    _memories.put(snapshot.group_id, memory)


def place_newcomers(group_id: int, session_ids: Collection[UUID], wait_s: float | None = None) -> bool:
    """Place those of these that wait and find room; whether no whole tick is needed for the others. `wait_s`: the longest to wait for
    whatever others hold; None for as long as a plan does, and for rows until they are given back. Raises GroupBusy."""
    memory = _memories.get(group_id)
    if memory is None or len(session_ids) > MOST:
        return False
    if not memory.lock.acquire(timeout=-1 if wait_s is None else wait_s):
        raise GroupBusy(f"Newcomers of resource group {group_id} are being placed.")
    try:
        leftovers = memory.leftovers
        if leftovers is None or monotonic() - memory.read_at > TRUSTED_FOR_S:
            return False
        memory.leftovers = None  # whatever is in doubt is trusted no more
        is_done = _place(group_id, session_ids, leftovers, memory, wait_s)
        if leftovers.is_over:
            memory.over_at = monotonic()
        else:
            memory.leftovers = leftovers
        return is_done
    except StalePlan as doubt:
        log.info("scheduler.leftovers_stale", resource_group_id=group_id, why=str(doubt))
        return False
    finally:
        memory.lock.release()


def _place(
    group_id: int,
    session_ids: Collection[UUID],
    leftovers: Leftovers,
    memory: _Memory,
    wait_s: float | None,
) -> bool:
    with all_or_nothing(leftovers.group_name):
        newcomers, placements = _decide(group_id, session_ids, leftovers, wait_s)
        moved = set(_commit(group_id, placements, leftovers)) if placements else set[UUID]()
    if placements:
        placed = [placement for placement in placements if placement.session_id in moved]
        memory.placed_lately.extend((monotonic(), placement) for placement in placed)
        log.info("scheduler.newcomers", group=leftovers.group_name, placed=len(placed))
    if len(moved) < len(placements):  # somebody else holds them, and they may wait on
        return False
    may_wait = leftovers.waiting > LONG_QUEUE and not leftovers.is_over
    return len(placements) == len(newcomers) or may_wait


def _decide(
    group_id: int, session_ids: Collection[UUID], leftovers: Leftovers, wait_s: float | None
) -> tuple[Sequence[PendingSession], list[Placement]]:
    """Those of these that wait, and where those are to run that find room."""
    group, epoch, newcomers, allowances, now = read_newcomers(
        group_id, session_ids, leftovers.reservations, wait_s
    )
    if not group.is_active or (epoch, rules_of(group, now)) != (leftovers.epoch, leftovers.rules):
        raise StalePlan(f"{group.name} is not as its last plan left it.")
    companions = hosts_of(group_id, keys_of(newcomers))
    placements = leftovers.place(newcomers, allowances, now, companions)
    if 0 < len(placements) < len(newcomers) and leftovers.rules.policy is not Policy.FIFO:
        raise StalePlan(f"Not all who come to {group.name} have room, and it is not for the oldest.")
    return newcomers, placements


def _commit(group_id: int, placements: Sequence[Placement], leftovers: Leftovers) -> list[UUID]:
    plan = Plan(group_id, leftovers.group_name, leftovers.epoch, clock.now(), tuple(placements))
    return commit_newcomers(plan)
