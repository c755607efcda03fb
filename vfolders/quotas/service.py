"""Sets quotas of folders and limits of storage hosts."""

from functools import partial
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.core.limits import StorageLevel
from accounts.selectors import require_superadmin
from common.actors import Actor
from common.audit import audit_log
from common.db.advisory_locks import try_exclusive
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from common.values.resources import format_bytes
from vfolders import lifecycle
from vfolders.core.permissions import Action
from vfolders.models import StorageHost, VFolder
from vfolders.quotas.selectors import byte_limits
from vfolders.selectors import access_folder, administers, calls_of, storage_of
from vfolders.storage.base import Capability

HOST_LIMITS = ("max_bytes", "max_user_bytes", "max_project_bytes")


def set_folder_quota(*, actor: Actor, folder_id: UUID, quota_bytes: int | None) -> VFolder:
    """Set the largest size of a folder; None removes it. At most what the limits above leave to it.

    An administrator's quota can be changed by administrators only. The content stays if it is larger.
    Where the host can, its file system refuses further writes; if this process dies before the row is
    written, only the file system has the quota, and a repetition finishes it. Raises NotFound,
    PermissionDenied, InvalidInput, Conflict (another change is under way), StorageUnavailable.
    """
    folder = access_folder(actor, folder_id, Action.MANAGE)
    is_administrator = administers(actor, folder)
    if folder.is_quota_fixed and not is_administrator:
        raise PermissionDenied(
            _("An administrator set the quota of “{folder}”.").format(folder=folder.name),
            hint=_("Ask an administrator to change it."),
        )
    if quota_bytes is not None:
        _check_within_limits(folder, quota_bytes)
    with try_exclusive(f"vfolders.quota.{folder_id}") as is_mine:
        if not is_mine:
            raise Conflict(_("The quota of this folder is being changed."), hint=_("Try again."))
        backend = storage_of(folder)
        if Capability.QUOTA in backend.capabilities:
            calls_of(folder.host).run(partial(backend.set_quota, folder.pk, quota_bytes))
        return _store_quota(actor, folder, quota_bytes, is_fixed=is_administrator and quota_bytes is not None)


def _check_within_limits(folder: VFolder, quota_bytes: int) -> None:
    if quota_bytes <= 0:
        raise InvalidInput.at("quota_bytes", _("A quota is at least one byte."))
    above = [state for state in byte_limits([folder]) if state.level is not StorageLevel.FOLDER]
    tightest = min(above, key=lambda state: state.value, default=None)
    if tightest and quota_bytes > tightest.value:
        sentence = _("{scope} may have at most {value} for all folders; a quota cannot be larger.")
        raise InvalidInput.at(
            "quota_bytes",
            sentence.format(scope=tightest.scope_title, value=format_bytes(tightest.value)),
            hint=_("Ask for less, or ask an administrator for a higher limit."),
        )


@transaction.atomic
def _store_quota(actor: Actor, folder: VFolder, quota_bytes: int | None, *, is_fixed: bool) -> VFolder:
    VFolder.objects.filter(pk=folder.pk).update(quota_bytes=quota_bytes, is_quota_fixed=is_fixed)
    changes = {"quota_bytes": quota_bytes}
    audit_log.record(actor=actor, action="vfolders.set_folder_quota", target=folder, changes=changes)
    folder.quota_bytes, folder.is_quota_fixed = quota_bytes, is_fixed
    lifecycle.push_folder_change(folder)
    return folder


@transaction.atomic
def set_host_limits(
    *,
    actor: Actor,
    host_id: int,
    max_bytes: int | None,
    max_user_bytes: int | None,
    max_project_bytes: int | None,
) -> StorageHost:
    """Set the bytes of a whole host, of each user and of each project on it; None is unlimited. What
    is above stays. For superadmins. Raises PermissionDenied, NotFound, InvalidInput.
    """
    require_superadmin(actor)
    host = StorageHost.objects.select_for_update().filter(pk=host_id).first()
    if host is None:
        raise NotFound(_("There is no such storage host."))
    values = dict(zip(HOST_LIMITS, (max_bytes, max_user_bytes, max_project_bytes), strict=True))
    for name, value in values.items():
        if value is not None and value < 0:
            raise InvalidInput.at(name, _("A limit is not negative."))
        setattr(host, name, value)
    host.save(update_fields=HOST_LIMITS)
    audit_log.record(actor=actor, action="vfolders.set_host_limits", target=host, changes=values)
    return host
