"""Byte limits that apply to folders: of policies, of storage hosts and of the folder itself."""

from collections.abc import Collection, Iterable

from django.db.models import Q, QuerySet, Sum

from accounts.core.limits import Level, Limit, LimitState, Scope, StorageLevel, all_limits
from accounts.limits import ScopeIds, read_scopes
from vfolders.core.states import FolderState
from vfolders.models import StorageHost, VFolder


def stored_folders() -> QuerySet[VFolder]:
    """All folders whose files take space: those that are being deleted give it back soon."""
    return VFolder.objects.exclude(state=FolderState.DELETING.value)


def scopes_of_folders(folders: Iterable[VFolder]) -> set[tuple[Level, int]]:
    """Return the scopes (level, id) against whose limits the bytes of these folders count."""
    owners = (ScopeIds(each.domain_id, each.project_id, each.owner_id).keys() for each in folders)
    return {key for keys in owners for key in keys}


def byte_limits(folders: Collection[VFolder]) -> tuple[LimitState, ...]:
    """Return every byte limit that applies to one of the folders, from the widest level down. One
    query, and those of `storage_limits`.
    """
    return (*policy_limits(read_scopes(scopes_of_folders(folders))), *storage_limits(folders))


def policy_limits(scopes: Iterable[Scope]) -> tuple[LimitState, ...]:
    """Return the limits of folder bytes of these scopes, from the widest level down."""
    return tuple(state for state in all_limits(scopes) if state.limit == Limit.FOLDER_BYTES)


def storage_limits(folders: Collection[VFolder]) -> tuple[LimitState, ...]:
    """Return the limits of the folders' hosts and of the folders themselves. No query without such
    limits; else one for the sizes of folders with quotas, and one for each part of a host.
    """
    hosts = {each.host_id: each.host for each in folders}
    found = [
        state
        for host in hosts.values()
        for state in host_limits(host, [each for each in folders if each.host_id == host.pk])
    ]
    quotas = {each.pk: each for each in folders if each.quota_bytes is not None}
    sizes = VFolder.objects.filter(pk__in=quotas).values_list("pk", "size_bytes") if quotas else ()
    used = dict(sizes)
    found += [
        byte_limit(StorageLevel.FOLDER, each.name, each.quota_bytes or 0, used.get(each.pk, 0))
        for each in quotas.values()
    ]
    return tuple(found)


def host_limits(host: StorageHost, folders: Iterable[VFolder]) -> list[LimitState]:
    """Return the limits of the host that apply to owners of these folders, with their use."""
    whose = {(each.owner_id, each.project_id) for each in folders}
    parts: list[tuple[StorageLevel, int | None, Q]] = [(StorageLevel.HOST, host.max_bytes, Q())]
    for owner_id, project_id in sorted(whose, key=str):
        parts.append(
            (StorageLevel.HOST_PROJECT, host.max_project_bytes, Q(project_id=project_id))
            if project_id
            else (StorageLevel.HOST_USER, host.max_user_bytes, Q(owner_id=owner_id))
        )
    return [
        byte_limit(level, host.name, value, _size_of(host, part))
        for level, value, part in parts
        if value is not None
    ]


def byte_limit(level: StorageLevel, name: str, value: int, used: int) -> LimitState:
    left = max(0, value - used)
    return LimitState(Limit.FOLDER_BYTES.value, level, name, "", value=value, used=used, left=left)


def lock_limited_host(host: StorageHost) -> None:
    """Lock the host until the transaction ends if it has limits, so that writers into folders of
    several domains do not exceed them together. Call it before rows of folders are written.
    """
    StorageHost.objects.select_for_update(no_key=True).filter(
        Q(max_bytes__isnull=False) | Q(max_user_bytes__isnull=False) | Q(max_project_bytes__isnull=False),
        pk=host.pk,
    ).first()


def _size_of(host: StorageHost, part: Q) -> int:
    sums = stored_folders().filter(part, host=host).aggregate(used=Sum("size_bytes"))
    return int(sums["used"] or 0)
