"""Error pages: what failed, what to do, whom to contact, and a request id to quote."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from django.contrib.sessions.exceptions import SessionInterrupted
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from common.db.connection import CONNECTION_ERRORS, connection_error, connection_refusal
from common.errors import (
    BerthError,
    InvalidInput,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    TooLarge,
    TooManyRequests,
)
from common.ports import helpers

log = structlog.get_logger(__name__)

WITH_A_TEMPLATE = (400, 403, 404, 405, 413, 422, 429, 500, 503)
TOO_LARGE = (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent)
REFRESH_S = 10
PATIENCE_S = 60


def error_page(request: HttpRequest, error: BerthError) -> HttpResponse:
    """Return the page for `error` with its HTTP status, JSON for REST; redirect users who are not
    signed in to sign-in.
    """
    request.refusal = error  # type: ignore[attr-defined]  # common.audit.denied_requests records it
    if request.path.startswith("/api/v1/"):
        return JsonResponse(error.to_json(), status=error.http_status, headers=error.headers())
    if isinstance(error, NotAuthenticated):
        return redirect("account_login")
    status = error.http_status
    template = f"{status if status in WITH_A_TEMPLATE else 400}.html"
    is_asking = request.method in ("GET", "HEAD")
    context = {
        **_bare(request, error),
        "retry_url": request.get_full_path() if is_asking and (status == 429 or status >= 500) else "",
        "refresh_s": REFRESH_S if is_asking and status == 503 else 0,
    }
    return HttpResponse(_with_menu(request, template, context, error), status=status, headers=error.headers())


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, TOO_LARGE):
        return error_page(
            request,
            TooLarge(_("What was sent is larger than this address takes."), hint=_("Nothing was kept.")),
        )
    if isinstance(exception, SessionInterrupted):
        return error_page(
            request,
            NotAuthenticated(
                _("You were signed out of this browser while this was under way."), hint=_("Sign in again.")
            ),
        )
    return error_page(
        request,
        InvalidInput(
            _("The request cannot be understood."), hint=_("Go back to the page and try it once more.")
        ),
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_page(
        request, PermissionDenied(_("You may not do this."), hint=_("Ask an administrator of your domain."))
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_page(
        request,
        NotFound(
            _("There is nothing at this address, or it is not yours to see."),
            hint=_("Check the address, or search for it by name."),
        ),
    )


def not_allowed(request: HttpRequest, allow: str) -> HttpResponse:
    """Return the page for a method that is not accepted; `allow` names the accepted ones."""
    error = InvalidInput(
        _("This address takes {allowed}, not {method}. Nothing was done.").format(
            allowed=allow, method=request.method
        ),
        hint=_("Go back and use the button or the form of the page."),
    )
    response = HttpResponse(_with_menu(request, "405.html", _bare(request, error), error), status=405)
    response["Allow"] = allow
    return response


def too_many_requests(request: HttpRequest) -> HttpResponse:
    """Return the page for the rate limits of the sign-in framework (allauth)."""
    return error_page(
        request, TooManyRequests(_("This was asked for too often in a short time."), retry_after_s=PATIENCE_S)
    )


def server_error(request: HttpRequest) -> HttpResponse:
    if lost := connection_error(sys.exc_info()[1]):
        return error_page(request, connection_refusal(lost))
    error = BerthError(
        _("Berth made a mistake. It is in the log under the id below."),
        hint=_("Try again; if it stays, tell an administrator the id."),
    )
    return error_page(request, error)


def _bare(request: HttpRequest, error: BerthError) -> dict[str, Any]:
    return {"error": error, "request_id": getattr(request, "request_id", ""), "request": request}


def _with_menu(request: HttpRequest, template: str, context: dict[str, Any], error: BerthError) -> str:
    """Render the page with menus for signed-in users, unless the failure may affect them: the
    menus' context processors query the database.
    """
    if error.http_status != 500 and error.code != "database_lost" and not getattr(request, "htmx", False):
        try:
            if getattr(request, "user", None) is not None and request.user.is_authenticated:
                in_frame = {**context, "layout": "base.html", "helpers": _helpers(request, error)}
                return render_to_string(template, in_frame, request)
        except CONNECTION_ERRORS as lost:
            log.warning("error_page.database_lost", error=str(lost))
    return render_to_string(template, context)


def _helpers(request: HttpRequest, error: BerthError) -> Sequence[Mapping[str, object]]:
    is_denied = error.http_status == 403 and getattr(request, "viewing", None) is None
    if not is_denied:
        return ()
    return helpers.get()(request.user.pk or 0, getattr(request.user, "domain_id", None))
