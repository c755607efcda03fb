"""Writes of folders as a whole; files inside them are written by `files/service.py`."""

import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from accounts.admission_gate import precede_admissions
from accounts.core.limits import Limit, refused_limits
from accounts.limits import ScopeIds, check_limits, read_scopes, scope_ids, write_within_limits
from accounts.selectors import access_usable_project, get_acting_user
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.row_locks import RowLock, lock_rows
from common.errors import BerthError, Conflict, InvalidInput, LimitExceeded, invalid_field
from vfolders import lifecycle
from vfolders.core.modes import FolderMode, parse_name_of_mode
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.hosts.health import CHECK_S, mark_of
from vfolders.models import StorageHost, VFolder
from vfolders.quotas.selectors import policy_limits, storage_limits
from vfolders.selectors import (
    USABLE,
    access_folder,
    access_storage_host,
    backend_of,
    calls_of,
    check_creation,
    host_refusals,
    storage_of,
    usual_storage_host,
)
from vfolders.storage.host_calls import LONG_S

log = structlog.get_logger(__name__)


def ensure_default_host() -> StorageHost:
    """Return the default storage host.
    If there is none, create one on this machine below the data directory.
    """
    host = StorageHost.objects.filter(is_default=True).first()
    if host is None:
        host = StorageHost.objects.create(name="local", config={"root": "folders"}, is_default=True)
    backend_of(host).prepare()
    return host


def mark_storage() -> None:
    """Mount each storage host, and leave a mark on it, by which portals on other machines know that they
    see the same files.
    """
    for host in StorageHost.objects.all():
        with suppress(BerthError):  # of one that is away: the check of its health tries again
            storage = backend_of(host)
            calls_of(host).run(storage.attach, timeout_s=CHECK_S)
            calls_of(host).run(partial(storage.create_folder, mark_of(host)), timeout_s=CHECK_S)


def is_marked(host: StorageHost) -> bool:
    """Return True if this process sees the files of the host that `mark_storage` marked."""
    try:
        backend_of(host).attach()
        with backend_of(host).opened(mark_of(host)):
            return True
    except BerthError:
        return False


def create_folder(
    *, actor: Actor, name: str, project: str = "", host: str = "", mode: FolderMode = FolderMode.GENERAL
) -> VFolder:
    """Create an empty folder of the actor, or of the actor's project that `project` names.

    Without a host it is on the default one, or another that policies allow. Raises InvalidInput,
    NotFound, PermissionDenied, LimitExceeded, Conflict (the name is taken), StorageUnavailable.
    """
    folder = new_folder(actor=actor, name=name, project=project, host=host, mode=mode)
    insert_folder(folder, actor=actor, record=lambda: _record(actor, "vfolders.create_folder", folder))
    return folder


def new_folder(*, actor: Actor, name: str, project: str, host: str, mode: FolderMode) -> VFolder:
    """Return an unsaved folder with checked name, owner and host. Raises what `create_folder` does."""
    found_project = access_usable_project(actor, project) if project else None
    actor_scopes = scope_ids(actor, found_project).keys()
    found_host = access_storage_host(host) if host else usual_storage_host(read_scopes(actor_scopes))
    with invalid_field("name"):
        folder_name = parse_name_of_mode(name, mode)
    check_owner_of_mode(mode, is_of_project=found_project is not None)
    user = get_acting_user(actor)
    return VFolder(
        id=uuid.uuid4(),
        name=folder_name,
        domain=found_project.domain if found_project else user.domain,
        owner=None if found_project else user,
        project=found_project,
        host=found_host,
        mode=mode.value,
        creator=user,
    )


def check_owner_of_mode(mode: FolderMode, *, is_of_project: bool) -> None:
    """Raise InvalidInput if a folder of this mode cannot belong to a project."""
    if mode is FolderMode.AUTO_MOUNT and is_of_project:
        raise InvalidInput.at(
            "mode",
            _("A folder of a project is not mounted automatically, only folders of your own."),
            hint=_("Choose another mode, or make it your own."),
        )


def insert_folder(
    folder: VFolder, *, actor: Actor, record: Callable[[], None], has_files: bool = True
) -> None:
    """Create the directory, unless a worker does that later, and then the row, within the limits of its
    owner; `record` runs in the transaction of the row. Raises LimitExceeded, PermissionDenied,
    Conflict (the name is taken), StorageUnavailable.
    """
    check_creation(actor, folder)
    actor_scopes = scope_ids(actor, folder.project).keys()
    owner_scopes = ScopeIds(domain=folder.domain_id, project=folder.project_id, user=folder.owner_id).keys()

    def check_folder_limits(requested: Mapping[str, int]) -> None:
        scopes = read_scopes({*owner_scopes, *actor_scopes})
        of_owner = [scope for scope in scopes if (scope.level, scope.id) in owner_scopes]
        of_bytes = (*policy_limits(of_owner), *storage_limits([folder]))
        full = (*refused_limits(of_owner, requested), *(state for state in of_bytes if state.over))
        check_limits(full, lists=host_refusals(scopes, folder.host))

    requested = {Limit.FOLDERS.value: 1}
    if folder.size_bytes:
        requested[Limit.FOLDER_BYTES.value] = folder.size_bytes

    def write() -> None:
        check_folder_limits(requested)
        folder.save(force_insert=True)
        check_folder_limits({})
        record()
        lifecycle.push_folder_change(folder)

    check_folder_limits(requested)
    # The directory first: if the row fails, only an empty directory with a random name is left.
    if has_files:
        make_files(folder)
    try:
        write_within_limits(write)
    except (IntegrityError, LimitExceeded) as error:
        if has_files:
            remove_files(folder)
        if "folder_name_of" not in str(error):
            raise
        raise name_is_taken(folder) from error


def rename_folder(*, actor: Actor, folder_id: UUID, name: str) -> VFolder:
    """Give the folder another name. Sessions that run keep their mount path; later ones mount it at the
    new name. Raises NotFound, PermissionDenied, InvalidInput, Conflict (the name is taken).
    """
    folder = access_folder(actor, folder_id, Action.MANAGE)
    with invalid_field("name"):
        wanted = parse_name_of_mode(name, FolderMode(folder.mode))
    return _change(actor, folder, "vfolders.rename_folder", {"name": wanted})


def change_mode(*, actor: Actor, folder_id: UUID, mode: FolderMode) -> VFolder:
    """Change what the folder is for. Raises NotFound, PermissionDenied, InvalidInput: auto-mount folders
    have names that begin with a dot, so only a new folder can become one, and none stops being one.
    """
    folder = access_folder(actor, folder_id, Action.MANAGE)
    if (mode is FolderMode.AUTO_MOUNT) != (folder.mode == FolderMode.AUTO_MOUNT):
        raise InvalidInput.at(
            "mode",
            _("Only a folder whose name begins with a dot is mounted automatically, and it always is."),
            hint=_("Clone it under another name instead."),
        )
    return _change(actor, folder, "vfolders.change_folder_mode", {"mode": mode.value})


def _change(actor: Actor, folder: VFolder, action: str, values: Mapping[str, str]) -> VFolder:
    """Write these fields of the folder, audited; nothing if they are so already."""
    with transaction.atomic():
        precede_admissions()
        fresh = VFolder.objects.select_for_update().filter(pk=folder.pk, state__in=USABLE).first()
        if fresh is None:
            raise folder_is_gone()
        before = {field: getattr(fresh, field) for field in values}
        if before == values:
            return folder
        for field, value in values.items():
            setattr(fresh, field, value)
            setattr(folder, field, value)
        try:
            with transaction.atomic():
                fresh.save(update_fields=list(values))
        except IntegrityError as error:
            if "folder_name_of" not in str(error):
                raise
            raise name_is_taken(folder) from error
        changes = {field: [before[field], value] for field, value in values.items()}
        audit_log.record(actor=actor, action=action, target=fresh, changes=changes)
        lifecycle.push_folder_change(fresh)
    return folder


def lock_folders(folder_ids: Iterable[UUID]) -> None:
    """Lock these folders against deletion until the caller's transaction ends. Raises Conflict if
    one is gone.

    Call it in the transaction that writes a use of the folder, which the deletion guard then sees.
    """
    wanted = set(folder_ids)
    if not wanted:
        return
    rows = VFolder.objects.filter(pk__in=wanted, state=FolderState.READY.value).order_by("pk")
    # Shared, so that many sessions mount one folder side by side. Measurements of its size do not
    # wait; deletion and hand-over lock FOR UPDATE.
    locked = {folder.pk for folder in lock_rows(rows, RowLock.KEY_SHARE)}
    if wanted - locked:
        raise folder_is_gone()


def folder_is_gone() -> Conflict:
    return Conflict(
        _("A folder was deleted just now."), hint=_("Choose the folders again."), code="folder_gone"
    )


def hosts_to_purge() -> list[int]:
    """Return ids of the storage hosts with folders in DELETING. One query."""
    return list(_deleted_folders().order_by("host_id").values_list("host_id", flat=True).distinct())


def purge_folders(host_id: int | None = None) -> int:
    """Remove the files, then the rows, of all folders in DELETING, or of those on one host; return the
    number removed.

    May run twice at once; a folder that fails now is left for the next run.
    """
    purged = 0
    on_hosts = {} if host_id is None else {"host_id": host_id}
    for folder in _deleted_folders().filter(**on_hosts).select_related("host"):
        try:
            remove_files(folder)
        except Exception as error:
            log.warning("folder.purge_failed", folder_id=str(folder.pk), error=str(error), exc_info=error)
            if calls_of(folder.host).is_stalled():
                break
            continue
        VFolder.objects.filter(pk=folder.pk).delete()
        log.info("folder.purged", folder_id=str(folder.pk), actor=SYSTEM.label)
        purged += 1
    return purged


def _deleted_folders() -> QuerySet[VFolder]:
    return VFolder.objects.filter(state=FolderState.DELETING.value)


def make_files(folder: VFolder) -> None:
    """Create the folder's directory unless it is there. Raises StorageUnavailable."""
    make = partial(storage_of(folder).create_folder, folder.pk, quota_bytes=folder.quota_bytes)
    calls_of(folder.host).run(make, timeout_s=CHECK_S)


def remove_files(folder: VFolder) -> None:
    """Remove the folder's directory with all it holds. Raises StorageUnavailable, EntryBusy."""
    calls_of(folder.host).run(partial(storage_of(folder).delete_folder, folder.pk), timeout_s=LONG_S)


def name_is_taken(folder: VFolder) -> Conflict:
    sentence = (
        _("The project “{project}” has a folder called “{folder}” already.")
        if folder.project
        else _("You have a folder called “{folder}” already.")
    )
    return Conflict(
        sentence.format(project=folder.project, folder=folder.name),
        hint=_("Choose another name."),
        fields={"name": [_("This name is taken.")]},
    )


def _record(actor: Actor, action: str, folder: VFolder) -> None:
    audit_log.record(actor=actor, action=action, target=folder)
