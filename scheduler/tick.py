"""Run one tick of a resource group: read a snapshot, plan, commit, record."""

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from uuid import UUID

import structlog

from common import clock
from common.values.resources import CPU, MEM
from scheduler.commit.device_tables import DevicesTaken
from scheduler.commit.pending_reasons import tell_of_taken_devices
from scheduler.commit.plan_commit import StalePlan, commit_plan
from scheduler.engine import PendingSession, Planner, Snapshot
from scheduler.group_cache import GroupCache
from scheduler.history.recorder import TickDurations, record_tick
from scheduler.snapshot.reader import read_snapshot

log = structlog.get_logger(__name__)
SNAPSHOTS_PER_TICK = 3
PLANNER_KEPT_S = 60.0
# A planner reuses its last pass but decides as a new one would: each worker process has its own.
_planners = GroupCache[Planner](for_s=PLANNER_KEPT_S)


def run_tick(resource_group_id: int) -> list[UUID]:
    """Place the pending sessions of the group that fit. Return the ids of those now SCHEDULED.

    Safe to run twice, late, beside another tick, or to be killed: nothing is written before the
    commit, and the commit is one transaction. A stale plan is made again from a new snapshot,
    SNAPSHOTS_PER_TICK times in all. Raises GroupBusy if another worker holds the lock too long,
    StalePlan if the group changed too often; a later tick then does the work. Sessions that wait for a
    set of devices, or for one that no other project shares, are left out of the next plan, and of the
    last one those that ask for as many, so that they hold up nobody.
    """
    left_out: dict[UUID, str] = {}
    for _ in range(SNAPSHOTS_PER_TICK - 1):
        try:
            return _tick_once(resource_group_id, left_out)
        except StalePlan as stale:
            log.info("scheduler.stale_plan", resource_group_id=resource_group_id, why=str(stale))
        except DevicesTaken as taken:
            left_out |= taken.reasons
    return _tick_once(resource_group_id, left_out, with_alike=True)


def _without(snapshot: Snapshot, reasons: Mapping[UUID, str], *, with_alike: bool) -> Snapshot:
    """Return the snapshot without the sessions of these kernels, after telling them why they wait.
    `with_alike`: also without those that ask for as many devices of a kind.
    """
    left_out: set[UUID] = set()
    for why in dict.fromkeys(reasons.values()):
        kernels = {kernel for kernel, reason in reasons.items() if reason == why}
        unmet = [each for each in snapshot.pending if not kernels.isdisjoint(each.kernel_ids)]
        asked = {amount for each in unmet for amount in _device_amounts(each)} if with_alike else set()
        alike = [each for each in snapshot.pending if not asked.isdisjoint(_device_amounts(each))]
        told = {each.id for each in (*unmet, *alike)} - left_out
        tell_of_taken_devices(told, why)
        left_out |= told
    return replace(snapshot, pending=tuple(each for each in snapshot.pending if each.id not in left_out))


def _device_amounts(session: PendingSession) -> set[tuple[str, int]]:
    kernels = session.requirements.kernels
    return {(name, amount) for slots in kernels for name, amount in slots.items() if name not in (CPU, MEM)}


def _tick_once(
    resource_group_id: int, left_out: Mapping[UUID, str], *, with_alike: bool = False
) -> list[UUID]:
    """Plan and commit once, without the sessions of the kernels `left_out`, and maybe those alike."""
    read_at = monotonic()
    snapshot = read_snapshot(resource_group_id)
    if left_out:
        snapshot = _without(snapshot, left_out, with_alike=with_alike)
    if not snapshot.pending:
        return []
    decides_at = monotonic()
    planner = _planners.take(resource_group_id) or Planner()
    decided = planner.plan(snapshot, clock.now())
    _planners.put(resource_group_id, planner)
    commits_at = monotonic()
    placed = commit_plan(decided)
    took = TickDurations(decides_at - read_at, commits_at - decides_at, monotonic() - commits_at)
    record_tick(snapshot, decided, took)
    if placed:
        log.info(
            "scheduler.tick", group=snapshot.group_name, placed=len(placed), waiting=len(decided.deferrals)
        )
    return placed
