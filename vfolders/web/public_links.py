"""Pages of public links, for anybody: what the link leads to, and its download."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from accounts.core.throttle import Purpose
from accounts.sign_in.throttle import count_attempt
from common.pages.htmx import closed_during_impersonation
from common.rest.actor import actor_of
from vfolders.files.http_download import download
from vfolders.models import FolderLink
from vfolders.public_links import service


@never_cache
@require_safe
def public_link(request: HttpRequest, link_code: str) -> HttpResponse:
    """Show name and size of what the link leads to."""
    count_attempt(request, Purpose.LINK, "")
    link = service.find_link(link_code)
    is_archive = service.is_archive(link)
    size_bytes = None if is_archive else service.stat_link(link)
    context = {"link": link, "size_bytes": size_bytes, "is_archive": is_archive, "code": link_code}
    response = render(request, "vfolders/public_link.html", context)
    response["X-Robots-Tag"] = "noindex"
    return response


@closed_during_impersonation
@require_safe
def public_download(request: HttpRequest, link_code: str) -> HttpResponseBase:
    """Send the file as an attachment. Each GET counts, also of a part."""
    count_attempt(request, Purpose.LINK, "")
    link = service.find_link(link_code)
    response = _answer(request, link)
    response["X-Robots-Tag"] = "noindex"
    return response


def _answer(request: HttpRequest, link: FolderLink) -> HttpResponseBase:
    is_archive = service.is_archive(link)
    opened = None if is_archive else service.open_link(link)
    if request.method == "GET":
        try:
            service.count_download(actor=actor_of(request), link=link)
        except BaseException:
            if opened is not None:
                opened.stream.close()
            raise
    if opened is not None:
        return download(request, opened, link.name, service.LinkWatch(link.pk))
    return service.pack_link(link) if request.method == "GET" else HttpResponse()
