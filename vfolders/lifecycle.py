"""State transitions of folders; the only code that writes `VFolder.state`."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from common import clock
from common.actors import Actor
from common.errors import Conflict
from common.messaging.live_updates import Audience, push_on_commit
from common.pages.status_styles import status_style
from vfolders.core.states import FolderState, is_legal
from vfolders.models import VFolder

log = structlog.get_logger(__name__)


class IllegalTransition(Conflict):
    """The transition from the folder's state to the wanted state is not allowed."""

    default_code = "illegal_transition"


@transaction.atomic
def transition(folder_id: UUID, *, to: FolderState, actor: Actor) -> VFolder:
    """Move the folder to state `to` and return its fresh row; a repeat changes nothing.

    Raises IllegalTransition, VFolder.DoesNotExist.
    """
    folder = VFolder.objects.select_for_update().get(pk=folder_id)
    current = FolderState(folder.state)
    if current is to:
        return folder
    if not is_legal(current, to):
        words = {"state": status_style(current).label.lower(), "wanted": status_style(to).label.lower()}
        sentence = _("The folder “{folder}” is {state} and cannot become {wanted}.")
        raise IllegalTransition(sentence.format(folder=folder.name, **words))
    folder.state = to.value
    is_trashed = to is FolderState.TRASHED
    folder.trashed_at = clock.now() if is_trashed else None
    folder.trashed_by_id = actor.user_id if is_trashed else None
    folder.expires_at = folder.trashed_at and folder.trashed_at + timedelta(days=settings.BERTH_TRASH_DAYS)
    folder.save(update_fields=["state", "trashed_at", "trashed_by", "expires_at"])
    log.info("folder.transition", folder_id=str(folder_id), frm=current, to=to, actor=actor.label)
    push_folder_change(folder)
    return folder


def begin_clone(folder: VFolder) -> None:
    """Let a folder that is not stored yet begin in CLONING."""
    folder.state = FolderState.CLONING.value


def push_folder_change(folder: VFolder, *, also: Iterable[int] = ()) -> None:
    """Publish a live update of this folder to open pages, also to those of these people."""
    audience = Audience(owner_id=folder.owner_id, project_id=folder.project_id, domain_id=folder.domain_id)
    push_on_commit("folder-changed", audience=audience, payload={"id": str(folder.pk)})
    for user_id in also:
        push_on_commit("folder-changed", audience=Audience(owner_id=user_id), payload={"id": str(folder.pk)})
