"""One more session beside thousands that wait: placed on what the last tick left, without reading and deciding all again.

What the last tick of a group left is kept in this process, and trusted with nothing: the commit looks at everything under
lock, as it does for a whole plan. Where anything is in doubt, a whole tick decides. Whoever finds no room here is answered by
the next whole tick: at once where few wait, else by the timer.
"""

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from uuid import UUID

import structlog

from agents.models import ResourceGroup
from common import clock
from scheduler.commit import LONG_QUEUE, StalePlan, commit_newcomers
from scheduler.engine import Placement, Plan, Snapshot
from scheduler.engine.leftovers import Leftovers
from scheduler.snapshot import read_newcomers, rules_of

log = structlog.get_logger(__name__)
MOST = 8  # more at once are shared out by a whole plan
TRUSTED_FOR_S = 60.0
_lock = Lock()  # of what follows; held for as long as a newcomer is decided
_left: dict[int, "_Left"] = {}
_placed_lately: dict[int, deque[tuple[float, Placement]]] = defaultdict(lambda: deque(maxlen=1000))


@dataclass(frozen=True, slots=True)
class _Left:
    leftovers: Leftovers
    read_at: float


def remember(snapshot: Snapshot, decided: Plan | None, *, read_at: float) -> None:
    """This plan was committed, or nothing waited. `read_at`: by the monotonic clock, before its snapshot was read."""
    with _lock:
        lately = _placed_lately[snapshot.group_id]
        while lately and lately[0][0] < read_at:
            lately.popleft()
        meanwhile = [placement for _, placement in lately]
        _left[snapshot.group_id] = _Left(Leftovers(snapshot, decided, meanwhile), read_at)


def forget(group_id: int) -> None:
    _left.pop(group_id, None)


def place_newcomers(group_id: int, session_ids: Collection[UUID]) -> bool:
    """Place those of these that wait and find room; whether no whole tick is needed for the others."""
    if len(session_ids) > MOST:
        return False
    with _lock:
        left = _left.get(group_id)
        if left is None or monotonic() - left.read_at > TRUSTED_FOR_S:
            return False
        try:
            return _place(group_id, session_ids, left.leftovers)
        except StalePlan as stale:
            log.info("scheduler.leftovers_stale", resource_group_id=group_id, why=str(stale))
        except BaseException:
            forget(group_id)
            raise
        forget(group_id)
        return False


def _place(group_id: int, session_ids: Collection[UUID], leftovers: Leftovers) -> bool:
    group = ResourceGroup.objects.get(pk=group_id)
    if (group.epoch, rules_of(group)) != (leftovers.epoch, leftovers.rules):
        raise StalePlan(f"{group.name} is not as its last plan left it.")
    newcomers, allowances = read_newcomers(group_id, session_ids)
    placements = leftovers.place(newcomers, allowances, clock.now())
    if placements:
        decided = Plan(group_id, group.name, leftovers.epoch, clock.now(), tuple(placements))
        commit_newcomers(decided)
        _placed_lately[group_id].extend((monotonic(), placement) for placement in placements)
        log.info("scheduler.newcomers", group=group.name, placed=len(placements))
    return len(placements) == len(newcomers) or leftovers.waiting > LONG_QUEUE
