"""The trash: folders that were put aside, until they are restored, deleted for ever, or expire.

Files of a folder in the trash stay where they are and count against limits. Deletion is a state, then
work of the task `purge_folders`, so a crash in between leaves nothing that anybody sees half.
"""

from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.clock import ClockJump
from common.errors import InvalidInput, NotFound, PermissionDenied, invalid_field
from common.messaging.dispatch import TaskName, enqueue_on_commit
from common.models import ClockReading
from vfolders import lifecycle
from vfolders.core.modes import FolderMode, parse_name_of_mode
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.models import VFolder
from vfolders.ports import check_unused
from vfolders.selectors import SHOWN, TRASH, USABLE, access_folder, actions_on
from vfolders.services import name_is_taken


def trash_folder(*, actor: Actor, folder_id: UUID) -> VFolder:
    """Put the folder in the trash, from where it can be restored for BERTH_TRASH_DAYS days. A clone under
    way is cancelled instead: of a part of a copy there is nothing to keep.

    A repetition changes nothing. Raises NotFound, PermissionDenied, FolderInUse.
    """
    folder = access_folder(actor, folder_id, Action.DELETE, states=SHOWN)
    if folder.state == FolderState.TRASHED:
        return folder
    if folder.state == FolderState.CLONING:
        return _move(actor, folder, FolderState.DELETING, "vfolders.cancel_clone")
    return _move(actor, folder, FolderState.TRASHED, "vfolders.trash_folder")


def restore_folder(*, actor: Actor, folder_id: UUID, name: str = "") -> VFolder:
    """Take the folder out of the trash, under another name if `name` is given and the actor may manage it.

    A repetition changes nothing. Raises NotFound, PermissionDenied, InvalidInput, Conflict (its name was
    given to another folder meanwhile).
    """
    folder = access_folder(actor, folder_id, Action.DELETE, states=USABLE | TRASH)
    if folder.state == FolderState.READY:
        return folder
    if name and name != folder.name and Action.MANAGE not in actions_on(actor, folder):
        raise PermissionDenied(
            _("You may not manage the folder “{folder}”.").format(folder=folder.name),
            hint=_("Ask its owner."),
        )
    with invalid_field("name"):
        wanted = parse_name_of_mode(name, FolderMode(folder.mode)) if name else folder.name
    try:
        with transaction.atomic():
            precede_admissions()
            folder = VFolder.objects.select_for_update().get(pk=folder_id)
            if folder.name != wanted:
                folder.name = wanted
                folder.save(update_fields=["name"])
            folder = lifecycle.transition(folder_id, to=FolderState.READY, actor=actor)
            audit_log.record(actor=actor, action="vfolders.restore_folder", target=folder)
    except IntegrityError as error:
        if "folder_name_of" not in str(error):
            raise
        folder.name = wanted
        raise name_is_taken(folder) from error
    return folder


def purge_folder(*, actor: Actor, folder_id: UUID, name: str) -> None:
    """Delete a folder in the trash for ever; `name` repeats its name, as a confirmation.

    Raises NotFound, PermissionDenied, InvalidInput.
    """
    folder = access_folder(actor, folder_id, Action.DELETE, states=TRASH)
    if name != folder.name:
        raise InvalidInput.at(
            "name", _("The name that was typed is not the folder’s, so nothing was deleted.")
        )
    _move(actor, folder, FolderState.DELETING, "vfolders.purge_folder")


def delete_folder(*, actor: Actor, folder_id: UUID) -> None:
    """Delete the folder for ever, in or out of the trash, and end a clone into it.

    Raises NotFound, PermissionDenied, FolderInUse.
    """
    folder = access_folder(actor, folder_id, Action.DELETE, states=SHOWN)
    _move(actor, folder, FolderState.DELETING, "vfolders.delete_folder")


def delete_expired() -> int:
    """Delete folders that were in the trash long enough; return their number. After a clock jump none,
    until their times are shifted.
    """
    now, deleted = clock.now(), 0  # the time before the look: a jump after it does not matter
    if ClockReading.has_jumped():
        return 0
    expired = VFolder.objects.filter(state=FolderState.TRASHED.value, expires_at__lte=now)
    for folder in list(expired):
        with transaction.atomic():
            if expired.select_for_update(skip_locked=True).filter(pk=folder.pk).exists():
                lifecycle.transition(folder.pk, to=FolderState.DELETING, actor=SYSTEM)
                audit_log.record(actor=SYSTEM, action="vfolders.expire_folder", target=folder)
                deleted += 1
    return deleted


def shift_timestamps(step: ClockJump) -> None:
    """Shift timestamps after a clock jump, so that folders in the trash keep their remaining time."""
    trashed = VFolder.objects.filter(state=FolderState.TRASHED.value).exclude(step.is_since("trashed_at"))
    # in the lock order of ADR 8
    list(trashed.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    trashed.update(trashed_at=F("trashed_at") + step.by, expires_at=F("expires_at") + step.by)


def _move(actor: Actor, folder: VFolder, to: FolderState, action: str) -> VFolder:
    """Move the folder to a state in which no session may mount it. Raises FolderInUse."""
    with transaction.atomic():
        precede_admissions()
        # FOR UPDATE excludes transactions that lock the folder for a mount.
        if VFolder.objects.select_for_update().filter(pk=folder.pk).first() is None:
            raise NotFound(_("There is no such folder among yours."))
        check_unused(folder.pk, folder.name)
        moved = lifecycle.transition(folder.pk, to=to, actor=actor)
        audit_log.record(actor=actor, action=action, target=moved)
        if to is FolderState.DELETING:
            enqueue_on_commit(TaskName.PURGE_FOLDERS, host_id=folder.host_id)
    return moved
