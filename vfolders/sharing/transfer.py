"""Hand-over of a folder to a new owner."""

from collections.abc import Iterator
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from accounts.core.limits import Limit, StorageLevel, overused_limits, refused_limits
from accounts.limits import ScopeIds, check_limits, read_scopes
from accounts.models import User
from accounts.selectors import user_actor
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict
from vfolders import lifecycle
from vfolders.core.modes import FolderMode
from vfolders.core.permissions import OWNERSHIP
from vfolders.models import VFolder
from vfolders.quotas.selectors import storage_limits
from vfolders.selectors import check_creation, host_refusals

MAX_TRIES = 100
MAX_STEM_LENGTH = 48


@transaction.atomic
def give_folder(*, actor: Actor, folder_id: UUID, heir: User, is_limited: bool) -> VFolder:
    """Make `heir` the owner and return the folder, under another name if the new owner has one of that
    name. Its shares stay; its public links and the share of the new owner end. A repeat changes nothing.

    An automatically mounted folder becomes a general one and loses its dot: what the former owner left
    there, like start-up code, would run in all sessions of the new owner.

    The caller holds the folder's row lock. With `is_limited` raises LimitExceeded, and PermissionDenied if
    the new owner may not create folders on its host.
    """
    folder = VFolder.objects.select_related("owner", "host", "domain").get(pk=folder_id)
    if folder.owner_id == heir.pk:
        return folder
    wanted = {Limit.FOLDERS.value: 1, Limit.FOLDER_BYTES.value: folder.size_bytes}
    if is_limited:
        check_creation(user_actor(heir), folder)
        scopes = read_scopes(ScopeIds(user=heir.pk).keys())
        check_limits(refused_limits(scopes, wanted), lists=host_refusals(scopes, folder.host))
    folder.owner, before = heir, folder.owner
    lifecycle.push_folder_change(folder, also=[before.pk] if before else [])
    if folder.mode == FolderMode.AUTO_MOUNT:
        folder.mode, folder.name = FolderMode.GENERAL.value, folder.name.removeprefix(".")
    folder.name = _save_under_free_name(folder, before)
    if is_limited:  # again, as the trigger that counts a hand-over does not refuse it
        scopes = read_scopes(ScopeIds(user=heir.pk).keys())
        check_limits(state for limit in wanted for state in overused_limits(scopes, Limit(limit)))
        of_host = storage_limits([folder])
        check_limits(each for each in of_host if each.level is StorageLevel.HOST_USER and each.over)
    folder.shares.filter(right=OWNERSHIP).delete()
    folder.links.all().delete()
    changes = {"from": str(before), "to": heir.email, "name": folder.name}
    audit_log.record(actor=actor, action="vfolders.hand_over_folder", target=folder, changes=changes)
    return folder


def _save_under_free_name(folder: VFolder, before: User | None) -> str:
    """Save the folder under the first free name; the unique constraint decides which names are
    taken. Raises Conflict if all are.
    """
    for name in _candidate_names(folder.name, before):
        try:
            with transaction.atomic():
                folder.name = name
                folder.save(update_fields=["owner", "name", "mode"])
            return name
        except IntegrityError as error:
            if "folder_name_of_owner" not in str(error):
                raise
    raise Conflict(_("There is no free name for the folder “{name}”.").format(name=folder.name))


def _candidate_names(name: str, before: User | None) -> Iterator[str]:
    yield name
    stem = f"{name[:MAX_STEM_LENGTH]}-{before.pk if before else 0}"
    yield stem
    yield from (f"{stem}-{number}" for number in range(2, MAX_TRIES))
