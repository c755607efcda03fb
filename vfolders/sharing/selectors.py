"""Reads of shares and invitations."""

from collections.abc import Collection
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from common import clock
from common.actors import Actor
from common.errors import Conflict, NotFound
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.models import FolderShare, VFolder
from vfolders.ports import MountingSession, folder_sessions
from vfolders.selectors import NOBODY, access_folder, mount_actions

WITH_NAMES = (
    "folder__owner",
    "folder__project",
    "folder__host",
    "folder__domain",
    "user",
    "project",
    "inviter",
)


def folder_shares(actor: Actor, folder_id: UUID) -> QuerySet[FolderShare]:
    """Shares and open invitations of a folder that the actor may share, oldest first; expired ones,
    too, until they are removed. Raises NotFound, PermissionDenied.
    """
    folder = access_folder(actor, folder_id, Action.SHARE)
    return FolderShare.objects.filter(folder=folder).select_related(*WITH_NAMES)


def access_share(actor: Actor, folder_id: UUID, share_id: UUID) -> FolderShare:
    """Fetch one share of a folder that the actor may share. Raises NotFound, PermissionDenied."""
    share = folder_shares(actor, folder_id).filter(pk=share_id).first()
    if share is None:
        raise NotFound(_("This share does not exist any more."))
    return share


def has_own_share(actor: Actor, folder: VFolder) -> bool:
    """Return True if a folder from `visible_folders` is shared with the actor as a person, who can leave
    it then. At most one query.
    """
    if folder.shared_right is None:  # type: ignore[attr-defined]
        return False
    return folder.shares.filter(user_id=actor.user_id or NOBODY, accepted_at__isnull=False).exists()


def own_invitations(actor: Actor) -> QuerySet[FolderShare]:
    """Invitations and offers to the actor that can be answered now, oldest first."""
    return _invitations_to(actor).filter(
        accepted_at=None, answer_by__gt=clock.now(), folder__state=FolderState.READY.value
    )


def access_invitation(actor: Actor, share_id: UUID) -> FolderShare:
    """Fetch an invitation to the actor, answered or not. Raises NotFound if it was revoked, declined or
    is for another person, Conflict if it has expired.
    """
    share = _invitations_to(actor).filter(pk=share_id).first()
    if share is None or share.folder.state != FolderState.READY:
        raise NotFound(
            _("There is no such invitation for you. It may have been answered or withdrawn."),
            hint=_("Ask whoever shares the folder to invite you again."),
        )
    if share.is_open and share.answer_by is not None and share.answer_by <= clock.now():
        raise Conflict(
            _("The invitation to the folder “{folder}” has expired.").format(folder=share.folder.name),
            hint=_("Ask whoever shares the folder to invite you again."),
            code="invitation_expired",
        )
    return share


def _invitations_to(actor: Actor) -> QuerySet[FolderShare]:
    shares = FolderShare.objects.filter(
        user_id=actor.user_id or NOBODY, folder__domain_id=actor.domain_id or NOBODY
    )
    return shares.select_related(*WITH_NAMES)


def sessions_without_right(
    folder: VFolder, *, among: Collection[UUID] | None = None
) -> list[MountingSession]:
    """Return the live sessions that mount the folder though their owner has no right to it now, or only
    to read it; with `among` only of these. Three queries at most.
    """
    sessions = [
        each for each in folder_sessions.get().mounting(folder.pk) if among is None or each.id in among
    ]
    if not sessions:
        return []
    rights = mount_actions({(each.owner_id, folder) for each in sessions})
    return [
        each
        for each in sessions
        if (Action.MOUNT_READONLY if each.is_readonly else Action.MOUNT) not in rights[each.owner_id, folder]
    ]
