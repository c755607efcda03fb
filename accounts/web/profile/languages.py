"""The language of the pages: as the browser asks, unless a person chose one. The choice is a cookie of the browser, so that no
request needs the database for it; it is kept with the person too, and signing in brings it to other browsers."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from accounts.models import User
from accounts.tenancy import preferences
from common.pages.htmx import own_address
from common.rest.actor import actor_of

COOKIE_AGE_S = 365 * 24 * 3600


class LanguageMiddleware(LocaleMiddleware):
    """Django's, and the cookie for who chose a language in this request or signed in with a choice."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        answer = super().process_response(request, response)
        if language := getattr(request, "chosen_language", ""):
            answer.set_cookie(
                settings.LANGUAGE_COOKIE_NAME,
                language,
                max_age=COOKIE_AGE_S,
                secure=settings.LANGUAGE_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
        return answer


@require_POST
def choose_language(request: HttpRequest) -> HttpResponse:
    """For everybody, signed in or not; back to the page that asked."""
    language = preferences.check_language(request.POST.get("language", ""))
    request.chosen_language = language  # type: ignore[attr-defined]
    if request.user.is_authenticated:
        preferences.choose_language(actor=actor_of(request), language=language)
    return redirect(own_address(request, request.POST.get("back", "")))


def bring_language(request: HttpRequest | None, user: User, **_: Any) -> None:
    """Receiver of `user_logged_in`."""
    if request is not None and user.language:
        request.chosen_language = user.language  # type: ignore[attr-defined]
