"""Impersonation pages: middleware that makes the portal read-only as another user, and the start
and stop views.
"""

from collections.abc import Callable
from typing import Any

from allauth.account.decorators import reauthentication_required
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import rotate_token
from django.shortcuts import redirect, render
from django.urls import ResolverMatch
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from accounts.logins import impersonation
from accounts.logins.required_actions import find_required_action
from accounts.models import Impersonation, User
from accounts.web.page_access import require_administrator
from common.audit import audit_log
from common.audit.denied_requests import SAFE
from common.errors import BerthError, Conflict, InvalidInput, PermissionDenied
from common.pages.error_pages import error_page
from common.rest.actor import actor_of

# Sent by page scripts with each request: id of the impersonation in which the page was rendered, or
# "".
VIEWING_HEADER = "X-Berth-Viewing"
EXIT_URLS = frozenset({"stop-viewing", "account_logout"})
# Impersonation does not cover sign-in settings and Django admin.
PRIVATE_PATHS = ("account/", "admin/")


class ImpersonationMiddleware:
    """Sets `request.viewing` to the impersonation in this browser, else None. During an
    impersonation `request.viewer` is the signed-in user and `request.user` the impersonated one. No
    query beyond that for the user, except during an impersonation if a second factor is required.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.viewing = request.viewer = None  # type: ignore[attr-defined]
        if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.user.is_authenticated:
            return self.get_response(request)
        viewing = impersonation.find_impersonation(request.session.row)  # type: ignore[attr-defined]
        reason = _end_reason(request, viewing) if viewing is not None else ""
        if viewing is not None and not reason:
            _impersonate(request, viewing)
        refusal = _stale_page_error(request) if not reason else _end_impersonation(request, viewing, reason)
        response = self.get_response(request) if refusal is None else _reloading_error_page(request, refusal)
        if viewing is not None:
            response["Cache-Control"] = "no-store"
        return response

    def process_view(
        self, request: Any, view: Callable[..., Any], arguments: object, named: object
    ) -> HttpResponse | None:
        if request.viewing is None:
            return None
        match: ResolverMatch = request.resolver_match
        is_change = request.method not in SAFE
        if is_change and match.url_name == "account_logout":
            impersonation.end_impersonation(request.viewing, origin=actor_of(request), reason="signed_out")
            request.user, request.viewing, request.viewer = request.viewer, None, None
            return None
        if match.url_name in EXIT_URLS:
            return None
        if is_change:
            return error_page(request, audit_log.impersonation_refusal())
        return error_page(request, _private_error(request.user)) if _is_private(match, view) else None


def _end_reason(request: HttpRequest, viewing: Impersonation) -> str:
    viewer: User = request.user  # type: ignore[assignment]
    action = find_required_action(viewer, ip=actor_of(request).ip)
    return impersonation.end_reason(viewing, viewer) or (f"{action.value}_demanded" if action else "")


def _impersonate(request: Any, viewing: Impersonation) -> None:
    request.viewing, request.viewer, request.user = viewing, request.user, viewing.person


def _end_impersonation(request: HttpRequest, viewing: Impersonation | None, reason: str) -> BerthError | None:
    """End the impersonation. The next page is the user's own; a request from a page rendered during
    the impersonation is refused with the returned error.
    """
    assert viewing is not None, "what ends was there"
    impersonation.end_impersonation(viewing, origin=actor_of(request), reason=reason)
    rotate_token(request)
    if request.method in SAFE and not _is_script_request(request):
        messages.info(request, _("The impersonation has ended; you are yourself again."))
        return None
    return PermissionDenied(
        _("You no longer impersonate {person}. Nothing was done.").format(person=viewing.person.email),
        hint=_("Open the page again: it is your own."),
        code="viewing_over",
    )


def _stale_page_error(request: Any) -> BerthError | None:
    """Return an error if the calling page was rendered for another user, so that a page never mixes
    content of two users; the page reloads as a whole.
    """
    seen_in = request.headers.get(VIEWING_HEADER)
    now_in = str(request.viewing.pk) if request.viewing is not None else ""
    if seen_in is None or seen_in == now_in:
        return None
    return Conflict(
        _("You impersonate another person than when this page was opened."),
        hint=_("Open the page again."),
        code="other_viewing",
    )


def _is_script_request(request: Any) -> bool:
    return bool(request.htmx) or VIEWING_HEADER in request.headers or request.path.startswith("/api/")


def _reloading_error_page(request: Any, refusal: BerthError) -> HttpResponse:
    response = error_page(request, refusal)
    if request.htmx:
        response["HX-Refresh"] = "true"
    return response


def _is_private(match: ResolverMatch, view: Callable[..., Any]) -> bool:
    is_marked: bool = getattr(getattr(view, "cls", view), "is_private", False)
    return is_marked or match.route.startswith(PRIVATE_PATHS)


def _private_error(person: User) -> PermissionDenied:
    return PermissionDenied(
        _("This is for {person} alone: what is in files, logs and sessions, and how they sign in.").format(
            person=person.email
        ),
        hint=_("Ask the person to show it to you."),
        code="private_to_person",
    )


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def view_as(request: HttpRequest, user_id: int) -> HttpResponse:
    """Ask for the reason; POST starts the impersonation. Requires reauthentication."""
    impersonation.access_impersonated(require_administrator(request), user_id)
    answer: HttpResponse = _ask_or_start(request, user_id)
    return answer


@reauthentication_required  # type: ignore[untyped-decorator]
def _ask_or_start(request: HttpRequest, user_id: int) -> HttpResponse:
    actor = actor_of(request)
    if request.method != "POST":
        return _reason_page(request, impersonation.access_impersonated(actor, user_id))
    reason = request.POST.get("reason", "")
    try:
        impersonation.start_impersonation(
            actor=actor, login_key=request.session.session_key or "", user_id=user_id, reason=reason
        )
    except InvalidInput as refusal:
        person = impersonation.access_impersonated(actor, user_id)
        return _reason_page(request, person, reason=reason, error=refusal.message, status=422)
    rotate_token(request)  # forms of pages from before become invalid, and vice versa
    return redirect("start")


@require_POST
@login_required
def stop_viewing(request: Any) -> HttpResponse:
    """Stop the impersonation and show the page of that user. Also works without one."""
    viewing: Impersonation | None = request.viewing
    if viewing is None:
        return redirect("start")
    impersonation.end_impersonation(viewing, origin=actor_of(request), reason="stopped")
    rotate_token(request)
    messages.info(request, _("The impersonation has ended; you are yourself again."))
    return redirect("person", viewing.person_id)


def _reason_page(
    request: HttpRequest, person: User, *, reason: str = "", error: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "person": person,
        "reason": reason,
        "error": error,
        "minutes": settings.BERTH_VIEW_AS_MINUTES,
        "longest": impersonation.LONGEST_REASON,
    }
    return render(request, "accounts/view_as.html", context, status=status)
