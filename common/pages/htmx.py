"""Helpers for views that serve both a page and the htmx fragment that refreshes it."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render, resolve_url
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

View = TypeVar("View", bound=Callable[..., Any])

_gzip = GZipMiddleware(lambda request: HttpResponse())


def render_page_or_fragment(
    request: HttpRequest, page: str, fragment: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render `page`, or `fragment` for an htmx request. Both share an address, so `Vary` keeps
    browsers from showing the fragment as the page on back navigation. Compressed with random
    padding against BREACH.
    """
    response = render(request, fragment if is_fragment(request) else page, context, status=status)
    patch_vary_headers(response, ["HX-Request"])
    _gzip.process_response(request, response)
    return response


def is_fragment(request: HttpRequest) -> bool:
    """Return True if htmx requests a part of the page. A boosted link requests the whole page."""
    return bool(request.htmx and not request.htmx.boosted)  # type: ignore[attr-defined]


def closed_during_impersonation(view: View) -> View:
    """Mark a view as closed during impersonation. REST views have `is_private`."""
    view.is_private = True  # type: ignore[attr-defined]
    return view


def local_url(request: HttpRequest, address: str) -> str:
    """Return `address` if it belongs to this portal, else the Start page."""
    is_ours = url_has_allowed_host_and_scheme(
        address, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return address if is_ours else resolve_url("start")
