"""Copies, moves and unpacks entries of folders for an actor, in the background if it takes long.

Entries are handled one after another; each appears under its new name when it is complete. A worker
that is killed leaves the entry at hand unfinished, hidden in the folder; another one starts this
entry again. (If it was killed in the instant after the entry got its name, the name is taken, and
handled so.)
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.utils import translation

from accounts.selectors import get_acting_user
from accounts.tenancy.user_import import user_actor
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.db.advisory_locks import locked_subjects, try_exclusive
from common.errors import BerthError, Conflict, InvalidInput, NotFound
from common.i18n import gettext as _
from common.i18n import ngettext
from common.messaging.dispatch import TaskName, enqueue_on_commit
from vfolders import lifecycle
from vfolders.access_watch import AccessWatch
from vfolders.core.paths import EntryPath, display_name
from vfolders.core.permissions import Action
from vfolders.files import turns
from vfolders.files.metering import Allowance, run_metered
from vfolders.files.names import existing_directory, existing_path, new_name
from vfolders.models import FileOperation, VFolder
from vfolders.selectors import access_folder, files_of
from vfolders.storage import trash
from vfolders.storage.base import EntryExists
from vfolders.storage.files import Copying
from vfolders.storage.trees import NameTaken

log = structlog.get_logger(__name__)

MOST_PATHS = 10_000
QUICK_ENTRIES = 500
QUICK_BYTES = 64 * 2**20
RETRY_S = 10
KEPT = timedelta(days=1)
_LATE = timedelta(seconds=20)
_MOST_LEFT_OUT = 100
_CHECKED_EVERY = 100  # entries that are only renamed

Kind = FileOperation.Kind


class Cancelled(Conflict):
    """The user ended the operation."""

    default_code = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Request for an operation. `paths` are entries of the folder; `to` is a directory ("" the top) of
    `to_folder`, by default the same folder. `name` renames the only entry.
    """

    kind: Kind
    paths: Sequence[str]
    to: str = ""
    to_folder: UUID | None = None
    name: str = ""
    taken: NameTaken = NameTaken.REFUSE


def operate(*, actor: Actor, folder_id: UUID, wish: Wish, is_at_once: bool = False) -> FileOperation:
    """Do as wished, at once if it is quick and there is a turn for it, or if `is_at_once`; the answer
    tells if it is done, or in progress.

    Raises NotFound, PermissionDenied, InvalidInput, EntryMissing, EntryExists (`fields` has the taken
    names), LimitExceeded, StorageUnavailable; with `is_at_once` Busy.
    """
    source = access_folder(actor, folder_id, Action.WRITE if wish.kind is Kind.MOVE else Action.READ)
    folder = access_folder(actor, wish.to_folder or folder_id, Action.WRITE)
    paths, to = _check(source, folder, wish)
    operation = FileOperation(
        kind=wish.kind,
        source=source,
        folder=folder,
        user=get_acting_user(actor),
        request={"paths": paths, "to": to, "name": wish.name, "taken": wish.taken.value},
        batch=trash.new_batch(),
    )
    with ExitStack() as held:
        is_quick = _is_rename(operation) or (
            (is_at_once or _is_light(operation)) and held.enter_context(turns.turn(operation.user_id))
        )
        if is_at_once and not is_quick:
            raise _busy()
        if is_quick:
            # Before anybody sees the row: workers take on the rows that nobody holds.
            held.enter_context(try_exclusive(_lock_name(operation.pk)))
        with transaction.atomic():
            operation.save(force_insert=True)
            changes = {"paths": ["/".join(path) for path in paths[:20]], "to": "/".join(to)}
            action = f"vfolders.{wish.kind}_entries"
            audit_log.record(actor=actor, action=action, target=folder, changes=changes)
            if not is_quick:
                enqueue_on_commit(TaskName.RUN_FILE_OPERATIONS, operation_id=str(operation.pk))
        if is_quick:
            _run(operation, actor)
    return operation


def access_operation(actor: Actor, operation_id: UUID) -> FileOperation:
    """Return an operation of the actor. Raises NotFound."""
    found = (
        FileOperation.objects.select_related("folder", "source")
        .filter(pk=operation_id, user_id=actor.user_id or 0)
        .first()
    )
    if found is None:
        raise NotFound(_("There is no such operation of yours; those that ended a day ago are forgotten."))
    return found


def open_operations(actor: Actor, folder: VFolder) -> list[FileOperation]:
    """Return the actor's operations in this folder that have not ended. One query."""
    return list(folder.file_operations.filter(user_id=actor.user_id or 0, ended_at=None)[:20])


def cancel_operation(*, actor: Actor, operation_id: UUID) -> FileOperation:
    """End the operation soon; entries that are done stay. Does nothing if it has ended."""
    operation = access_operation(actor, operation_id)
    FileOperation.objects.filter(pk=operation.pk, ended_at=None).update(is_cancelled=True)
    operation.refresh_from_db()
    return operation


def run_operation(operation_id: UUID) -> None:
    """Do the operation, unless it has ended or another worker is at it."""
    with try_exclusive(_lock_name(operation_id)) as is_mine:
        found = FileOperation.objects.select_related("folder__host", "source__host", "user")
        operation = found.filter(pk=operation_id, ended_at=None).first()
        if not is_mine or operation is None:
            return
        with translation.override(operation.user.language or translation.get_language()):
            try:
                _run(operation, user_actor(operation.user))
            except BerthError as refusal:
                log.info("file_operation.refused", operation_id=str(operation_id), code=refusal.code)


def late_operations() -> list[UUID]:
    """Return the operations that no worker is at, though they were asked for a while ago. Forgets
    those that ended KEPT ago. Three queries.
    """
    now = clock.now()
    FileOperation.objects.filter(ended_at__lt=now - KEPT).delete()
    ids = list(
        FileOperation.objects.filter(ended_at=None, created_at__lt=now - _LATE).values_list("pk", flat=True)
    )
    busy = locked_subjects([_lock_name(each) for each in ids]) if ids else frozenset()
    return [each for each in ids if _lock_name(each) not in busy]


def _lock_name(operation_id: UUID) -> str:
    return f"vfolders.file_operation.{operation_id}"


def _check(source: VFolder, folder: VFolder, wish: Wish) -> tuple[list[EntryPath], EntryPath]:
    if not 0 < len(wish.paths) <= MOST_PATHS:
        sentence = ngettext(
            "Choose at least one entry and at most {count}.", "Choose at least one entry and at most {count}.",
            MOST_PATHS,
        )  # fmt: skip
        raise InvalidInput.at("paths", sentence.format(count=MOST_PATHS))
    if wish.name and len(wish.paths) > 1:
        raise InvalidInput.at("name", _("Only one entry can get a new name."))
    paths = [existing_path(source, text) for text in wish.paths]
    to = existing_directory(folder, wish.to, field="to")
    if wish.kind is Kind.UNPACK and not wish.name:
        return paths, to
    names = [new_name(wish.name)] if wish.name else [path[-1] for path in paths]
    stays = folder.pk == source.pk and not wish.name and any(path[:-1] == to for path in paths)
    if wish.taken is NameTaken.REFUSE and (taken := files_of(folder).taken_names(to, names)):
        if wish.kind is Kind.MOVE and stays:
            raise EntryExists(_("It is in this directory already."), fields={"names": taken})
        raise _names_are_taken(taken)
    return paths, to


def _names_are_taken(names: Sequence[str]) -> EntryExists:
    sentence = ngettext(
        "The name “{name}” is taken there.", "{count} names are taken there, “{name}” among them.", len(names)
    ).format(count=len(names), name=display_name(names[0]))
    return EntryExists(
        sentence, hint=_("Keep both, replace the old one, or skip it."), fields={"names": list(names)}
    )


def _busy() -> turns.Busy:
    return turns.Busy(
        _("Several copies are being made at once already."),
        hint=_(
            "Try again when one of them has ended, or copy on the page of the folder, which does it in the background."
        ),
        retry_after_s=RETRY_S,
    )


def _is_rename(operation: FileOperation) -> bool:
    return operation.kind == Kind.MOVE and operation.source_id == operation.folder_id


def _is_light(operation: FileOperation) -> bool:
    if operation.kind == Kind.UNPACK:
        return False
    weight = files_of(operation.source).weigh(operation.request["paths"], most_entries=QUICK_ENTRIES)
    operation.bytes_total = weight.size_bytes if weight.is_complete else 0
    return weight.is_complete and weight.size_bytes <= QUICK_BYTES


def _run(operation: FileOperation, actor: Actor) -> None:
    """Do what is left of the operation, and record how it ended. Raises the error that ended it."""
    FileOperation.objects.filter(pk=operation.pk).update(beat_at=clock.now())
    try:
        _Run(operation, actor).go_on()
    except BerthError as refusal:
        operation.error = f"{refusal.message} {refusal.hint}".strip()
        raise
    except BaseException:
        operation.error = _("The portal failed. What was done before stays; try again.")
        raise
    finally:
        operation.beat_at = operation.ended_at = clock.now()
        operation.is_cancelled = FileOperation.objects.filter(pk=operation.pk, is_cancelled=True).exists()
        operation.save()
        lifecycle.push_folder_change(operation.folder)
        if operation.source_id != operation.folder_id:
            lifecycle.push_folder_change(operation.source)


class _Run:
    """One run of an operation."""

    def __init__(self, operation: FileOperation, actor: Actor) -> None:
        self.operation, self.actor = operation, actor
        self.source, self.folder = files_of(operation.source), files_of(operation.folder)
        self.taken = NameTaken(operation.request["taken"])
        self.to: EntryPath = tuple(operation.request["to"])
        self._write = AccessWatch(actor, operation.folder_id, Action.WRITE)
        is_move = operation.kind == Kind.MOVE
        self._read = AccessWatch(actor, operation.source_id, Action.WRITE if is_move else Action.READ)
        self._base = (operation.entries_done, operation.bytes_done)
        self._is_slow = not _is_rename(operation)

    def go_on(self) -> None:
        act = {Kind.COPY: self._copy, Kind.MOVE: self._move, Kind.UNPACK: self._unpack}[
            Kind(self.operation.kind)
        ]
        for path in self.operation.request["paths"][self.operation.done :]:
            if self.operation.done % _CHECKED_EVERY == 0 or self._is_slow:
                self._check()
            act(tuple(path))
            self.operation.done += 1
            if self.operation.done % _CHECKED_EVERY == 0 or self._is_slow:
                self._save()

    def _target(self, path: EntryPath) -> EntryPath:
        return (*self.to, self.operation.request["name"] or path[-1])

    def _move(self, path: EntryPath) -> None:
        operation = self.operation
        if _is_rename(operation):
            to = self._target(path)
            if path != to:
                self._note(self.folder.move(path, to, taken=self.taken, batch=operation.batch))
            operation.entries_done += 1
            return
        # Never renamed into another folder: a session of the first one may hold the file open, or a
        # second hard link of it, and would write into the other folder through it.
        if self._copy(path):
            self.source.throw_away(path, batch=operation.batch)

    def _copy(self, path: EntryPath) -> bool:
        left_out: list[EntryPath] = []

        def copy(spend: Callable[[int], None]) -> EntryPath | None:
            how = Copying(self.taken, self.operation.batch, spend, left_out)
            return self.source.copy(path, self.folder, self._target(path), copying=how)

        made, allowance = run_metered(self.operation.folder, copy, self._look)
        self._count_done(allowance)
        self._note(made)
        self._note_left_out([(*path, *each) for each in left_out])
        return made is not None

    def _unpack(self, path: EntryPath) -> None:
        def write(spend: Callable[[int], None]) -> tuple[EntryPath | None, list[str]]:
            how = Copying(self.taken, self.operation.batch, spend, [])
            return self.source.unpack(path, self.folder, self.to, self.operation.request["name"], copying=how)

        (made, left_out), allowance = run_metered(self.operation.folder, write, self._look)
        self._count_done(allowance)
        self._note(made)
        self.operation.left_out = [*self.operation.left_out, *left_out][:_MOST_LEFT_OUT]

    def _note(self, made: EntryPath | None) -> None:
        if made is not None:
            self.operation.paths.append("/".join(made))

    def _note_left_out(self, paths: Sequence[EntryPath]) -> None:
        shown = [display_name("/".join(path)) for path in paths]
        self.operation.left_out = [*self.operation.left_out, *shown][:_MOST_LEFT_OUT]

    def _look(self, allowance: Allowance) -> None:
        """Save the progress; raise if the operation may not go on."""
        self._count(allowance)
        self._save()
        self._check()

    def _check(self) -> None:
        """Raise if the operation is cancelled or the right is gone."""
        self._write.check()
        self._read.check()
        if FileOperation.objects.filter(pk=self.operation.pk, is_cancelled=True).exists():
            raise Cancelled(_("You cancelled it. What was done before stays."))

    def _count(self, allowance: Allowance) -> None:
        self.operation.entries_done = self._base[0] + allowance.entries
        self.operation.bytes_done = self._base[1] + allowance.spent_bytes

    def _count_done(self, allowance: Allowance) -> None:
        self._count(allowance)
        self.operation.entries_done += 1  # the entry itself
        self._base = (self.operation.entries_done, self.operation.bytes_done)

    def _save(self) -> None:
        self.operation.beat_at = clock.now()
        self.operation.save(
            update_fields=["beat_at", "done", "entries_done", "bytes_done", "paths", "left_out"]
        )
