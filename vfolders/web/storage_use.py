"""Administrators' pages of storage use by user, project and storage host, and limits of hosts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from django.views.decorators.http import require_http_methods, require_safe

from accounts.forms.limit_fields import bytes_field
from accounts.selectors import may_do_everything
from accounts.tenancy.preferences import column_choice
from accounts.web.form_errors import errors_in_form
from accounts.web.page_access import page_not_found, require_administrator, require_global_overseer
from common.actors import Actor
from common.errors import BerthError
from common.pages.tables import Column, Filter, Listing, Table, define_table
from common.values.resources import format_bytes
from vfolders.models import StorageHost
from vfolders.quotas.service import HOST_LIMITS, set_host_limits
from vfolders.reports.totals import growth_since, host_totals, project_totals, user_totals
from vfolders.web.all_folders import require_overseer, section_tabs

_HOST_FILTER = Filter("host", gettext_noop("Stored on"), lambda _name: Q(), is_single=True)


def _table(name: str, noun: str, label: str, field: str, filters: tuple[Filter, ...] = ()) -> Table:
    return define_table(
        Table(
            name=name,
            noun=noun,
            sort="-used",
            search=lambda text: Q(**{f"{field}__icontains": text}),
            search_label=gettext_noop("Search by name"),
            columns=(
                Column("name", label, (field,), is_fixed=True),
                Column("used", gettext_noop("Size"), ("used_bytes",), is_number=True),
                Column("limit", gettext_noop("Limit"), ("limit_bytes",)),
                Column("folders", gettext_noop("Folders"), ("folder_count",), is_number=True),
                Column("growth", gettext_noop("Growth"), ("growth_bytes",), is_number=True),
            ),
            filters=filters,
        )
    )


USERS = _table("user_storage", gettext_noop("users"), gettext_noop("User"), "email", (_HOST_FILTER,))
PROJECTS = _table(
    "project_storage", gettext_noop("projects"), gettext_noop("Project"), "name", (_HOST_FILTER,)
)
HOSTS = _table("host_storage", gettext_noop("storage hosts"), gettext_noop("Storage host"), "name")


@dataclass(frozen=True, slots=True)
class TotalRow:
    """Totals of one user, project or host, ready to print. `growth` is "–" before the second day."""

    name: str
    url: str
    used_bytes: int
    limit_bytes: int | None
    folder_count: int
    growth: str


class HostLimitsForm(forms.Form):
    max_bytes = bytes_field(
        label=gettext_lazy("All folders together"), help_text=gettext_lazy("Like 20t. Empty: unlimited.")
    )
    max_user_bytes = bytes_field(
        label=gettext_lazy("Folders of each user"),
        help_text=gettext_lazy("On this host; policies limit a user on all hosts together."),
    )
    max_project_bytes = bytes_field(label=gettext_lazy("Folders of each project"))


@login_required
@require_safe
def user_storage(request: HttpRequest) -> HttpResponse:
    """List how much storage each user uses, for those who oversee users."""
    actor = require_administrator(request)
    return _page(request, actor, USERS, user_totals, "user-storage")


@login_required
@require_safe
def project_storage(request: HttpRequest) -> HttpResponse:
    """List how much storage each project uses, for those who oversee projects."""
    actor = require_overseer(request)
    return _page(request, actor, PROJECTS, project_totals, "project-storage")


@login_required
@require_safe
def host_storage(request: HttpRequest) -> HttpResponse:
    """List how much is stored on each host."""
    actor = require_global_overseer(request)
    return _page(request, actor, HOSTS, lambda actor, _host: host_totals(actor), "host-storage")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def host_limits(request: HttpRequest, storage_host_id: int) -> HttpResponse:
    """Show or change the limits of bytes of a storage host."""
    actor = require_global_overseer(request)
    host = StorageHost.objects.filter(pk=storage_host_id).first()
    if host is None or not may_do_everything(actor):
        raise page_not_found()
    present = {name: getattr(host, name) for name in HOST_LIMITS}
    form = HostLimitsForm(request.POST if request.method == "POST" else None, initial=present)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            set_host_limits(actor=actor, host_id=storage_host_id, **form.cleaned_data)
            messages.success(request, _("The limits of “{host}” are saved.").format(host=host.name))
            return redirect("host-storage")
    context = {"form": form, "host": host}
    return render(request, "vfolders/host_limits.html", context, status=422 if form.errors else 200)


def _page(
    request: HttpRequest,
    actor: Actor,
    table: Table,
    totals: Callable[[Actor, str], QuerySet[Any]],
    active: str,
) -> HttpResponse:
    listing = Listing(table, request.GET, chosen=column_choice(actor, table.name))
    if table.filters:
        listing.choices = {
            "host": [(name, name) for name in StorageHost.objects.values_list("name", flat=True)]
        }
    since = growth_since()
    host = next(iter(listing.values.get("host", ())), "")
    page = listing.page(totals(actor, host), lambda rows: rows)
    urls = _urls(actor, active)
    context = {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": [_row(row, urls(row), since is not None) for row in page],
        "since": since,
        "sections": section_tabs(actor, active),
    }
    return render(request, "vfolders/storage_use.html", context)


def _urls(actor: Actor, active: str) -> Callable[[Any], str]:
    """Return the address of a row: the folders of the owner, or the limits of the host."""
    if active == "host-storage":
        may_change = may_do_everything(actor)
        return lambda row: reverse("host-limits", args=[row.pk]) if may_change else ""
    folders = reverse("all-folders")
    if active == "project-storage":
        return lambda row: f"{folders}?{urlencode({'project': row.name})}"
    return lambda row: f"{folders}?{urlencode({'q': row.email})}"


def _row(row: Any, url: str, has_growth: bool) -> TotalRow:
    growth = row.growth_bytes
    sign = "+" if growth > 0 else "−" if growth < 0 else "±"
    return TotalRow(
        name=str(row),
        url=url,
        used_bytes=row.used_bytes,
        limit_bytes=row.limit_bytes,
        folder_count=row.folder_count,
        growth=f"{sign}{format_bytes(abs(growth))}" if has_growth else "–",
    )
