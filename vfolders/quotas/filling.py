"""Byte limits of the whole installation that are nearly or fully used, for warnings."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import OuterRef, Q, Subquery, Sum

from accounts.core.limits import Level, Limit, StorageLevel
from accounts.models import Domain, LimitUse, Project, User
from vfolders.quotas.selectors import stored_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class FillingLimit:
    """A byte limit with its use. `key` names it for good. The user is responsible, else the admins of
    the project, else those of the domain, else superadmins.
    """

    key: str
    name: str
    value: int
    used: int
    user_id: int | None = None
    project_id: int | None = None
    domain_id: int | None = None


def filling_limits(percent: int) -> list[FillingLimit]:
    """Return all byte limits of which more than `percent` is used. Seven queries."""
    found = (*_of_domains(), *_of_projects(), *_of_users(), *_of_folders(), *_of_hosts(), *_of_parts())
    return [limit for limit in found if limit.used * 100 > limit.value * percent]


_LIMITED = Q(policy__max_folder_bytes__isnull=False)


def _bytes_used(level: Level) -> Subquery:
    uses = LimitUse.objects.filter(
        level=level.value, resource=Limit.FOLDER_BYTES.value, scope_id=OuterRef("pk")
    )
    return Subquery(uses.values("used"))


def _of_domains() -> Iterator[FillingLimit]:
    rows = Domain.objects.filter(_LIMITED).annotate(used=_bytes_used(Level.DOMAIN)).filter(used__gt=0)
    for pk, name, value, used in rows.values_list("pk", "name", "policy__max_folder_bytes", "used"):
        yield FillingLimit(key=f"domain:{pk}", name=name, value=value or 0, used=used, domain_id=pk)


def _of_projects() -> Iterator[FillingLimit]:
    rows = Project.objects.filter(_LIMITED).annotate(used=_bytes_used(Level.PROJECT)).filter(used__gt=0)
    for pk, name, value, used in rows.values_list("pk", "name", "policy__max_folder_bytes", "used"):
        yield FillingLimit(key=f"project:{pk}", name=name, value=value or 0, used=used, project_id=pk)


def _of_users() -> Iterator[FillingLimit]:
    rows = User.objects.filter(_LIMITED).annotate(used=_bytes_used(Level.USER)).filter(used__gt=0)
    for pk, email, value, used in rows.values_list("pk", "email", "policy__max_folder_bytes", "used"):
        yield FillingLimit(key=f"user:{pk}", name=email, value=value or 0, used=used, user_id=pk)


def _of_folders() -> Iterator[FillingLimit]:
    rows = stored_folders().filter(quota_bytes__isnull=False, size_bytes__gt=0)
    for pk, name, value, used, owner_id, project_id in rows.values_list(
        "pk", "name", "quota_bytes", "size_bytes", "owner_id", "project_id"
    ):
        yield FillingLimit(
            key=f"{StorageLevel.FOLDER}:{pk}",
            name=name,
            value=value or 0,
            used=used,
            user_id=owner_id,
            project_id=project_id,
        )


def _of_hosts() -> Iterator[FillingLimit]:
    rows = stored_folders().filter(host__max_bytes__isnull=False).order_by()
    sums = rows.values_list("host_id", "host__name", "host__max_bytes").annotate(used=Sum("size_bytes"))
    for host_id, name, value, used in sums:
        yield FillingLimit(key=f"{StorageLevel.HOST}:{host_id}", name=name, value=value or 0, used=used)


def _of_parts() -> Iterator[FillingLimit]:
    """Limits of users and projects on hosts. Two queries."""
    users = stored_folders().filter(owner__isnull=False, host__max_user_bytes__isnull=False).order_by()
    for user_id, email, host_id, host, value, used in users.values_list(
        "owner_id", "owner__email", "host_id", "host__name", "host__max_user_bytes"
    ).annotate(used=Sum("size_bytes")):
        yield FillingLimit(
            key=f"{StorageLevel.HOST_USER}:{host_id}:{user_id}",
            name=f"{email} @ {host}",
            value=value or 0,
            used=used,
            user_id=user_id,
        )
    projects = stored_folders().filter(project__isnull=False, host__max_project_bytes__isnull=False)
    for project_id, name, host_id, host, value, used in (
        projects.order_by()
        .values_list("project_id", "project__name", "host_id", "host__name", "host__max_project_bytes")
        .annotate(used=Sum("size_bytes"))
    ):
        yield FillingLimit(
            key=f"{StorageLevel.HOST_PROJECT}:{host_id}:{project_id}",
            name=f"{name} @ {host}",
            value=value or 0,
            used=used,
            project_id=project_id,
        )
