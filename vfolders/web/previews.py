"""Pages of one file (its preview, or the editor of texts) and of deleted files. ADR 76 says how
nothing of a file runs.
"""

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.logins.service import request_login
from common.errors import BerthError, invalid_field
from common.pages.htmx import closed_during_impersonation
from common.rest.actor import actor_of
from vfolders.access_watch import AccessWatch
from vfolders.core.paths import EntryPath, display_name, parse_path
from vfolders.core.permissions import Action
from vfolders.files import previews, service
from vfolders.files.http_download import show
from vfolders.files.previews import Links, View
from vfolders.files.texts import NotText, read_text
from vfolders.selectors import access_folder, actions_on
from vfolders.storage.base import WrongKind
from vfolders.web.rows import crumbs, page_url

_SIGN_BYTES = 16
_NAMES_SHOWN = 5


@closed_during_impersonation
@login_required
@require_safe
def file_page(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Show the file `?path=`: a preview, or with `?as=text` its text in an editor."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.READ)
    with invalid_field("path"):
        path = parse_path(request.GET.get("path", ""))
    text = "/".join(path)
    entry = service.find_entry(actor=actor, folder_id=folder_id, path=text)[1]
    view = View.TEXT if request.GET.get("as") == "text" else previews.view_of(path[-1])
    address = urlencode({"path": text})
    context = {
        "folder": folder,
        "name": display_name(path[-1]),
        "entry": entry,
        "crumbs": crumbs(folder_id, folder.name, path),
        "directory_url": page_url("folder", folder_id, path[:-1]),
        "download_url": page_url("folder-download", folder_id, path),
        "image_url": page_url("folder-image", folder_id, path),
        "text_page_url": f"{reverse('folder-file', args=[folder_id])}?{address}&as=text",
        "text_url": f"{reverse('api-folder-text', args=[folder_id])}?{address}",
        "can_write": Action.WRITE in actions_on(actor, folder),
        "view": view.value,
        **_content(request, folder_id, path, view),
    }
    return render(request, "vfolders/file.html", context)


def _content(request: HttpRequest, folder_id: UUID, path: EntryPath, view: View) -> dict[str, object]:
    if view is View.IMAGE:
        return {}
    if view is View.PDF:
        refusal = _("PDF files can run scripts, so they are not shown in the portal. Download it.")
        return {"view": "none", "refusal": refusal}
    try:
        text = read_text(actor=actor_of(request), folder_id=folder_id, path="/".join(path))
    except NotText as refusal:
        return {"view": "none", "refusal": f"{refusal.message} {refusal.hint}".strip()}
    links = Links(
        path[:-1],
        f"{reverse('folder-file', args=[folder_id])}?path=",
        f"{reverse('folder-image', args=[folder_id])}?path=",
    )
    if view is View.TABLE:
        return {"table": previews.table(text.text)}
    if view is View.MARKDOWN and len(text.text) <= previews.MOST_MARKDOWN:
        return {"html": previews.markdown(text.text, links)}
    if view is View.NOTEBOOK and (notebook := previews.notebook(text.text, links)):
        return {"notebook": notebook}
    return {"view": View.TEXT.value, "text": text}


@closed_during_impersonation
@login_required
@require_safe
def image(request: HttpRequest, folder_id: UUID) -> HttpResponseBase:
    """Send a file that is an image by its first bytes, for <img> in pages of the portal."""
    actor = actor_of(request)
    opened = service.open_file(actor=actor, folder_id=folder_id, path=request.GET.get("path", ""))
    try:
        kind = previews.image_type(opened.read_start(_SIGN_BYTES))
        if kind is None:
            raise WrongKind(_("This is not an image that can be shown here."), hint=_("Download it."))
    except BerthError:
        opened.stream.close()
        raise
    watch = AccessWatch(actor, folder_id, Action.READ, login=request_login(request))
    return show(request, opened, kind, watch)


@closed_during_impersonation
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def deleted_files(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Show what lies in the trash of the folder; POST restores a batch."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.READ)
    if request.method == "POST":
        try:
            service.restore_entries(actor=actor, folder_id=folder_id, batch=request.POST.get("batch", ""))
            messages.success(request, _("It is back where it was."))
        except BerthError as refusal:
            messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect("folder-deleted", folder_id)
    batches = [
        {
            "id": batch.id,
            "deleted_at": batch.deleted_at,
            "names": [display_name("/".join(path)) for path in batch.paths[:_NAMES_SHOWN]],
            "more": len(batch.paths[_NAMES_SHOWN:]),
        }
        for batch in service.trashed_entries(actor=actor, folder_id=folder_id)
    ]
    can_write = Action.WRITE in actions_on(actor, folder)
    return render(
        request, "vfolders/deleted.html", {"folder": folder, "batches": batches, "can_write": can_write}
    )


@closed_during_impersonation
@login_required
@require_POST
def empty_deleted(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    folder = access_folder(actor_of(request), folder_id, Action.WRITE)
    if request.POST.get("confirm", "") != folder.name:
        messages.error(request, _("The name that was typed is not the folder’s, so nothing was removed."))
    else:
        service.empty_trash(actor=actor_of(request), folder_id=folder_id)
        messages.success(request, _("The deleted files are removed."))
    return redirect("folder-deleted", folder_id)
