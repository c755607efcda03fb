"""Middleware that leads users with a required action to its page and blocks all other pages and
REST.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.translation import gettext_lazy

from accounts.core.sign_in_requirements import RequiredAction
from accounts.logins.concurrent_logins import set_reason_cookie
from accounts.logins.required_actions import find_required_action, required_action_error
from accounts.logins.trusted_devices import set_device_cookie
from accounts.models import BrowserLogin
from common import clock
from common.pages.error_pages import error_page
from common.pages.returned_forms import FirstStep, return_form
from common.rest.actor import actor_of

USE_RECORD_INTERVAL = timedelta(minutes=1)
ALWAYS_OPEN = frozenset({"account_logout", "choose-language", "api-health"})
PASSWORD_PAGES = frozenset({"account_change_password", "account_set_password"})
SECOND_FACTOR_PAGES = frozenset(
    {
        "mfa_index", "mfa_activate_totp", "mfa_add_webauthn", "mfa_view_recovery_codes", "account_reauthenticate",
        "account_set_password",
    }
)  # fmt: skip
# Pages that stay open, the page that resolves the action, and the text of its link.
ACTION_PAGES = {
    RequiredAction.ADDRESS: (frozenset[str](), "", ""),
    RequiredAction.PASSWORD: (
        PASSWORD_PAGES,
        "account_change_password",
        gettext_lazy("Choose a new password, in a new tab"),
    ),
    RequiredAction.SECOND_FACTOR: (
        SECOND_FACTOR_PAGES,
        "mfa_index",
        gettext_lazy("Set up a second factor, in a new tab"),
    ),
}


class RequiredActionMiddleware:
    """Enforces required actions. No query without a session cookie; with one none beyond that for
    the user, unless the domain requires a second factor, and one write a minute for the last use.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        set_device_cookie(request, response)
        set_reason_cookie(request, response)
        return response

    def process_view(
        self, request: HttpRequest, view: object, arguments: object, named: object
    ) -> HttpResponse | None:
        if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.user.is_authenticated:
            return None
        _record_use(request)
        if request.viewing is not None:  # type: ignore[attr-defined]
            return None  # required actions of the impersonated user do not apply to the impersonating one
        ip = actor_of(request).ip
        action = find_required_action(request.user, ip=ip)
        if action is None:
            return None
        open_pages, way, words = ACTION_PAGES[action]
        match = request.resolver_match
        name = match.url_name if match is not None else ""
        if name in ALWAYS_OPEN | open_pages:
            return None
        if not way or request.path.startswith("/api/"):
            return error_page(request, required_action_error(action, ip))
        first = FirstStep(resolve_url(way), str(words))
        return return_form(request, required_action_error(action, ip), first) or redirect(way)


def _record_use(request: Any) -> None:
    row: BrowserLogin | None = request.session.row
    if row is not None and (row.seen_at is None or clock.now() - row.seen_at > USE_RECORD_INTERVAL):
        BrowserLogin.objects.filter(pk=row.pk).update(seen_at=clock.now())
