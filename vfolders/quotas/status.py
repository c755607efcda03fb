"""Storage of one user: limits that apply, and sizes on each host."""

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Count, Sum

from accounts.core.limits import Level, Limit, LimitState, Scope, StorageLevel
from accounts.limits import ScopeIds, read_scopes
from common.actors import Actor
from vfolders.core.quota_steps import reached_step
from vfolders.quotas.selectors import byte_limit, policy_limits, stored_folders


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
    user's parts of hosts. `most_folders` is None without a limit.
    """

    limits: tuple[LimitState, ...]
    hosts: tuple[HostPart, ...]
    used_bytes: int
    folder_count: int
    most_folders: int | None


def storage_status(actor: Actor, project_ids: Collection[int] = ()) -> StorageStatus:
    """Return the status of the actor, and limits of these projects. Two queries."""
    keys = ScopeIds(domain=actor.domain_id, user=actor.user_id).keys()
    scopes = read_scopes([*keys, *((Level.PROJECT, pk) for pk in project_ids)])
    hosts = tuple(_host_parts(actor))
    user = next((scope for scope in scopes if scope.level is Level.USER), None)
    of_hosts = (
        byte_limit(StorageLevel.HOST_USER, part.host, part.limit_bytes, part.used_bytes)
        for part in hosts
        if part.limit_bytes is not None
    )
    return StorageStatus(
        limits=(*reversed(policy_limits(scopes)), *of_hosts),
        hosts=hosts,
        used_bytes=sum(part.used_bytes for part in hosts),
        folder_count=sum(part.folder_count for part in hosts),
        most_folders=_most_folders(user),
    )


def filling_limits(status: StorageStatus) -> tuple[LimitState, ...]:
    """Return the limits that have reached the first step of a warning."""
    return tuple(limit for limit in status.limits if reached_step(limit.used, limit.value))


def _host_parts(actor: Actor) -> list[HostPart]:
    own = stored_folders().filter(owner_id=actor.user_id or 0).order_by("host__name")
    sums = own.values_list("host__name", "host__max_user_bytes").annotate(
        used=Sum("size_bytes"), count=Count("pk")
    )
    return [HostPart(name, used, count, limit) for name, limit, used, count in sums]


def _most_folders(user: Scope | None) -> int | None:
    return user.limits.get(Limit.FOLDERS.value) if user else None
