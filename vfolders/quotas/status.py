"""Storage of one user: limits that apply, sizes on each host, and hosts for new folders."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, FilteredRelation, Q, Sum

from accounts.core.limits import Level, Limit, LimitState, Scope, StorageLevel
from accounts.limits import ScopeIds, read_scopes
from common.actors import Actor
from vfolders.core.quota_steps import reached_step
from vfolders.core.states import FolderState
from vfolders.models import StorageHost, VFolder
from vfolders.quotas.selectors import byte_limit, policy_limits
from vfolders.selectors import NOBODY


@dataclass(frozen=True, slots=True)
class HostPart:
    """A user's own folders on one host. `limit_bytes` is None without a limit."""

    host: str
    used_bytes: int
    folder_count: int
    limit_bytes: int | None


@dataclass(frozen=True, slots=True)
class StorageStatus:
    """Limits of bytes of the user, the domain and the user's projects, from the narrowest up; then the
    user's parts of hosts. `most_folders` is None without a limit. `open_hosts` are the names of hosts
    on which folders may be created, the default one first.
    """

    limits: tuple[LimitState, ...]
    hosts: tuple[HostPart, ...]
    open_hosts: tuple[str, ...]
    used_bytes: int
    folder_count: int
    most_folders: int | None


def storage_status(actor: Actor, project_ids: Collection[int] = ()) -> StorageStatus:
    """Return the status of the actor, and limits of these projects. Two queries."""
    keys = ScopeIds(domain=actor.domain_id, user=actor.user_id).keys()
    scopes = read_scopes([*keys, *((Level.PROJECT, pk) for pk in project_ids)])
    known = _hosts(actor)
    hosts = _parts(known)
    user = next((scope for scope in scopes if scope.level is Level.USER), None)
    return StorageStatus(
        limits=(*reversed(policy_limits(scopes)), *_host_limits(hosts)),
        hosts=hosts,
        open_hosts=tuple(
            host.name
            for host in sorted(known, key=lambda host: not host.is_default)
            if host.is_active and not host.error
        ),
        used_bytes=sum(part.used_bytes for part in hosts),
        folder_count=sum(part.folder_count for part in hosts),
        most_folders=_most_folders(user),
    )


def filling_limits(
    actor: Actor, scopes: Collection[Scope], folders: Iterable[VFolder]
) -> tuple[LimitState, ...]:
    """Return the limits of bytes of these scopes, and of the actor's parts of hosts, that have reached the
    first step of a warning. One query if a host of one of these folders limits its users, else none.
    """
    has_parts = any(folder.host.max_user_bytes is not None for folder in folders)
    parts = _parts(_hosts(actor)) if has_parts else ()
    limits = (*reversed(policy_limits(scopes)), *_host_limits(parts))
    return tuple(limit for limit in limits if reached_step(limit.used, limit.value))


def _parts(hosts: Iterable[Any]) -> tuple[HostPart, ...]:
    return tuple(
        HostPart(host.name, host.used_bytes, host.folder_count, host.max_user_bytes)
        for host in hosts
        if host.folder_count
    )


def _host_limits(parts: Iterable[HostPart]) -> list[LimitState]:
    return [
        byte_limit(StorageLevel.HOST_USER, part.host, part.limit_bytes, part.used_bytes)
        for part in parts
        if part.limit_bytes is not None
    ]


def _hosts(actor: Actor) -> list[Any]:
    """All hosts by name, with number and bytes of the actor's own folders. One query."""
    # without those that are being deleted, as `stored_folders`
    own = Q(folders__owner_id=actor.user_id or NOBODY) & ~Q(folders__state=FolderState.DELETING.value)
    hosts = StorageHost.objects.annotate(own=FilteredRelation("folders", condition=own))
    sums = hosts.annotate(used_bytes=Sum("own__size_bytes"), folder_count=Count("own")).order_by("name")
    columns = ("name", "is_default", "is_active", "error", "max_user_bytes", "used_bytes", "folder_count")
    return list(sums.values_list(*columns, named=True))


def _most_folders(user: Scope | None) -> int | None:
    return user.limits.get(Limit.FOLDERS.value) if user else None
