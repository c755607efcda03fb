"""Counts the sizes of a folder's directories on request, in the background, and keeps the result.

A request is a time in the folder's row of DirectoryCount. The task counts it; if it dies, the next
round does. A request that arrives during a count stays and is counted after it.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.utils.translation import gettext as _

from common import clock
from common.actors import Actor
from common.db.advisory_locks import try_exclusive
from common.errors import BerthError, invalid_field
from common.messaging.dispatch import TaskName, enqueue_on_commit
from vfolders import lifecycle
from vfolders.core.directory_sizes import (
    DirectorySize,
    DirectoryTree,
    TreeBuilder,
    pack_tree,
    unpack_tree,
)
from vfolders.core.paths import EntryPath, parse_directory
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.models import DirectoryCount, VFolder
from vfolders.selectors import access_folder, files_of
from vfolders.storage.base import Effort, EntryMissing
from vfolders.usage import store_measurement

log = structlog.get_logger(__name__)

EFFORT = Effort(max_entries=20_000_000, max_s=240.0, share=0.5)


@dataclass(frozen=True, slots=True)
class DirectoryReport:
    """Sizes below one directory of a folder. Without a count so far, `directory` and `tree` are None.
    `problem` says why the last count failed.
    """

    folder: VFolder
    path: EntryPath
    directory: DirectorySize | None
    tree: DirectoryTree | None
    counted_at: datetime | None
    is_whole: bool
    is_awaited: bool
    problem: str


def read_directories(actor: Actor, folder_id: UUID, path: str = "") -> DirectoryReport:
    """Return the last count of the directory `path`. Raises NotFound, PermissionDenied, InvalidInput,
    EntryMissing (the count has no such directory).
    """
    folder = access_folder(actor, folder_id, Action.READ)
    with invalid_field("path"):
        components = parse_directory(path)
    row = DirectoryCount.objects.filter(folder=folder).first() or DirectoryCount(folder=folder)
    tree = unpack_tree(bytes(row.content)) if row.content else None
    directory = tree.find(components) if tree else None
    if tree and directory is None:
        raise EntryMissing(
            _("The last count has no directory “{path}”.").format(path="/".join(components)),
            hint=_("Count again, or go up one level."),
        )
    return DirectoryReport(
        folder=folder,
        path=components,
        directory=directory,
        tree=tree,
        counted_at=row.counted_at,
        is_whole=row.is_whole,
        is_awaited=row.requested_at is not None,
        problem=row.problem,
    )


def request_count(*, actor: Actor, folder_id: UUID) -> None:
    """Have the directories counted soon; a repetition while that is awaited changes nothing."""
    folder = access_folder(actor, folder_id, Action.READ)
    row, is_new = DirectoryCount.objects.get_or_create(folder=folder, defaults={"requested_at": clock.now()})
    if not is_new:
        DirectoryCount.objects.filter(pk=row.pk, requested_at=None).update(requested_at=clock.now())
    enqueue_on_commit(TaskName.COUNT_DIRECTORIES, folder_id=str(folder_id))


def count_requested(folder_id: UUID | None = None) -> int:
    """Count the directories of this folder, or of all that wait; return their number. Only those that
    were requested; one at a time per folder.
    """
    waiting = DirectoryCount.objects.filter(
        requested_at__isnull=False, folder__state=FolderState.READY.value
    ).order_by("requested_at")
    if folder_id is not None:
        waiting = waiting.filter(pk=folder_id)
    done = 0
    for pk in list(waiting.values_list("pk", flat=True)):
        with try_exclusive(f"vfolders.directories.{pk}") as is_mine:
            row = waiting.select_related("folder__host").filter(pk=pk).first() if is_mine else None
            if row is not None:
                _count(row)
                done += 1
    return done


def _count(row: DirectoryCount) -> None:
    folder, requested_at = row.folder, row.requested_at
    began, began_s = clock.now(), time.monotonic()
    builder = TreeBuilder(began.timestamp())
    found: dict[str, object]
    try:
        usage = files_of(folder).measure(EFFORT, builder.add)
    except BerthError as error:
        log.warning("folder.count_failed", folder_id=str(folder.pk), error=error.message)
        found = {"problem": error.message[:500]}
    else:
        content = pack_tree(builder.build())
        found = {"content": content, "counted_at": began, "is_whole": usage.is_complete, "problem": ""}
        store_measurement(folder, usage, at=began, took_s=time.monotonic() - began_s)
    rows = DirectoryCount.objects.filter(pk=row.pk)
    rows.update(**found)
    rows.filter(requested_at=requested_at).update(requested_at=None)
    lifecycle.push_folder_change(folder)
