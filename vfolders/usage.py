"""How much folders hold: counted in the background, kept in their rows, and held against the limits of whose they are.

Sessions write into folders without asking anybody, so a limit of bytes is found exceeded only when it is measured. Uploads through
the portal are counted as they come and refused before they exceed it. Nothing is ever deleted, and no session is stopped.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Greatest, Least

from accounts.core.limits import Level, Limit, LimitState, exceeded
from accounts.limits import ScopeIds, check_room, scopes_of
from common import clock
from common.messaging.dispatch import TaskName, enqueue_on_commit
from vfolders import lifecycle
from vfolders.core.states import FolderState
from vfolders.models import VFolder
from vfolders.selectors import storage_of
from vfolders.storage.base import IN_BACKGROUND, Effort, Usage

log = structlog.get_logger(__name__)

SOON = timedelta(minutes=2)
LATEST = timedelta(hours=1)
PART_OF_TIME = 20  # a folder that takes a minute to count is counted every 20 minutes at most
ROUND_S = 1200.0
STEP_BYTES = 16 * 2**20


def scopes_of_folders(folders: Iterable[VFolder]) -> set[tuple[Level, int]]:
    """Whose limits the bytes of these folders count for."""
    owners = (ScopeIds(each.domain_id, each.project_id, each.owner_id).keys() for each in folders)
    return {key for keys in owners for key in keys}


def hosts_with_due_folders() -> list[int]:
    """Ids of the storage hosts of which a folder waits to be counted. 1 query."""
    return list(_due_folders().order_by("host_id").values_list("host_id", flat=True).distinct())


def measure_due_folders(host_id: int) -> int:
    """Count the folders of a host whose time has come, those that wait longest first, and say how many. Ends after ROUND_S; the
    next round goes on. May run twice at once. A folder that cannot be counted is tried again later and stops no other."""
    ends_at, done = time.monotonic() + ROUND_S, 0
    while time.monotonic() < ends_at:
        due = _due_folders().filter(host_id=host_id)
        folder = due.select_related("host").order_by("measure_at", "pk").first()
        if folder is None:
            break
        try:
            measure(folder, IN_BACKGROUND)
            done += 1
        except Exception as error:
            log.warning("folder.measure_failed", folder_id=str(folder.pk), error=str(error), exc_info=error)
            VFolder.objects.filter(pk=folder.pk).update(measure_at=clock.now() + LATEST)
    return done


def _due_folders() -> QuerySet[VFolder]:
    return VFolder.objects.filter(state=FolderState.READY.value, measure_at__lte=clock.now())


def measure(folder: VFolder, effort: Effort) -> Usage:
    """Count what the folder holds and keep it. Raises StorageUnavailable."""
    began, began_s = clock.now(), time.monotonic()
    usage = storage_of(folder).measure(folder.pk, effort)
    keep_measure(folder, usage, at=began, took_s=time.monotonic() - began_s)
    return usage


def keep_measure(folder: VFolder, usage: Usage, *, at: datetime, took_s: float) -> None:
    """Write what was counted. What could not be counted wholly never makes a size smaller, so that nothing is hidden by making
    counting hard."""
    rows = VFolder.objects.filter(pk=folder.pk)
    size = Value(usage.size_bytes) if usage.is_complete else Greatest(F("size_bytes"), usage.size_bytes)
    rows.update(size_bytes=size, measured_at=at, is_size_whole=usage.is_complete)
    # Whoever wrote meanwhile has asked for another count, which stays.
    rows.filter(measure_at=folder.measure_at).update(measure_at=at + _pause(folder, usage, at, took_s))
    if folder.size_bytes != usage.size_bytes or folder.measured_at is None:
        lifecycle.push_folder_change(folder)


def limits_above(folder: VFolder) -> tuple[LimitState, ...]:
    """The limits of bytes that are exceeded by whose folder it is. One query."""
    return exceeded(scopes_of(scopes_of_folders([folder])), Limit.FOLDER_BYTES)


class Metered:
    """The bytes of an upload, counted for the folder a step ahead of those that pass: who only says that much will come takes
    no room from others. Refused at once where `expected` exceeds a limit now. Iterating raises LimitExceeded. Whoever has one
    calls `settle` after the write, or `give_back` where it failed."""

    def __init__(self, folder: VFolder, chunks: Iterable[bytes], *, expected: int, replaced: int) -> None:
        self._folder, self._chunks = folder, chunks
        self._expected, self._replaced = expected, replaced
        self._reserved = 0

    def __iter__(self) -> Iterator[bytes]:
        if self._expected > STEP_BYTES:
            demand_bytes(self._folder, self._expected - self._replaced)
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
        """The file is there, and this large."""
        self._add(size_bytes - self._replaced - self._reserved)

    def give_back(self) -> None:
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
    """Count so many bytes more for the folder. Raises LimitExceeded. Others of its scopes wait until it is decided."""
    add_bytes(folder, amount)
    check_room(_before(state, amount) for state in limits_above(folder))


@transaction.atomic
def demand_bytes(folder: VFolder, amount: int) -> None:
    """Raises LimitExceeded if there is no room for so many now. Nothing is counted."""
    if amount > 0:
        reserve(folder, amount)
        transaction.set_rollback(True)


def add_bytes(folder: VFolder, amount: int) -> None:
    """The portal wrote or removed so many; what is true is counted soon."""
    size = Greatest(F("size_bytes") + amount, 0)
    soon = clock.now() + SOON
    VFolder.objects.filter(pk=folder.pk).update(size_bytes=size, measure_at=Least(F("measure_at"), soon))


def measure_soon(folder: VFolder) -> None:
    """At once, by a worker: directories went, and nobody knows how large they were."""
    VFolder.objects.filter(pk=folder.pk).update(measure_at=clock.now())
    enqueue_on_commit(TaskName.MEASURE_FOLDERS, host_id=folder.host_id)


def _before(state: LimitState, amount: int) -> LimitState:
    """As it was before `amount` was added, and `amount` asked for; nothing is where it was exceeded already."""
    used = state.used - amount
    is_above = used > state.value
    return replace(state, used=used, left=max(0, state.value - used), asked=0 if is_above else amount)


def _pause(folder: VFolder, usage: Usage, at: datetime, took_s: float) -> timedelta:
    """Until the next count: short where something changed, twice as long as the last time where nothing did."""
    is_still = folder.measured_at is not None and folder.size_bytes == usage.size_bytes
    usual = max(SOON, 2 * (at - folder.measured_at)) if is_still and folder.measured_at else SOON
    return max(min(usual, LATEST), timedelta(seconds=PART_OF_TIME * took_s))
