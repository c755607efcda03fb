"""Clones of folders: copied by a worker, shown with progress, never seen half.

The new folder is in CLONING until all is copied, so nobody opens or mounts it before. A worker that
dies is followed by another, which begins anew with an empty folder. Where the storage host can clone
by itself and both folders are on it, nothing is copied.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Condition
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from accounts.tenancy.user_import import user_actor
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.advisory_locks import try_exclusive
from common.errors import BerthError, Conflict, LimitExceeded, NotFound
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.values.stored_message import StoredMessage, one_line
from vfolders import lifecycle, usage
from vfolders.access_watch import AccessWatch
from vfolders.core.modes import FolderMode
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.models import FolderClone, VFolder
from vfolders.selectors import LISTED, access_folder, calls_of, files_of, storage_of
from vfolders.services import insert_folder, make_files, new_folder, remove_files
from vfolders.storage.base import Capability, StorageUnavailable
from vfolders.storage.host_calls import LONG_S

log = structlog.get_logger(__name__)

LOOK_S = 0.5
"""Interval in which a copy is checked and its progress is stored."""
RESERVED_STEP_BYTES = 32 * 2**20
PARALLEL = 4
"""Copies under way in the whole installation; others wait for their turn."""


class CloneStopped(Exception):
    """The clone was cancelled or its folder is gone."""


def clone_folder(
    *,
    actor: Actor,
    folder_id: UUID,
    name: str,
    project: str = "",
    host: str = "",
    mode: FolderMode | None = None,
) -> VFolder:
    """Begin to copy a folder that the actor may read into a new one, of the actor or of a project.

    The size of the source counts against limits at once. Raises InvalidInput, NotFound,
    PermissionDenied, LimitExceeded, Conflict (the name is taken).
    """
    source = access_folder(actor, folder_id, Action.READ)
    folder = new_folder(
        actor=actor,
        name=name,
        project=project,
        host=host or _usual_host(source),
        mode=mode or _usual_mode(source, name),
    )
    lifecycle.begin_clone(folder)
    folder.size_bytes = source.size_bytes

    def record() -> None:
        FolderClone.objects.create(
            folder=folder,
            source=source,
            source_name=source.name,
            asked_by_id=actor.user_id,
            bytes_total=source.size_bytes,
            reserved_bytes=source.size_bytes,
        )
        changes = {"source": source.name, "source_id": str(source.pk)}
        audit_log.record(actor=actor, action="vfolders.clone_folder", target=folder, changes=changes)
        enqueue_on_commit(TaskName.CLONE_FOLDERS, folder_id=str(folder.pk))

    insert_folder(folder, actor=actor, record=record, has_files=False)
    return folder


def _usual_host(source: VFolder) -> str:
    """Return the host of the source, on which a clone may need no copy, if it takes new folders."""
    return source.host.name if source.host.is_active else ""


def _usual_mode(source: VFolder, name: str) -> FolderMode:
    if name.startswith("."):
        return FolderMode.AUTO_MOUNT
    mode = FolderMode(source.mode)
    return FolderMode.GENERAL if mode is FolderMode.AUTO_MOUNT else mode


def retry_clone(*, actor: Actor, folder_id: UUID) -> VFolder:
    """Begin a clone anew that stopped. Raises NotFound, PermissionDenied, Conflict (it did not stop)."""
    folder = access_folder(actor, folder_id, Action.MANAGE, states=LISTED)
    with transaction.atomic():
        clone = FolderClone.objects.select_for_update().filter(folder_id=folder_id).first()
        if clone is None or clone.error is None:
            raise Conflict(_("The folder “{folder}” waits for no new attempt.").format(folder=folder.name))
        clone.error = None
        clone.save(update_fields=["error"])
        audit_log.record(actor=actor, action="vfolders.retry_clone", target=folder)
        lifecycle.push_folder_change(folder)
        enqueue_on_commit(TaskName.CLONE_FOLDERS, folder_id=str(folder_id))
    return folder


def unfinished_clones() -> list[UUID]:
    """Return ids of folders whose clone a worker should go on with."""
    rows = FolderClone.objects.filter(error__isnull=True, folder__state=FolderState.CLONING.value)
    return list(rows.order_by("started_at").values_list("folder_id", flat=True))


def run_clone(folder_id: UUID) -> None:
    """Copy one folder to the end, unless another worker does. Returns without effect if PARALLEL copies
    are under way; a periodic task asks again.
    """
    with try_exclusive(f"vfolders.clone.{folder_id}") as is_mine, _place() as has_place:
        clone = _find(folder_id) if is_mine and has_place else None
        if clone is None or clone.error is not None:
            return
        try:
            _copy(clone)
            _finish(clone)
        except CloneStopped:
            log.info("folder.clone_stopped", folder_id=str(folder_id))
        except StorageUnavailable as error:
            log.warning("folder.clone_delayed", folder_id=str(folder_id), error=error.message)
        except BerthError as error:
            _fail(clone, error)
        finally:
            _remove_purged(clone.folder)


@contextmanager
def _place() -> Iterator[bool]:
    """Take one of the PARALLEL places; yield False if there is none."""
    for number in range(PARALLEL):
        with try_exclusive(f"vfolders.clone_place.{number}") as is_mine:
            if is_mine:
                yield True
                return
    yield False


def _find(folder_id: UUID) -> FolderClone | None:
    rows = FolderClone.objects.select_related("folder__host", "source__host", "asked_by")
    return rows.filter(folder_id=folder_id, folder__state=FolderState.CLONING.value).first()


def _copy(clone: FolderClone) -> None:
    """Fill the new folder. Raises CloneStopped, BerthError."""
    folder = clone.folder
    if clone.source is None or clone.asked_by is None:
        raise NotFound(_("The folder “{folder}” is gone.").format(folder=clone.source_name))
    actor = user_actor(clone.asked_by)
    source = access_folder(actor, clone.source.pk, Action.READ)
    storage = storage_of(folder)
    if source.host_id == folder.host_id and Capability.CLONE in storage.capabilities:
        calls_of(folder.host).run(partial(storage.clone_folder, source.pk, folder.pk), timeout_s=LONG_S)
        return
    remove_files(folder)  # of a worker that died
    make_files(folder)
    progress = Progress(allowed_bytes=clone.reserved_bytes)
    watch = AccessWatch(actor, source.pk, Action.READ)
    with ThreadPoolExecutor(1, thread_name_prefix="clone") as pool:
        copying = pool.submit(files_of(source).copy_all, files_of(folder), progress.count)
        try:
            while not copying.done():
                progress.await_news()
                watch.check()
                _reserve(clone, progress)
                _save_progress(clone, progress)
        finally:
            progress.stop()
    copying.result()
    _save_progress(clone, progress)


def _remove_purged(folder: VFolder) -> None:
    """Remove the files if the clone was cancelled: it may have been purged before they were made."""
    if VFolder.objects.filter(pk=folder.pk).exclude(state=FolderState.DELETING.value).exists():
        return
    with suppress(BerthError):
        remove_files(folder)


def _reserve(clone: FolderClone, progress: "Progress") -> None:
    """Count the next bytes against limits if the copy waits for that. Raises LimitExceeded."""
    if not (missing := progress.missing_bytes()):
        return
    for amount in (missing + RESERVED_STEP_BYTES, missing):
        try:
            with transaction.atomic():
                usage.reserve(clone.folder, amount)
                FolderClone.objects.filter(pk=clone.pk).update(reserved_bytes=F("reserved_bytes") + amount)
        except LimitExceeded:
            if amount == missing:
                raise
        else:
            progress.allow(amount)
            return


def _save_progress(clone: FolderClone, progress: "Progress") -> None:
    """Store the progress for pages. Raises CloneStopped if the clone was cancelled."""
    rows = FolderClone.objects.filter(pk=clone.pk, folder__state=FolderState.CLONING.value)
    if not rows.update(bytes_done=progress.bytes_done, files_done=progress.files_done):
        raise CloneStopped
    lifecycle.push_folder_change(clone.folder)


@transaction.atomic
def _finish(clone: FolderClone) -> None:
    """Make the new folder usable, unless the clone was cancelled."""
    folder = VFolder.objects.select_for_update().filter(pk=clone.folder_id).first()
    if folder is None or folder.state != FolderState.CLONING:
        return
    FolderClone.objects.filter(pk=clone.pk).delete()
    lifecycle.transition(folder.pk, to=FolderState.READY, actor=SYSTEM)
    audit_log.record(actor=SYSTEM, action="vfolders.finish_clone", target=folder)
    usage.measure_soon(folder)


@transaction.atomic
def _fail(clone: FolderClone, error: BerthError) -> None:
    """Keep the reason for pages; the folder stays until somebody tries again or removes it."""
    log.warning("folder.clone_failed", folder_id=str(clone.folder_id), error=error.message)
    message = StoredMessage(gettext_noop("Copying stopped."), quote=one_line(error.message))
    FolderClone.objects.filter(pk=clone.pk).update(error=message.to_json())
    lifecycle.push_folder_change(clone.folder)


@dataclass(eq=False)
class Progress:
    """Progress of one copy, between the thread that copies and the one that uses the database.
    Copying waits when `allowed_bytes` are written, until more are allowed.
    """

    allowed_bytes: int
    bytes_done: int = 0
    files_done: int = 0
    _wanted_bytes: int = 0
    _is_over: bool = False
    _news: Condition = field(default_factory=Condition)

    def count(self, size_bytes: int) -> None:
        """Count a piece that is about to be written, 0 for an entry. Raises CloneStopped."""
        with self._news:
            self._wanted_bytes = self.bytes_done + size_bytes
            if self._wanted_bytes > self.allowed_bytes:
                self._news.notify_all()
            self._news.wait_for(lambda: self._is_over or self._wanted_bytes <= self.allowed_bytes)
            if self._is_over:
                raise CloneStopped
            self.bytes_done = self._wanted_bytes
            self.files_done += not size_bytes

    def await_news(self) -> None:
        """Wait until more bytes must be reserved, at most LOOK_S."""
        with self._news:
            self._news.wait_for(lambda: self._wanted_bytes > self.allowed_bytes, LOOK_S)

    def missing_bytes(self) -> int:
        """Return how many bytes to reserve: none unless copying waits for them."""
        with self._news:
            return max(0, self._wanted_bytes - self.allowed_bytes)

    def allow(self, size_bytes: int) -> None:
        with self._news:
            self.allowed_bytes += size_bytes
            self._news.notify_all()

    def stop(self) -> None:
        """Let the copy raise CloneStopped at its next piece."""
        with self._news:
            self._is_over = True
            self._news.notify_all()
