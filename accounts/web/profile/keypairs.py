"""Pages of API tokens: the user's own, and revocation by administrators."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core.token_secrets import DEFAULT_LIFETIME
from accounts.credentials import keypairs
from accounts.credentials.keypairs import access_keypair, visible_keypairs
from accounts.models import KeyPair
from accounts.web.form_errors import add_errors
from accounts.web.page_access import require_administrator
from common import clock
from common.errors import BerthError, InvalidInput
from common.pages.form_fields import UncheckedChoice, UncheckedField, UncheckedMultipleChoice
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from common.token_scopes import TITLES, TokenScope

LIFETIMES_DAYS = (7, 30, 90, 180, 365)
NEVER = "never"
GRACES_HOURS = (0, 1, 24)


class TokenChangeForm(forms.Form):
    name = UncheckedField(
        max_length=60,
        label=gettext_lazy("Purpose"),
        widget=forms.TextInput(
            attrs={"placeholder": gettext_lazy("laptop, nightly training…"), "autocomplete": "off"}
        ),
    )
    scopes = UncheckedMultipleChoice(
        label=gettext_lazy("Scopes"),
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fields["scopes"].choices = [(scope.value, _(TITLES[scope])) for scope in TokenScope]  # type: ignore[attr-defined]


class TokenForm(TokenChangeForm):
    """Form of a new token. `life` is a number of days, or NEVER. `wish` is a query string that proposes
    a `name` and `scope`s.
    """

    life = UncheckedChoice(label=gettext_lazy("Expires"), required=False)

    def __init__(self, *arguments: Any, wish: QueryDict | None = None, **options: Any) -> None:
        wish = wish or QueryDict()
        initial = {
            "name": wish.get("name", ""),
            "scopes": wish.getlist("scope") or [scope.value for scope in TokenScope],
            "life": str(DEFAULT_LIFETIME.days),
        }
        super().__init__(*arguments, initial=initial, **options)
        self.fields["life"].choices = [  # type: ignore[attr-defined]
            *(
                (str(days), ngettext("in {count} day", "in {count} days", days).format(count=days))
                for days in LIFETIMES_DAYS
            ),
            (NEVER, _("never; delete it yourself")),
        ]


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@submit_once(otherwise="keys")
def keys_page(request: HttpRequest) -> HttpResponse:
    """List the tokens. POST creates one and responds with the page that shows it instead of a
    redirect, because its text is not stored. Resending the form by a reload creates no second
    token.
    """
    if request.method != "POST":
        return _page(request, TokenForm(wish=request.GET))
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=400)
    values = form.cleaned_data
    try:
        keypair, token = keypairs.create_keypair(
            actor=actor_of(request),
            name=values["name"],
            scopes=values["scopes"],
            expires_at=_expiry(values["life"]),
        )
    except BerthError as refusal:
        add_errors(form, refusal)
        return _page(request, form, status=refusal.http_status)
    return _page(request, TokenForm(), keypair=keypair, token=token, status=201)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def token_page(request: HttpRequest, keypair_id: int) -> HttpResponse:
    """Show one token; POST changes name and scopes."""
    actor = actor_of(request)
    keypair = access_keypair(actor, keypair_id)
    if request.method != "POST":
        form = TokenChangeForm(initial={"name": keypair.name, "scopes": keypair.scopes})
        return _token_page(request, keypair, form)
    form = TokenChangeForm(request.POST)
    if not form.is_valid():
        return _token_page(request, keypair, form, status=400)
    values = form.cleaned_data
    try:
        keypairs.update_keypair(
            actor=actor, keypair_id=keypair_id, name=values["name"], scopes=values["scopes"]
        )
    except BerthError as refusal:
        add_errors(form, refusal)
        return _token_page(request, keypair, form, status=refusal.http_status)
    messages.success(request, _("The token is changed."))
    return redirect("keys")


@login_required
@never_cache
@require_POST
@submit_once(otherwise="keys")
def rotate_token(request: HttpRequest, keypair_id: int) -> HttpResponse:
    """Rotate the secret and respond with the page that shows the new token."""
    hours = request.POST.get("grace_hours", "0")
    if hours not in map(str, GRACES_HOURS):
        raise InvalidInput(_("Choose how long the old secret goes on working."))
    keypair, token = keypairs.rotate_keypair(
        actor=actor_of(request), keypair_id=keypair_id, grace=timedelta(hours=int(hours))
    )
    return _page(request, TokenForm(), keypair=keypair, token=token, status=201)


@login_required
@require_POST
def change_token_state(request: HttpRequest, keypair_id: int) -> HttpResponse:
    is_active = request.POST.get("to") == "on"
    keypairs.update_keypair(actor=actor_of(request), keypair_id=keypair_id, is_active=is_active)
    messages.success(
        request,
        _("The token works again.") if is_active else _("The token is switched off: it opens nothing now."),
    )
    return redirect("token", keypair_id)


@login_required
@require_POST
def delete_token(request: HttpRequest, keypair_id: int) -> HttpResponse:
    """Delete the token if its name was typed."""
    actor = actor_of(request)
    keypair = access_keypair(actor, keypair_id)
    if request.POST.get("confirm", "").strip() != keypair.name:
        messages.error(request, _("This is not the name of the token, so nothing was done."))
        return redirect("token", keypair_id)
    keypairs.delete_keypair(actor=actor, keypair_id=keypair_id)
    messages.success(request, _("The token is deleted and works no more."))
    return redirect("keys")


@login_required
@require_POST
def revoke_token(request: HttpRequest, user_id: int, keypair_id: int) -> HttpResponse:
    """Revoke a token of another user, as an administrator of the account."""
    keypairs.revoke_keypair(actor=require_administrator(request), user_id=user_id, keypair_id=keypair_id)
    messages.success(request, _("The token is deleted and works no more."))
    return redirect("person", user_id)


def token_row(keypair: KeyPair) -> dict[str, Any]:
    """Return the table row of a token: {"keypair", "state", "may"}."""
    is_over = keypair.expires_at is not None and keypair.expires_at <= clock.now()
    scopes = [scope for scope in TokenScope if scope in keypair.scopes]
    return {
        "keypair": keypair,
        "state": "expired" if is_over else "active" if keypair.is_active else "off",
        "may": [(scope.value, _(TITLES[scope])) for scope in scopes],
    }


def _expiry(life: str) -> datetime | None:
    """Return the expiry of a chosen life, None for NEVER. Raises InvalidInput for other values."""
    if life == NEVER:
        return None
    if life not in map(str, LIFETIMES_DAYS):
        raise InvalidInput.at("life", _("Choose when the token expires."))
    return clock.now() + timedelta(days=int(life))


def _page(
    request: HttpRequest,
    form: TokenForm,
    *,
    keypair: KeyPair | None = None,
    token: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "tokens": [token_row(each) for each in visible_keypairs(actor_of(request))],
        "form": form,
        "keypair": keypair,
        "token": token,
        "portal_url": settings.BERTH_URL,
        "curl_line": f'curl -H "Authorization: Bearer $BERTH_TOKEN" {settings.BERTH_URL}/api/v1/me/',
        "requests": settings.BERTH_TOKEN_REQUESTS,
    }
    return render(request, "accounts/keys.html", context, status=status)


def _token_page(
    request: HttpRequest, keypair: KeyPair, form: TokenChangeForm, *, status: int = 200
) -> HttpResponse:
    graces = [
        (
            hours,
            ngettext("works for {count} hour more", "works for {count} hours more", hours).format(
                count=hours
            ),
        )
        for hours in GRACES_HOURS[1:]
    ]
    context = {**token_row(keypair), "form": form, "graces": [(0, _("ends at once")), *graces]}
    return render(request, "accounts/token.html", context, status=status)
