"""Sizes of folders: measured in the background, stored in their rows, and counted against storage
limits.

Sessions write into folders directly, so an exceeded limit is detected only by the next measurement.
Uploads through the portal are counted while they arrive and refused before they exceed it. Nothing
is deleted and no session is stopped because of a limit.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Greatest, Least

from accounts.core.limits import LimitState
from accounts.limits import check_limits
from common import clock
from common.messaging.dispatch import TaskName, enqueue_on_commit
from vfolders import lifecycle
from vfolders.core.states import FolderState
from vfolders.models import VFolder
from vfolders.quotas.selectors import byte_limits, lock_limited_host
from vfolders.selectors import calls_of, files_of, storage_of
from vfolders.storage.base import BACKGROUND, Capability, Effort, Usage

log = structlog.get_logger(__name__)

SHORTEST_INTERVAL = timedelta(minutes=2)
LONGEST_INTERVAL = timedelta(hours=1)
MIN_INTERVAL_FACTOR = 20  # a folder that takes a minute to measure is measured at most every 20 minutes
ROUND_S = 1200.0
STEP_BYTES = 16 * 2**20


def hosts_with_due_folders() -> list[int]:
    """Return ids of the storage hosts that have folders due for measurement. One query."""
    return list(_due_folders().order_by("host_id").values_list("host_id", flat=True).distinct())


def measure_due_folders(host_id: int) -> int:
    """Measure the due folders of a host, longest due first; return their number. Removes what has been
    in their trash for too long.

    Ends after ROUND_S; the next round continues. May run twice at once. A folder that cannot be
    measured is retried later and does not stop the others.
    """
    ends_at, done = time.monotonic() + ROUND_S, 0
    while time.monotonic() < ends_at:
        due = _due_folders().filter(host_id=host_id)
        folder = due.select_related("host").order_by("measure_at", "pk").first()
        if folder is None:
            break
        try:
            measure(folder, BACKGROUND)
            done += 1
        except Exception as error:
            log.warning("folder.measure_failed", folder_id=str(folder.pk), error=str(error), exc_info=error)
            VFolder.objects.filter(pk=folder.pk).update(measure_at=clock.now() + LONGEST_INTERVAL)
            continue
        _expire_trash(folder)
    return done


def _expire_trash(folder: VFolder) -> None:
    """Remove what has been in the folder's trash for too long. On its own and after the measurement,
    because a session that goes on writing there makes it fail.
    """
    try:
        files_of(folder).expire_trash(now_s=clock.now().timestamp())
    except Exception as error:
        log.warning("folder.expire_failed", folder_id=str(folder.pk), error=str(error), exc_info=error)


def _due_folders() -> QuerySet[VFolder]:
    return VFolder.objects.filter(state=FolderState.READY.value, measure_at__lte=clock.now())


def measure(folder: VFolder, effort: Effort) -> Usage:
    """Measure the folder, store the result and return it. Raises StorageUnavailable."""
    began, began_s = clock.now(), time.monotonic()
    usage = _counted_by_host(folder) or files_of(folder).measure(effort)
    store_measurement(folder, usage, at=began, took_s=time.monotonic() - began_s)
    return usage


def _counted_by_host(folder: VFolder) -> Usage | None:
    """Return the size that the file system keeps, without a walk; None if it keeps none."""
    backend = storage_of(folder)
    if Capability.USAGE not in backend.capabilities:
        return None
    used = calls_of(folder.host).run(partial(backend.used_bytes, folder.pk))
    return None if used is None else Usage(used, None, is_complete=True)


def store_measurement(folder: VFolder, usage: Usage, *, at: datetime, took_s: float) -> None:
    """Store a measurement. An incomplete one never reduces a size, so that making a folder hard to
    measure does not hide its content.
    """
    rows = VFolder.objects.filter(pk=folder.pk)
    size = Value(usage.size_bytes) if usage.is_complete else Greatest(F("size_bytes"), usage.size_bytes)
    is_changed = folder.size_bytes != usage.size_bytes
    counted = {} if usage.file_count is None else {"file_count": usage.file_count}
    used = {"used_at": at} if is_changed and folder.measured_at else {}
    rows.update(size_bytes=size, measured_at=at, is_size_whole=usage.is_complete, **counted, **used)
    # A concurrent writer has scheduled another measurement, which stays.
    rows.filter(measure_at=folder.measure_at).update(
        measure_at=at + _measurement_interval(folder, usage, at, took_s)
    )
    if is_changed or folder.measured_at is None:
        lifecycle.push_folder_change(folder)


def exceeded_limits(folder: VFolder) -> tuple[LimitState, ...]:
    """Return the exceeded byte limits of the folder, its owner or project, its domain and its host."""
    return tuple(state for state in byte_limits([folder]) if state.over)


class MeteredUpload:
    """Upload stream that counts its bytes for the folder a step ahead of the data, so that an
    announced size alone takes no space from others.

    Refuses at once if `expected` exceeds a limit now. Iterating raises LimitExceeded. The caller
    calls `settle` after the write, or `release` if it failed.
    """

    def __init__(self, folder: VFolder, chunks: Iterable[bytes], *, expected: int, replaced: int) -> None:
        self._folder, self._chunks = folder, chunks
        self._expected, self._replaced = expected, replaced
        self._reserved = 0

    def __iter__(self) -> Iterator[bytes]:
        if self._expected > STEP_BYTES:
            check_bytes_fit(self._folder, self._expected - self._replaced)
        self._reserve_for(min(self._expected, STEP_BYTES))
        written = 0
        for chunk in self._chunks:
            written += len(chunk)
            unasked = STEP_BYTES if written > self._expected else 0
            if written - self._replaced - self._reserved > unasked:
                self._reserve_for(max(written, min(self._expected, written + STEP_BYTES)))
            yield chunk
        self._reserve_for(written)

    def settle(self, size_bytes: int) -> None:
        """Replace the reserved bytes by the final size of the file."""
        self._add(size_bytes - self._replaced - self._reserved)

    def release(self) -> None:
        self._add(-self._reserved)

    def _reserve_for(self, size_bytes: int) -> None:
        amount = size_bytes - self._replaced - self._reserved
        if amount > 0:
            reserve(self._folder, amount)
            self._reserved += amount

    def _add(self, amount: int) -> None:
        if amount:
            add_bytes(self._folder, amount)


@transaction.atomic
def reserve(folder: VFolder, amount: int) -> None:
    """Add `amount` bytes to the folder's size.
    Raises LimitExceeded. Other writers of its scopes wait until the transaction ends.
    """
    lock_limited_host(folder.host)
    add_bytes(folder, amount)
    present = VFolder.objects.select_related("host").get(pk=folder.pk)  # with today's quota
    check_limits(_before(state, amount) for state in exceeded_limits(present))


@transaction.atomic
def check_bytes_fit(folder: VFolder, amount: int) -> None:
    """Check that `amount` bytes fit now, without counting them. Raises LimitExceeded."""
    if amount > 0:
        reserve(folder, amount)
        transaction.set_rollback(True)


def add_bytes(folder: VFolder, amount: int) -> None:
    """Add bytes that the portal wrote or removed to the stored size; measure again soon."""
    size, now = Greatest(F("size_bytes") + amount, 0), clock.now()
    VFolder.objects.filter(pk=folder.pk).update(
        size_bytes=size, used_at=now, measure_at=Least(F("measure_at"), now + SHORTEST_INTERVAL)
    )


def note_use(folder_id: UUID) -> None:
    """Record that a session starts with the folder."""
    VFolder.objects.filter(pk=folder_id).update(used_at=clock.now())


def measure_soon(folder: VFolder) -> None:
    """Have the folder measured at once by a worker, after directories of unknown size were deleted."""
    VFolder.objects.filter(pk=folder.pk).update(measure_at=clock.now())
    enqueue_on_commit(TaskName.MEASURE_FOLDERS, host_id=folder.host_id)


def _before(state: LimitState, amount: int) -> LimitState:
    """Return the state before `amount` was added, with `amount` as requested; 0 is requested if the
    limit was exceeded already.
    """
    used = state.used - amount
    is_above = used > state.value
    return replace(state, used=used, left=max(0, state.value - used), asked=0 if is_above else amount)


def _measurement_interval(folder: VFolder, usage: Usage, at: datetime, took_s: float) -> timedelta:
    """Return the time until the next measurement: short after a change, else twice the previous
    interval.
    """
    is_still = folder.measured_at is not None and folder.size_bytes == usage.size_bytes
    usual = (
        max(SHORTEST_INTERVAL, 2 * (at - folder.measured_at))
        if is_still and folder.measured_at
        else SHORTEST_INTERVAL
    )
    return max(min(usual, LONGEST_INTERVAL), timedelta(seconds=MIN_INTERVAL_FACTOR * took_s))
