"""Security page of the profile: password, second factors, passkeys, recovery codes, browser
logins.
"""

from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.logins import concurrent_logins, service
from accounts.logins.required_actions import must_have_second_factor
from accounts.models import BrowserLogin
from common.http.user_agent import device_name
from common.pages.htmx import closed_during_impersonation
from common.rest.actor import actor_of


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
        "logins": [_login_row(request, row) for row in service.visible_logins(actor_of(request))],
    }
    return render(request, "accounts/security.html", context)


@login_required
@require_POST
def end_login(request: HttpRequest, login_id: str) -> HttpResponse:
    """Sign out one other browser."""
    service.end_login(actor=actor_of(request), login_id=login_id)
    messages.success(request, _("That browser is signed out."))
    return redirect("security")


@login_required
@require_POST
def end_other_logins(request: HttpRequest) -> HttpResponse:
    count = service.end_other_logins(actor=actor_of(request), except_key=request.session.session_key or "")
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
