"""Language of pages: chosen by the user, else by the browser's Accept-Language. The choice is a
cookie, so that requests need no query; it is also stored with the user, and each sign-in sets the
cookie.
"""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from accounts.models import User
from accounts.tenancy import preferences
from common.pages.htmx import local_url
from common.rest.actor import actor_of

COOKIE_AGE_S = 365 * 24 * 3600


class LanguageMiddleware(LocaleMiddleware):
    """Django's LocaleMiddleware that also sets the cookie after a choice or a sign-in."""

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
    """Set the language, also without a sign-in, and return to the previous page."""
    language = preferences.check_language(request.POST.get("language", ""))
    request.chosen_language = language  # type: ignore[attr-defined]
    if request.user.is_authenticated:
        preferences.choose_language(actor=actor_of(request), language=language)
    return redirect(local_url(request, request.POST.get("back", "")))


def restore_language(request: HttpRequest | None, user: User, **_: Any) -> None:
    """Take the stored language over at sign-in. Receiver of `user_logged_in`."""
    if request is not None and user.language:
        request.chosen_language = user.language  # type: ignore[attr-defined]
