"""Page of a folder's use: limits, quota, and what fills it."""

from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from accounts.forms.limit_fields import bytes_field
from accounts.web.form_errors import errors_in_form
from common.errors import BerthError
from common.i18n import gettext_noop
from common.pages.htmx import closed_during_impersonation, is_fragment, render_page_or_fragment
from common.rest.actor import actor_of
from vfolders.core.directory_sizes import Age, DirectorySize
from vfolders.core.paths import TRASH, UNFINISHED, UPLOADS_DIRECTORY, EntryPath, display_name, is_addressable
from vfolders.core.permissions import Action
from vfolders.models import VFolder
from vfolders.quotas.selectors import byte_limits
from vfolders.quotas.service import set_folder_quota
from vfolders.reports.directories import DirectoryReport, read_directories, request_count
from vfolders.selectors import access_folder, actions_on, administers
from vfolders.storage.base import EntryMissing
from vfolders.web.rows import Crumb, page_url

MOST_ROWS = 200
MOST_SUFFIXES = 8
AGES = {
    Age.WEEK: gettext_noop("changed in the last 7 days"),
    Age.MONTH: gettext_noop("7 to 30 days ago"),
    Age.YEAR: gettext_noop("30 days to a year ago"),
    Age.OLDER: gettext_noop("more than a year ago"),
}

UNLISTED_TITLES = {
    TRASH: gettext_noop("Deleted files"),
    UPLOADS_DIRECTORY: gettext_noop("Uploads under way"),
    UNFINISHED: gettext_noop("Copies under way"),
}


class QuotaForm(forms.Form):
    quota_bytes = bytes_field(
        label=gettext_lazy("Quota of this folder"),
        help_text=gettext_lazy("Like 500 GiB. Empty: no limit of its own."),
    )


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One directory, or one sum, of the page. `url` is "" if there is nothing to open."""

    label: str
    size_bytes: int
    file_count: int
    percent: int
    url: str = ""
    files_url: str = ""
    is_directory: bool = False


@closed_during_impersonation
@login_required
@require_safe
def folder_usage(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Show the limits of a folder, and what fills its directory `?path=`."""
    return _page(request, folder_id)


@login_required
@require_POST
def count_folder(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Have the directories of the folder counted again."""
    request_count(actor=actor_of(request), folder_id=folder_id)
    path = request.GET.get("path", "")
    return redirect(_url(folder_id, tuple(path.split("/")) if path else ()))


@login_required
@require_POST
def change_quota(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Set or remove the quota of a folder."""
    actor = actor_of(request)
    access_folder(actor, folder_id, Action.MANAGE)
    form = QuotaForm(request.POST)
    if form.is_valid():
        with errors_in_form(form, BerthError):
            set_folder_quota(actor=actor, folder_id=folder_id, **form.cleaned_data)
            messages.success(request, _("The quota is saved."))
            return redirect("folder-usage", folder_id)
    return _page(request, folder_id, form=form)


def _page(request: HttpRequest, folder_id: UUID, form: QuotaForm | None = None) -> HttpResponse:
    actor = actor_of(request)
    try:
        report = read_directories(actor, folder_id, request.GET.get("path", ""))
    except EntryMissing as error:
        messages.info(request, f"{error.message} {error.hint}")
        return redirect("folder-usage", folder_id)
    folder = report.folder
    may_manage = Action.MANAGE in actions_on(actor, folder)
    is_fixed = folder.is_quota_fixed and not administers(actor, folder)
    context = {
        "folder": folder,
        "report": report,
        "title": display_name(report.path[-1]) if report.path else folder.name,
        "crumbs": _crumbs(folder, report.path),
        "files_url": page_url("folder", folder_id, report.path),
        "rows": _rows(report),
        "sums": _sums(report),
        "limits": () if is_fragment(request) else byte_limits([folder]),
        "form": (form or QuotaForm(initial={"quota_bytes": folder.quota_bytes}))
        if may_manage and not is_fixed
        else None,
        "is_fixed": is_fixed,
        "count_url": _url(folder_id, report.path, "count-folder"),
    }
    status = 422 if form and form.errors else 200
    return render_page_or_fragment(
        request, "vfolders/usage.html", "vfolders/_usage.html", context, status=status
    )


def _rows(report: DirectoryReport) -> list[SizeRow]:
    directory = report.directory
    if directory is None:
        return []
    shown = directory.directories[:MOST_ROWS]
    rows = [_directory_row(report, each, directory.size_bytes) for each in shown]
    hidden_bytes = sum(each.size_bytes for each in directory.directories[MOST_ROWS:])
    hidden_count = sum(each.file_count for each in directory.directories[MOST_ROWS:])
    if directory.own_count:
        label = _("Files in this directory") if directory.directories else _("Files")
        rows.append(_row(label, directory.own_bytes, directory.own_count, directory.size_bytes))
    if hidden_count:
        label = _("{count} smaller directories").format(count=len(directory.directories) - MOST_ROWS)
        rows.append(_row(label, hidden_bytes, hidden_count, directory.size_bytes))
    return sorted(rows, key=lambda row: -row.size_bytes)


def _directory_row(report: DirectoryReport, directory: DirectorySize, whole: int) -> SizeRow:
    if not report.path and (title := UNLISTED_TITLES.get(directory.name)):
        row = _row(_(title), directory.size_bytes, directory.file_count, whole)
        deleted_url = reverse("folder-deleted", args=[report.folder.pk])
        return replace(row, files_url=deleted_url if directory.name == TRASH else "")
    path = (*report.path, directory.name)
    can_open = is_addressable(directory.name)
    return SizeRow(
        label=display_name(directory.name),
        size_bytes=directory.size_bytes,
        file_count=directory.file_count,
        percent=_percent(directory.size_bytes, whole),
        url=_url(report.folder.pk, path) if can_open and directory.directories else "",
        files_url=page_url("folder", report.folder.pk, path) if can_open else "",
        is_directory=True,
    )


def _row(label: str, size_bytes: int, file_count: int, whole: int) -> SizeRow:
    return SizeRow(label, size_bytes, file_count, _percent(size_bytes, whole))


def _sums(report: DirectoryReport) -> dict[str, list[SizeRow]]:
    """Return sums of the whole folder by kind of file and by age; shown at its top."""
    if report.tree is None or report.path or not report.tree.root.file_count:
        return {}
    whole = report.tree.root.size_bytes
    kinds = [
        _row(each.name or _("without a suffix"), each.size_bytes, each.file_count, whole)
        for each in report.tree.suffixes[:MOST_SUFFIXES]
    ]
    ages = [
        _row(_(AGES[Age(each.name)]), each.size_bytes, each.file_count, whole)
        for each in report.tree.ages
        if each.file_count
    ]
    return {"kinds": kinds, "ages": ages}


def _percent(size_bytes: int, whole: int) -> int:
    return round(100 * size_bytes / whole) if whole else 0


def _crumbs(folder: VFolder, path: EntryPath) -> list[Crumb]:
    above = [Crumb(_("Use of {folder}").format(folder=folder.name), _url(folder.pk))] if path else []
    names = [
        Crumb(display_name(path[depth - 1]), _url(folder.pk, path[:depth])) for depth in range(1, len(path))
    ]
    return [Crumb(folder.name, page_url("folder", folder.pk)), *above, *names]


def _url(folder_id: UUID, path: EntryPath = (), name: str = "folder-usage") -> str:
    url = reverse(name, args=[folder_id])
    return f"{url}?{urlencode({'path': '/'.join(path)})}" if path else url
