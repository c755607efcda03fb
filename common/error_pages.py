"""Refusals as pages: what failed, what to do, an id to quote."""

import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string

from common.database import LOST, database_lost
from common.errors import BerthError, InvalidInput, NotAuthenticated, NotFound, PermissionDenied

TEMPLATES = {400: "400.html", 403: "403.html", 404: "404.html", 500: "500.html"}


def error_page(request: HttpRequest, error: BerthError) -> HttpResponse:
    """The page for `error`, with its HTTP status; people who are not signed in are sent to do so."""
    if request.path.startswith("/api/v1/"):
        return JsonResponse(error.to_json(), status=error.http_status)
    if isinstance(error, NotAuthenticated):
        return redirect("account_login")
    # Without context processors: those ask the database who is here, and it may be what failed.
    context = {"error": error, "request_id": getattr(request, "request_id", ""), "request": request}
    template = TEMPLATES.get(error.http_status, "400.html")
    return HttpResponse(render_to_string(template, context), status=error.http_status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_page(request, InvalidInput("The request cannot be understood."))


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_page(
        request, PermissionDenied("You may not do this.", hint="Ask an administrator of your domain.")
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_page(request, NotFound("There is nothing at this address, or it is not yours to see."))


def server_error(request: HttpRequest) -> HttpResponse:
    if isinstance(sys.exc_info()[1], LOST):
        return error_page(request, database_lost())
    error = BerthError(
        "Berth made a mistake. It is in the log under the id below.",
        hint="Try again; if it stays, tell an administrator the id.",
    )
    return error_page(request, error)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return error_page(
        request,
        PermissionDenied(
            "The form was sent without its protection token, so nothing was done.",
            hint="Reload the page and send it again; cookies must be allowed for this address.",
        ),
    )
