"""Returns forms that were sent with an expired token or login: filled in, with a new token, to be
checked and sent again.

A form's token changes at each sign-in, and a login may end while a form is being filled in. Such a
form has no effect. It is returned only to a page of this portal (`is_same_origin`): a request
that another site makes a browser send is refused, so that no stranger can prefill a form that is
one click away from being sent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import REASON_NO_CSRF_COOKIE, get_token
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import BerthError, NotAuthenticated, PermissionDenied
from common.pages.error_pages import error_page
from common.pages.htmx import local_url
from common.pages.middleware import Middleware

TOKEN_FIELD = "csrfmiddlewaretoken"
OPENED_BY_FIELD = "csrf_opened_by"  # user for whom the page was made; written by {% csrf_token %}
OPENED_BY_HEADER = "X-Berth-Opened-By"
NEW_TOKEN_HEADER = "X-Berth-Form-Token"
CODE = "no_form_token"
FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
SIGN_IN_PAGES = frozenset({"account_login", "mfa_login_webauthn", "mfa_authenticate", "oidc", "admin:login"})
# Fields set by the portal, not by the user.
UNSEEN_FIELDS = frozenset({"once", "next", "back", "credential"})


class StaleForm(PermissionDenied):
    """Refusal of a form with an expired token; a page of the same user gets a new token."""

    default_code = CODE

    def __init__(self, message: str, *, hint: str, token: str = "") -> None:
        super().__init__(message, hint=hint)
        self.token = token

    def headers(self) -> dict[str, str]:
        return {NEW_TOKEN_HEADER: self.token} if self.token else {}


@dataclass(frozen=True, slots=True)
class ReturnedField:
    """Field of a returned form. `kind`: hidden, line, lines; secret, file (returned empty)."""

    name: str
    kind: str
    value: str = ""

    @property
    def label(self) -> str:
        return _(self.name.replace("_", " ").replace("-", " ").strip().capitalize())


@dataclass(frozen=True, slots=True)
class FirstStep:
    """Page to visit before the form can be sent again, and the text of the link to it."""

    address: str
    words: str


class ReturnedFormsMiddleware(Middleware):
    """Returns the form of a signed-out user: a redirect to sign-in would lose the input."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not _leads_to_sign_in(request, response):
            return response
        sentence = _("You are signed out. Nothing was done.")
        hint = _("Sign in, in a new tab; then come back to this page, check it and send it again.")
        return return_form(request, NotAuthenticated(sentence, hint=hint, code="signed_out")) or response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a request with a missing or expired CSRF token; called as CSRF_FAILURE_VIEW."""
    refusal = stale_form(request, reason)
    match = request.resolver_match
    is_sign_in = match is not None and match.view_name in SIGN_IN_PAGES
    if is_sign_in and request.user.is_authenticated and _can_be_given_back(request):
        return _signed_in_already(request)
    return return_form(request, refusal) or error_page(request, refusal)


def return_form(
    request: HttpRequest, refusal: BerthError, first: FirstStep | None = None
) -> HttpResponse | None:
    """Return a page with the submitted values, the reason, and what to do first; None if the
    request is not a form of this portal.
    """
    if not _can_be_given_back(request):
        return None
    request.refusal = refusal  # type: ignore[attr-defined]  # common.audit.denied_requests records it
    fields = list(_fields(request))
    came_from = local_url(request, request.headers.get("Referer", ""))
    context = {
        "refusal": refusal,
        "warning": _other_person(request) if is_for_other_user(request) else refusal.message,
        "hint": _hint(request, refusal, first),
        "first": first or _sign_in(request),
        "fields": fields,
        "is_typed": any(field.kind != "hidden" for field in fields),
        "has_secret": any(field.kind == "secret" for field in fields),
        "files": _names_of_files(request),
        "address": request.get_full_path(),
        "page": "" if came_from == resolve_url("start") else came_from,
    }
    response = render(request, "returned_form.html", context, status=403)
    response["Cache-Control"] = "no-store"
    return response


def stale_form(request: HttpRequest, reason: str = "") -> StaleForm:
    """Return the refusal, with a new token for a page of this portal made for the same user."""
    if not is_same_origin(request):
        return StaleForm(
            _("The form was sent without its protection token, so nothing was done."),
            hint=_("Open the page of the form again, and send it from there."),
        )
    if REASON_NO_CSRF_COOKIE in reason:
        hint = _("Check it and send it again. Cookies must be allowed for this address.")
    else:
        hint = _("Check it and send it again.")
    if is_for_other_user(request):
        return StaleForm(_other_person(request), hint=_("Open the page again."))
    sentence = _("Your sign-in changed since this page was opened. Nothing was done.")
    return StaleForm(sentence, hint=hint, token=get_token(request))


def is_same_origin(request: HttpRequest) -> bool:
    """Return True if a page of this portal sent the request, by its headers."""
    try:
        own = f"{request.scheme}://{request.get_host()}"
    except DisallowedHost:
        return False
    is_ours = request.headers.get("Origin") in {own, *settings.CSRF_TRUSTED_ORIGINS}
    return is_ours and request.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"


def is_for_other_user(request: HttpRequest) -> bool:
    """Return True if the page was made for another account than the one signed in now."""
    opened_by = request.headers.get(OPENED_BY_HEADER)
    if opened_by is None and _is_form(request):
        opened_by = request.POST.get(OPENED_BY_FIELD)
    is_known = bool(opened_by) and request.user.is_authenticated
    return is_known and opened_by != str(request.user.pk)


def _other_person(request: HttpRequest) -> str:
    return _(
        "You are signed in as {person} now; this page was opened under another account. Nothing was done."
    ).format(person=request.user)


def _sign_in(request: HttpRequest) -> FirstStep | None:
    if request.user.is_authenticated:
        return None
    return FirstStep(resolve_url("account_login"), _("Sign in, in a new tab"))


def _hint(request: HttpRequest, refusal: BerthError, first: FirstStep | None) -> str:
    if first is not None:
        return _("Do this first; then come back to this page, check it and send it again.")
    return _("Check it and send it again.") if is_for_other_user(request) else refusal.hint


def _can_be_given_back(request: HttpRequest) -> bool:
    is_page = not (getattr(request, "htmx", False) or request.path.startswith("/api/v1/"))
    return is_page and _is_form(request) and is_same_origin(request)


def _is_form(request: HttpRequest) -> bool:
    return request.method == "POST" and request.content_type in FORM_TYPES


def _fields(request: HttpRequest) -> Iterator[ReturnedField]:
    for name, values in request.POST.lists():
        if name not in (TOKEN_FIELD, OPENED_BY_FIELD):
            for value in values:
                yield _field(name, str(value))
    for name in request.FILES:
        yield ReturnedField(name, "file")


def _field(name: str, value: str) -> ReturnedField:
    if "password" in name.lower():
        return ReturnedField(name, "secret")
    if name in UNSEEN_FIELDS or not value:
        return ReturnedField(name, "hidden", value)
    return ReturnedField(name, "lines" if "\n" in value else "line", value)


def _names_of_files(request: HttpRequest) -> str:
    names = [str(file.name) for _field, files in request.FILES.lists() for file in files]
    if not names:
        return ""
    return ngettext(
        "A file cannot be given back. Choose it again: {names}.",
        "Files cannot be given back. Choose them again: {names}.",
        len(names),
    ).format(names=", ".join(names))


def _signed_in_already(request: HttpRequest) -> HttpResponse:
    """Redirect to the page that sign-in would have led to."""
    typed = request.POST.get("login", "").strip().lower()
    if typed and typed != str(request.user).lower():
        sentence = _("You are signed in as {person} already. Sign out first to sign in as somebody else.")
        messages.warning(request, sentence.format(person=request.user))
    wanted = request.POST.get("next") or request.GET.get("next", "")
    return redirect(local_url(request, wanted))


def _leads_to_sign_in(request: HttpRequest, response: Any) -> bool:
    """Return True if the response redirects to sign-in and back to this address."""
    if response.status_code != 302 or request.user.is_authenticated:
        return False
    target = urlsplit(response["Location"])
    doors = (resolve_url(settings.LOGIN_URL), resolve_url("admin:login"))
    return target.path in doors and parse_qs(target.query).get("next") == [request.get_full_path()]
