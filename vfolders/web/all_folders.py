"""Administrators' page of all folders: search, filters, export, quotas and trash for many at once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop
from django.views.decorators.http import require_GET, require_POST, require_safe

from accounts.forms.limit_fields import bytes_field
from accounts.selectors import oversees_projects
from accounts.tenancy.preferences import column_choice
from accounts.web.page_access import page_not_found
from common import clock
from common.actors import Actor
from common.pages.bulk_actions import chosen_ids, done_count, run_bulk_action
from common.pages.csv_export import csv_response
from common.pages.tables import Column, Filter, Listing, Tab, Table, define_table
from common.rest.actor import actor_of
from common.templatetags.berth import ago
from common.values.resources import format_bytes
from vfolders import trash
from vfolders.core.modes import FolderMode
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.models import StorageHost, VFolder
from vfolders.quotas.service import set_folder_quota
from vfolders.reports.totals import administered_folders
from vfolders.selectors import actions_on
from vfolders.web.rows import MODE_LABELS, size_words

UNUSED = timedelta(days=90)
PERSONAL = "-"  # not a valid project name


def _of_project(name: str) -> Q:
    return Q(project=None) if name == PERSONAL else Q(project__name=name)


def _unused(_value: str) -> Q:
    since = clock.now() - UNUSED
    return Q(used_at__lt=since) | Q(used_at=None, created_at__lt=since)


TABLE = define_table(
    Table(
        name="all_folders",
        noun=gettext_noop("folders"),
        sort="-size",
        search=lambda text: (
            Q(name__icontains=text) | Q(owner__email__icontains=text) | Q(project__name__icontains=text)
        ),
        search_label=gettext_noop("Search by name or owner"),
        columns=(
            Column("name", gettext_noop("Folder"), ("name",), is_fixed=True),
            Column("whose", gettext_noop("Owner"), ("project__name", "owner__email")),
            Column("host", gettext_noop("Stored on"), ("host__name",)),
            Column("size", gettext_noop("Size"), ("size_bytes",), is_number=True),
            Column("quota", gettext_noop("Quota"), ("quota_bytes",), is_number=True),
            Column("files", gettext_noop("Files"), ("file_count",), is_number=True, is_usual=False),
            Column("mode", gettext_noop("Mode"), ("mode",)),
            Column("state", gettext_noop("State"), ("state",)),
            Column("used", gettext_noop("Last used"), ("used_at",), is_number=True),
            Column("domain", gettext_noop("Domain"), ("domain__name",), is_usual=False),
            Column("created", gettext_noop("Created"), ("created_at",), is_number=True, is_usual=False),
        ),
        filters=(
            Filter("project", gettext_noop("Project"), _of_project, is_typed=True),
            Filter("domain", gettext_noop("Domain"), lambda name: Q(domain__name=name), is_typed=True),
            Filter("host", gettext_noop("Stored on"), lambda name: Q(host__name=name)),
            Filter("mode", gettext_noop("Mode"), lambda mode: Q(mode=mode)),
            Filter("use", gettext_noop("Last used"), _unused),
        ),
        tabs=(
            Tab("used", gettext_noop("In use"), ~Q(state=FolderState.TRASHED.value)),
            Tab("trash", gettext_noop("Trash"), Q(state=FolderState.TRASHED.value)),
        ),
    )
)
EXPORTED = (
    "id", "name", "owner", "project", "domain", "stored on", "mode", "state", "size_bytes", "files", "quota_bytes",
    "last used", "created",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AdministeredRow:
    """One folder, ready to print. `usage_url` is "" if the actor may not see what is in it."""

    pk: UUID
    name: str
    whose: str
    is_of_project: bool
    host: str
    size: str
    quota: str
    files: str
    mode: str
    state: FolderState
    used: str
    domain: str
    created: str
    usage_url: str
    can_manage: bool


class BulkQuotaForm(forms.Form):
    quota_bytes = bytes_field(
        label=gettext_lazy("Quota of each folder"),
        help_text=gettext_lazy("Like 500 GiB. Empty: none. Their owners cannot change it."),
    )


@login_required
@require_safe
def all_folders(request: HttpRequest) -> HttpResponse:
    """List all folders that the actor administers or monitors."""
    actor = require_overseer(request)
    listing = _listing(request, actor)
    listing.choices = {
        "host": [(name, name) for name in StorageHost.objects.values_list("name", flat=True)],
        "mode": [(mode.value, _mode_title(mode.value)) for mode in FolderMode],
        "use": [("90d", _("not for 90 days"))],
    }
    page = listing.page(administered_folders(actor), lambda rows: rows)
    rows = [_row(actor, folder) for folder in page]
    context = {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": rows,
        "has_picks": any(row.can_manage for row in rows),
        "sections": section_tabs(actor, "all-folders"),
    }
    return render(request, "vfolders/all_folders.html", context)


@login_required
@require_GET
def export_all_folders(request: HttpRequest) -> StreamingHttpResponse:
    """Export the list with its present search, filters and order, all pages, as CSV."""
    actor = require_overseer(request)
    rows = _listing(request, actor).of_tab(administered_folders(actor))
    return csv_response("all-folders.csv", EXPORTED, rows, _with_names, _cells)


@login_required
@require_POST
def trash_many(request: HttpRequest) -> HttpResponse:
    """Move the chosen folders to the trash, after a page that lists them."""

    def act(folder_id: UUID) -> str:
        trash.trash_folder(actor=actor_of(request), folder_id=folder_id)
        return _("It is in the trash.")

    return _change_many(request, "trash", forms.Form, lambda _form: act)


@login_required
@require_POST
def quota_many(request: HttpRequest) -> HttpResponse:
    """Set the quota of the chosen folders, after a page that asks for it."""

    def action(form: forms.Form) -> Callable[[UUID], str]:
        wanted = form.cleaned_data["quota_bytes"]

        def act(folder_id: UUID) -> str:
            set_folder_quota(actor=actor_of(request), folder_id=folder_id, quota_bytes=wanted)
            return (
                _("Its quota is {quota}.").format(quota=format_bytes(wanted)) if wanted else _("It has none.")
            )

        return act

    return _change_many(request, "quota", BulkQuotaForm, action)


def _change_many(
    request: HttpRequest,
    what: str,
    form_class: type[forms.Form],
    action: Callable[[forms.Form], Callable[[UUID], str]],
) -> HttpResponse:
    """Ask on the first POST, which names the folders; act on one with `confirmed`."""
    actor = require_overseer(request)
    ids = chosen_ids(request.POST, "folder")
    back = f"{reverse('all-folders')}?{request.POST.get('back', '')}"
    if not ids:
        messages.info(request, _("Choose the folders first: tick them in the list."))
        return redirect(back)
    folders = {folder.pk: folder for folder in administered_folders(actor).filter(pk__in=ids)}
    is_confirmed = "confirmed" in request.POST
    form = form_class(request.POST if is_confirmed else None)
    context = {
        "what": what,
        "form": form,
        "ids": ids,
        "folders": [folders[pk] for pk in ids if pk in folders],
        "back": back,
        "query": request.POST.get("back", ""),
    }
    if not is_confirmed or not form.is_valid():
        status = 422 if is_confirmed else 200
        return render(request, "vfolders/change_many.html", context, status=status)
    outcomes = run_bulk_action(
        request,
        ids,
        action(form),
        object_name=lambda pk: folders[pk].name if pk in folders else str(pk),
        object_url=lambda pk: "",
    )
    context |= {"outcomes": outcomes, "done_count": done_count(outcomes)}
    return render(request, "vfolders/changed_many.html", context)


def require_overseer(request: HttpRequest) -> Actor:
    """Return the actor if it oversees users or administers a project. Raises NotFound."""
    if not oversees_projects(request.user):  # type: ignore[arg-type]
        raise page_not_found()
    return actor_of(request)


def section_tabs(actor: Actor, active: str) -> list[dict[str, Any]]:
    """Return tabs (includes/tabs.html) of the pages of storage use."""
    pages = (
        ("all-folders", gettext_noop("Folders")),
        ("user-storage", gettext_noop("Users")),
        ("project-storage", gettext_noop("Projects")),
        ("host-storage", gettext_noop("Storage hosts")),
    )
    return [
        {"label": _(label), "url": reverse(name), "is_active": name == active}
        for name, label in pages
        if name not in ("host-storage",) or actor.is_superadmin or actor.is_monitor
    ]


def _listing(request: HttpRequest, actor: Actor) -> Listing:
    return Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name))


def _row(actor: Actor, folder: VFolder) -> AdministeredRow:
    allowed = actions_on(actor, folder)
    is_ready = folder.state == FolderState.READY
    return AdministeredRow(
        pk=folder.pk,
        name=folder.name,
        whose=str(folder.project or folder.owner),
        is_of_project=folder.project is not None,
        host=folder.host.name,
        size=size_words(folder),
        quota=format_bytes(folder.quota_bytes) if folder.quota_bytes is not None else "–",
        files="–" if folder.file_count is None else f"{folder.file_count:,}",
        mode=_mode_title(folder.mode),
        state=FolderState(folder.state),
        used=ago(folder.used_at) if folder.used_at else "–",
        domain=folder.domain.name,
        created=ago(folder.created_at),
        usage_url=reverse("folder-usage", args=[folder.pk]) if is_ready and Action.READ in allowed else "",
        can_manage=is_ready and Action.MANAGE in allowed,
    )


def _mode_title(mode: str) -> str:
    return _(MODE_LABELS[FolderMode(mode)])


def _with_names(rows: QuerySet[VFolder]) -> QuerySet[VFolder]:
    return rows.select_related("owner", "project", "domain", "host")


def _cells(folder: VFolder) -> tuple[object, ...]:
    """Return one CSV line with the columns of EXPORTED."""
    return (
        folder.pk, folder.name, folder.owner and folder.owner.email, folder.project and folder.project.name,
        folder.domain.name, folder.host.name, folder.mode, folder.state, folder.size_bytes, folder.file_count,
        folder.quota_bytes, folder.used_at and folder.used_at.isoformat(timespec="seconds"),
        folder.created_at.isoformat(timespec="seconds"),
    )  # fmt: skip
