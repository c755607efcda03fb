"""The Data page and the file browser of a folder."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.core.limits import LimitState
from accounts.logins.service import request_login
from accounts.selectors import cached_projects
from common.errors import BerthError, invalid_field
from common.pages.htmx import closed_during_impersonation, is_fragment, render_page_or_fragment
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from vfolders import services
from vfolders.access_watch import AccessWatch
from vfolders.core.paths import EntryPath, display_name, parse_directory, parse_path
from vfolders.core.permissions import Action
from vfolders.files import service
from vfolders.files.http_download import download
from vfolders.quotas.selectors import byte_limits
from vfolders.quotas.status import storage_status
from vfolders.selectors import access_folder, actions_on, storage_host_names
from vfolders.sharing.selectors import has_own_share
from vfolders.web import lists
from vfolders.web.forms import DirectoryForm, FolderForm, UploadForm
from vfolders.web.rows import crumbs, entry_row, page_url, size_words
from vfolders.web.sharing import invitation_rows

ENTRIES_PER_PAGE = 200


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="data")
def data(request: HttpRequest) -> HttpResponse:
    """Show the folders; POST creates one."""
    if request.method != "POST":
        return _data_page(request)
    form = _folder_form(request, storage_host_names())
    if not form.is_valid():
        return _data_page(request, form, status=422)
    try:
        folder = services.create_folder(actor=actor_of(request), **form.cleaned_data)
    except BerthError as refusal:
        _mark(form, refusal)
        return _data_page(request, form, status=422)
    messages.success(
        request,
        _("The folder “{folder}” is ready. Put files in, or mount it in a session.").format(
            folder=folder.name
        ),
    )
    return redirect("folder", folder.pk)


@closed_during_impersonation
@login_required
@require_safe
def folder_page(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Show the directory `?path=` of a folder, and the available actions."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.READ)
    path = _path_of(request)
    listing = service.list_directory(actor=actor, folder_id=folder_id, path="/".join(path))
    page = Paginator(listing.entries, ENTRIES_PER_PAGE).get_page(request.GET.get("page"))
    allowed = actions_on(actor, folder)
    limits = () if is_fragment(request) else byte_limits([folder])
    context = {
        "folder": folder,
        "size": size_words(folder),
        "limits": limits,
        "above": _exceeded_limit_messages(limits),
        "title": display_name(path[-1]) if path else folder.name,
        "path": "/".join(path),
        "session_path": "/".join(("/home/work", folder.name, *map(display_name, path))),
        "crumbs": crumbs(folder_id, folder.name, path),
        "page": page,
        "rows": [entry_row(folder_id, path, entry) for entry in page],
        "is_complete": listing.is_complete,
        "can_write": Action.WRITE in allowed,
        "can_share": Action.SHARE in allowed,
        "can_leave": not is_fragment(request) and has_own_share(actor, folder),
        "upload_form": UploadForm(),
        "directory_form": DirectoryForm(),
        "upload_url": page_url("folder-upload", folder_id, path),
        "directory_url": page_url("folder-make-directory", folder_id, path),
        "put_url": _put_url(folder_id, path),
    }
    return render_page_or_fragment(request, "vfolders/folder.html", "vfolders/_entries.html", context)


@closed_during_impersonation
@login_required
@require_safe
def download_file(request: HttpRequest, folder_id: UUID) -> HttpResponseBase:
    path = request.GET.get("path", "")
    actor = actor_of(request)
    opened = service.open_file(actor=actor, folder_id=folder_id, path=path)
    watch = AccessWatch(actor, folder_id, Action.READ, login=request_login(request))
    return download(request, opened, path.rpartition("/")[2], watch)


@login_required
@require_POST
def upload_files(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Upload files from a form, for browsers without scripts; scripts PUT each file to the REST
    API.
    """
    directory = _path_of(request)
    access_folder(actor_of(request), folder_id, Action.WRITE)
    sent = request.FILES.getlist("chosen")
    try:
        for file in sent:
            path = "/".join((*directory, file.name or ""))
            service.write_file(
                actor=actor_of(request), folder_id=folder_id, path=path, chunks=file.chunks(),
                expected_bytes=file.size or 0,
            )  # fmt: skip
    except BerthError as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
    else:
        uploaded = ngettext("Uploaded {count} file.", "Uploaded {count} files.", len(sent))
        messages.success(request, uploaded.format(count=len(sent)) if sent else _("Choose a file first."))
    return redirect(page_url("folder", folder_id, directory))


@login_required
@require_POST
def make_directory(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    directory = _path_of(request)
    access_folder(actor_of(request), folder_id, Action.WRITE)
    path = "/".join((*directory, request.POST.get("name", "")))
    try:
        service.make_directory(actor=actor_of(request), folder_id=folder_id, path=path)
    except BerthError as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
    return redirect(page_url("folder", folder_id, directory))


@closed_during_impersonation
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def delete_entry(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Ask for confirmation on GET, delete on POST."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.WRITE)
    path = _entry_path_of(request)
    text, directory_url = "/".join(path), page_url("folder", folder_id, path[:-1])
    if request.method == "POST":
        service.delete_entry(actor=actor, folder_id=folder_id, path=text)
        messages.success(request, _("“{name}” is deleted.").format(name=display_name(path[-1])))
        return redirect(directory_url)
    context = {
        "folder": folder,
        "name": display_name(path[-1]),
        "is_directory": service.is_directory(actor=actor, folder_id=folder_id, path=text),
        "crumbs": crumbs(folder_id, folder.name, path),
        "directory_url": directory_url,
    }
    return render(request, "vfolders/delete_entry.html", context)


def _data_page(request: HttpRequest, form: FolderForm | None = None, status: int = 200) -> HttpResponse:
    """Return the page with this form, or an empty one."""
    actor = actor_of(request)
    context = lists.list_context(request, actor)
    if not is_fragment(request):
        projects = cached_projects(request.user)  # type: ignore[arg-type]
        storage = storage_status(actor, [project.pk for project in projects])
        context |= {
            "form": form or _folder_form(request, storage.open_hosts),
            "invitations": invitation_rows(actor),
            "storage": storage,
        }
    return render_page_or_fragment(
        request, "vfolders/data.html", "vfolders/_folders.html", context, status=status
    )


def _folder_form(request: HttpRequest, hosts: Sequence[str]) -> FolderForm:
    projects = [project.name for project in cached_projects(request.user)]  # type: ignore[arg-type]
    typed = request.POST if request.method == "POST" else None
    return FolderForm(typed, projects=projects, hosts=hosts)


def _mark(form: FolderForm, refusal: BerthError) -> None:
    """Show the refusal at the field that it is about, or above the form."""
    field = next((name for name in refusal.fields if name in form.fields), None)
    form.add_error(field, f"{refusal.message} {refusal.hint}".strip())


def _path_of(request: HttpRequest) -> EntryPath:
    with invalid_field("path"):
        return parse_directory(request.GET.get("path", ""))


def _entry_path_of(request: HttpRequest) -> EntryPath:
    with invalid_field("path"):
        return parse_path(request.GET.get("path", ""))


def _exceeded_limit_messages(limits: Iterable[LimitState]) -> list[str]:
    """Return a sentence with advice for each exceeded byte limit."""
    what = _(
        "Delete files, or ask an administrator. Until then nothing is uploaded, and no session mounts it for writing."
    )
    return [f"{state.refusal} {what}" for state in limits if state.over]


def _put_url(folder_id: UUID, path: EntryPath) -> str:
    """Return the URL below which scripts PUT files of this directory: they append the name."""
    return reverse("api-folder-root", args=[folder_id]) + "".join(f"{quote(name, safe='')}/" for name in path)
