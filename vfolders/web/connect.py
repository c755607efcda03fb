"""The page that says how to connect folders as a network drive."""

from uuid import UUID

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from common.errors import NotFound
from common.rest.actor import actor_of
from common.token_scopes import TokenScope
from vfolders.core.permissions import Action
from vfolders.models import VFolder
from vfolders.selectors import access_folder
from vfolders.webdav.addresses import Address
from vfolders.webdav.resources import address_of


@login_required
@require_safe
def connect_page(request: HttpRequest) -> HttpResponse:
    """Show the addresses of WebDAV, of all folders or of `?folder=`, and what programs need."""
    if not settings.BERTH_WEBDAV:
        raise NotFound(_("WebDAV is switched off here."), hint=_("Use the page Data, or berth cp."))
    folder = _folder_of(request)
    place = address_of(actor_of(request), folder) if folder else Address()
    path = place.href(is_directory=True)
    host = request.get_host()
    secure = "s" if request.is_secure() else ""
    wish = urlencode({"name": "WebDAV", "scope": TokenScope.FOLDERS.value})
    context = {
        "folder": folder,
        "address": f"http{secure}://{host}{path}",
        "davs_address": f"dav{secure}://{host}{path}",
        "is_secure": bool(secure),
        "name": folder.name if folder else "berth",
        "remote": f"{folder.name}:results" if folder else "berth:data/results",
        "email": request.user.email,  # type: ignore[union-attr]
        "token_url": f"{reverse('keys')}?{wish}",
    }
    return render(request, "vfolders/connect.html", context)


def _folder_of(request: HttpRequest) -> VFolder | None:
    text = request.GET.get("folder", "")
    if not text:
        return None
    try:
        folder_id = UUID(text)
    except ValueError as error:
        raise NotFound(_("There is no such folder among yours.")) from error
    return access_folder(actor_of(request), folder_id, Action.READ)
