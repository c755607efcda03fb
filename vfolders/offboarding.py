"""Off-boarding of a user's folders: they stay, are handed over to a new owner, or are deleted."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext_noop, ngettext

from accounts.admission_gate import precede_admissions
from accounts.models import Domain, OffBoarding, Project, User
from accounts.ports import OwnedItem
from accounts.tenancy.owned_resources import Owner
from common.actors import Actor
from common.errors import Conflict, NotFound
from common.values.stored_message import StoredMessage
from vfolders import trash
from vfolders.models import VFolder
from vfolders.selectors import SHOWN
from vfolders.sharing.transfer import give_folder

KEPT = StoredMessage(gettext_noop("Stays with the closed account."))
DELETED = StoredMessage(gettext_noop("Is deleted."))
NAME, LABEL = "folders", gettext_noop("folder “{name}”")


def items(user: User) -> Sequence[OwnedItem]:
    rows = VFolder.objects.filter(owner=user, state__in=SHOWN).order_by("name")
    return [OwnedItem(str(pk), name) for pk, name in rows.values_list("pk", "name")]


def resolve_item(case: OffBoarding, item_id: str, actor: Actor) -> StoredMessage | None:
    """Resolve one folder as the off-boarding case demands; None if it must be tried again.
    Raises BerthError for failures that can be retried.
    """
    if case.folders == OffBoarding.Folders.DELETE:
        return _delete(UUID(item_id), actor)
    if case.folders == OffBoarding.Folders.HAND_OVER:
        if case.heir is None or not case.heir.is_active:
            return StoredMessage(
                gettext_noop("Stays with the closed account: who should get it has left, too.")
            )
        return hand_over(folder_id=UUID(item_id), heir=case.heir, actor=actor)
    return KEPT


def hand_over(*, folder_id: UUID, heir: User, actor: Actor) -> StoredMessage:
    """Make `heir` the owner, under another name if the new owner has a folder of that name. The
    limits of the new owner do not refuse it. Idempotent.
    """
    with transaction.atomic():
        precede_admissions()
        folder = VFolder.objects.select_for_update().filter(pk=folder_id).first()
        if folder is None or folder.state not in SHOWN:
            return DELETED
        folder = give_folder(actor=actor, folder_id=folder_id, heir=heir, is_limited=False)
    arguments = {"heir": heir.email, "name": folder.name}
    return StoredMessage(gettext_noop("Belongs to {heir} now, as “{name}”."), arguments)


def objection(owner: Project | Domain) -> str:
    """Return "": folders do not prevent closing a project or a domain, and stay with it."""
    return ""


def history(owner: Owner) -> str:
    """Return the number of folders as text, or "".
    Folders that are being deleted count, because their rows exist.
    """
    field = {User: "owner", Project: "project", Domain: "domain"}[type(owner)]
    count = VFolder.objects.filter(**{field: owner}).count()
    return ngettext("{count} folder", "{count} folders", count).format(count=count) if count else ""


def _delete(folder_id: UUID, actor: Actor) -> StoredMessage | None:
    try:
        trash.delete_folder(actor=actor, folder_id=folder_id)
    except NotFound:
        pass
    except Conflict:
        return None  # a session that mounts it is being stopped
    return DELETED
