"""Sizes of all folders of users, projects and hosts, with limits and growth, for administrators."""

from datetime import date, timedelta
from typing import Any

from django.db.models import BigIntegerField, Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from accounts.models import User
from accounts.selectors import overseen_domain_ids, overseen_projects, sees_everything
from common import clock
from common.actors import Actor
from vfolders.models import SizeSample, StorageHost, VFolder
from vfolders.quotas.selectors import stored_folders
from vfolders.selectors import SHOWN, folders_in

GROWTH = timedelta(days=30)


def administered_folders(actor: Actor) -> QuerySet[VFolder]:
    """All folders that the actor administers or monitors, also clones under way and trash."""
    return folders_in(actor, SHOWN).filter(Q(is_overseen=True) | Q(is_project_admin=True))


def user_totals(actor: Actor, host: str = "") -> QuerySet[Any]:
    """Users of the domains that the actor oversees, with their totals: `used_bytes`, `folder_count`,
    `limit_bytes` (None: unlimited) and `earlier_bytes` at `growth_since`; on one host if it is named.
    """
    users = User.objects.select_related("domain").filter(purged_at=None)
    if not sees_everything(actor):
        users = users.filter(domain_id__in=overseen_domain_ids(actor))
    limit = _host_limit(host, "max_user_bytes") if host else F("policy__max_folder_bytes")
    totals: QuerySet[Any] = _with_totals(users, "owner_id", host).annotate(limit_bytes=limit)
    return totals


def project_totals(actor: Actor, host: str = "") -> QuerySet[Any]:
    """Projects that the actor oversees, with totals as in `user_totals`."""
    limit = _host_limit(host, "max_project_bytes") if host else F("policy__max_folder_bytes")
    totals: QuerySet[Any] = _with_totals(overseen_projects(actor), "project_id", host).annotate(
        limit_bytes=limit
    )
    return totals


def host_totals(actor: Actor) -> QuerySet[Any]:
    """Storage hosts with totals as in `user_totals`; none unless the actor oversees everything."""
    hosts = StorageHost.objects.all() if sees_everything(actor) else StorageHost.objects.none()
    totals: QuerySet[Any] = _with_totals(hosts, "host_id", "").annotate(limit_bytes=F("max_bytes"))
    return totals


def growth_since() -> date | None:
    """Return the day with which sizes are compared: the last sampled one at least GROWTH ago, else the
    first one; None before the second day. One query.
    """
    today = clock.now().date()
    days = SizeSample.objects.filter(day__lt=today).aggregate(
        before=Max("day", filter=Q(day__lte=today - GROWTH)), first=Min("day")
    )
    found: date | None = days["before"] or days["first"]
    return found


def _with_totals(rows: QuerySet[Any], field: str, host: str) -> QuerySet[Any]:
    on_host = {"host__name": host} if host else {}
    folders = stored_folders().filter(**{field: OuterRef("pk")}, **on_host).order_by().values(field)
    samples = SizeSample.objects.filter(**{field: OuterRef("pk")}, day=growth_since() or date.min, **on_host)
    earlier = samples.order_by().values(field).annotate(sum=Sum("size_bytes")).values("sum")
    annotated: QuerySet[Any] = rows.annotate(
        used_bytes=_number(folders.annotate(sum=Sum("size_bytes")).values("sum")),
        folder_count=_number(folders.annotate(count=Count("pk")).values("count")),
        earlier_bytes=_number(earlier),
    )
    with_growth: QuerySet[Any] = annotated.annotate(growth_bytes=F("used_bytes") - F("earlier_bytes"))
    return with_growth


def _number(query: QuerySet[Any, Any]) -> Coalesce:
    return Coalesce(Subquery(query, output_field=BigIntegerField()), Value(0))


def _host_limit(host: str, column: str) -> Subquery:
    return Subquery(StorageHost.objects.filter(name=host).values(column))
