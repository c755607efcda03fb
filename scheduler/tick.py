"""One tick of one resource group: snapshot → plan → commit."""

from time import monotonic
from uuid import UUID

import structlog

from common import clock
from scheduler import newcomers
from scheduler.commit import StalePlan, commit_plan
from scheduler.engine import Planner
from scheduler.snapshot import read_snapshot

log = structlog.get_logger(__name__)
SNAPSHOTS_PER_TICK = 3
_planners: dict[
    int, Planner
] = {}  # by resource group: a worker's next tick goes on from what the last found out


def run_tick(resource_group_id: int) -> list[UUID]:
    """Place what waits in this group and has room; ids of the sessions that are SCHEDULED now.

    Right when it runs twice, late, beside another tick, or dies anywhere: nothing is written before the
    commit, and the commit is one transaction. A stale plan is made again from a new snapshot, a few times.
    Raises GroupBusy when another worker is committing, StalePlan when the group changed too often; a later
    tick then does the work.
    """
    for _ in range(SNAPSHOTS_PER_TICK - 1):
        try:
            return _tick_once(resource_group_id)
        except StalePlan as stale:
            log.info("scheduler.stale_plan", resource_group_id=resource_group_id, why=str(stale))
    return _tick_once(resource_group_id)


def _tick_once(resource_group_id: int) -> list[UUID]:
    read_at = monotonic()
    snapshot = read_snapshot(resource_group_id)
    if not snapshot.pending:
        newcomers.remember(snapshot, None, read_at=read_at)
        return []
    planner = _planners.pop(resource_group_id, None) or Planner()  # so that no other thread has it meanwhile
    decided = planner.plan(snapshot, clock.now())
    _planners[resource_group_id] = planner
    placed = commit_plan(decided)
    newcomers.remember(snapshot, decided, read_at=read_at)
    if placed:
        log.info(
            "scheduler.tick", group=snapshot.group_name, placed=len(placed), waiting=len(decided.deferrals)
        )
    return placed
