"""Pages of the profile: limits, sign-ins, security, browser logins; column choices, sign-in links."""

from typing import Any

from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts import selectors
from accounts.core.roles import ROLE_TITLES, Role
from accounts.logins import concurrent_logins
from accounts.logins import service as logins_service
from accounts.logins.required_actions import must_have_second_factor
from accounts.models import BrowserLogin
from accounts.sign_in.audit_events import last_sign_ins
from accounts.tenancy import preferences, service
from accounts.web.chosen_project import chosen_project
from accounts.web.policies.limits import limits_card
from common.http.user_agent import device_name
from common.pages.htmx import closed_during_impersonation, local_url
from common.pages.tables import find_table
from common.rest.actor import actor_of

SIGN_IN_BACKEND = "accounts.sign_in.auth_backends.SignInBackend"


@login_required
@require_http_methods(["GET", "HEAD"])
def profile(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    context = {
        "person": request.user,
        "role_title": _(ROLE_TITLES[Role(request.user.role)]),  # type: ignore[union-attr]
        "memberships": selectors.own_memberships(actor),
        "limits": limits_card(actor, chosen_project(request)),
        "sign_ins": last_sign_ins(actor),
    }
    return render(request, "accounts/profile.html", context)


@login_required
@require_POST
def choose_columns(request: HttpRequest) -> HttpResponse:
    """Save the column choice of a list and return to it."""
    table = find_table(request.POST.get("table", ""))
    offered = request.POST.getlist("offered")
    columns = [column.name for column in table.columns if column.name in offered and not column.is_fixed]
    preferences.choose_columns(
        actor=actor_of(request), table=table.name, columns=columns, shown=request.POST.getlist("column")
    )
    return redirect(local_url(request, request.POST.get("back", "")))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_once(request: HttpRequest, code: str) -> HttpResponse:
    """Show a button, so that link previews do not use up the link; POST signs in."""
    next_url = request.GET.get("next", "")
    if request.method != "POST":
        return render(request, "accounts/sign_in_once.html", {"next": next_url})
    user = service.redeem_sign_in_link(actor=actor_of(request), code=code)
    user.backend = SIGN_IN_BACKEND  # type: ignore[attr-defined]
    # Same stages as with a password, so that a second factor is required.
    answer: HttpResponse = perform_login(request, Login(user=user, redirect_url=local_url(request, next_url)))
    return answer


@closed_during_impersonation
@login_required
@require_http_methods(["GET", "HEAD"])
def security(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    factors = list(Authenticator.objects.filter(user=user).order_by("created_at"))
    context = {
        "totp": _first(factors, Authenticator.Type.TOTP),
        "passkeys": [
            {"row": row, "name": row.wrap().name, "is_alone": row.wrap().is_passwordless}
            for row in factors
            if row.type == Authenticator.Type.WEBAUTHN
        ],
        "has_second_factor": any(row.type != Authenticator.Type.RECOVERY_CODES for row in factors),
        "codes_left": _codes_left(_first(factors, Authenticator.Type.RECOVERY_CODES)),
        "is_required": must_have_second_factor(user),
        "has_password": user.has_usable_password(),
        "most_logins": concurrent_logins.login_limit(user),
        "logins": [_login_row(request, row) for row in logins_service.visible_logins(actor_of(request))],
    }
    return render(request, "accounts/security.html", context)


@login_required
@require_POST
def end_login(request: HttpRequest, login_id: str) -> HttpResponse:
    """Sign out one other browser."""
    logins_service.end_login(actor=actor_of(request), login_id=login_id)
    messages.success(request, _("That browser is signed out."))
    return redirect("security")


@login_required
@require_POST
def end_other_logins(request: HttpRequest) -> HttpResponse:
    count = logins_service.end_other_logins(
        actor=actor_of(request), except_key=request.session.session_key or ""
    )
    text = ngettext("{count} other browser is signed out.", "{count} other browsers are signed out.", count)
    messages.success(request, text.format(count=count))
    return redirect("security")


def _first(factors: list[Authenticator], kind: str) -> Authenticator | None:
    return next((row for row in factors if row.type == kind), None)


def _codes_left(row: Authenticator | None) -> int | None:
    return len(row.wrap().get_unused_codes()) if row is not None else None


def _login_row(request: HttpRequest, row: BrowserLogin) -> dict[str, Any]:
    return {
        "id": row.public_id,
        "device": device_name(row.user_agent) or _("unknown device"),
        "ip": row.ip,
        "signed_in_at": row.signed_in_at,
        "seen_at": row.seen_at,
        "is_this": row.session_key == request.session.session_key,
    }
