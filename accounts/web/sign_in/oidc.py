"""Views of signing in by an OpenID Connect provider: redirect to the provider and callback."""

from typing import Any
from urllib.parse import urlencode

import structlog
from allauth.account.utils import perform_login
from allauth.socialaccount.internal import statekit
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from accounts.core.identity_providers import OidcProvider
from accounts.core.throttle import Purpose
from accounts.sign_in.audit_events import record_refused_sign_in
from accounts.sign_in.federation import (
    ProofRequired,
    ProviderIdentity,
    SignInRefused,
    admit_user,
    store_pending_link,
)
from accounts.sign_in.oidc import FAULTS, OidcClient, provider_error
from accounts.sign_in.throttle import count_attempt, undo_attempt
from common.errors import NotFound, PermissionDenied
from common.pages.htmx import closed_during_impersonation, local_url
from common.rest.actor import actor_of

log = structlog.get_logger(__name__)


@closed_during_impersonation
@never_cache
@require_POST
def begin_oidc(request: HttpRequest, provider: str) -> HttpResponse:
    """Respond with a page that leads to the provider. POST only, so that other sites cannot start a
    sign-in. A page instead of a redirect, because browsers apply the CSP directive form-action,
    which allows this site only, to redirects of forms as well.
    """
    oidc_provider = _find_provider(provider)
    next_url = local_url(request, request.POST.get("next", ""))
    if request.user.is_authenticated:
        return redirect(next_url)
    count_attempt(request, Purpose.PROVIDER, "")
    try:
        url = _client(request, oidc_provider).begin(next_url)
    except FAULTS as fault:
        _record_fault(request, oidc_provider, fault)
        raise provider_error(fault, oidc_provider) from fault
    return render(request, "accounts/to_provider.html", {"url": url, "name": oidc_provider.name})


@closed_during_impersonation
@never_cache
@require_http_methods(["GET", "HEAD"])
def finish_oidc(request: HttpRequest, provider: str) -> HttpResponse:
    """Complete the sign-in. Callback address of the provider."""
    oidc_provider = _find_provider(provider)
    stored = statekit.unstash_state(
        request, provider_id=oidc_provider.id, state_id=request.GET.get("state", "")
    )
    if stored is None:
        record_refused_sign_in(request, "", reason="stale_sign_in")
        raise PermissionDenied(
            _("This sign-in was begun in another browser, was used already, or took too long."),
            hint=_("Start again from the sign-in page."),
            code="sign_in_refused",
        )
    if request.GET.get("error") == "access_denied":
        messages.info(
            request, _("Nobody is signed in: you went back from {name}.").format(name=oidc_provider.name)
        )
        return redirect(settings.LOGIN_URL)
    identity = _read_identity(request, oidc_provider, stored)
    try:
        user = admit_user(
            actor=actor_of(request),
            provider_id=oidc_provider.id,
            onboarding=oidc_provider.onboarding,
            identity=identity,
        )
    except ProofRequired as need:
        record_refused_sign_in(request, identity.email, reason=need.reason)
        store_pending_link(request, oidc_provider.id, identity)
        messages.info(request, f"{need.message} {need.hint}")
        return redirect(f"{reverse(settings.LOGIN_URL)}?{urlencode({'next': stored['next']})}")
    except SignInRefused as refusal:
        record_refused_sign_in(request, identity.email, reason=refusal.reason)
        raise
    undo_attempt(request, Purpose.PROVIDER, "")
    request.signed_in_by = oidc_provider.id  # type: ignore[attr-defined]  # for the audit log
    answer: HttpResponse = perform_login(
        request, user, email_verification=settings.ACCOUNT_EMAIL_VERIFICATION, redirect_url=stored["next"]
    )
    return answer


def _read_identity(request: HttpRequest, provider: OidcProvider, stored: dict[str, Any]) -> ProviderIdentity:
    try:
        return _client(request, provider).finish(request.GET["code"], stored)
    except FAULTS as fault:
        _record_fault(request, provider, fault)
        raise provider_error(fault, provider) from fault


def _record_fault(request: HttpRequest, provider: OidcProvider, fault: Exception) -> None:
    """Log the type of the fault only: its text may contain secrets sent by the provider."""
    log.warning("oidc.refused", provider=provider.id, fault=type(fault).__name__)
    record_refused_sign_in(request, "", reason="provider_failed")


def _find_provider(name: str) -> OidcProvider:
    provider: OidcProvider
    for provider in settings.BERTH_OIDC_PROVIDERS:
        if provider.id == name:
            return provider
    raise NotFound(_("There is no such way to sign in here."))


def _client(request: HttpRequest, provider: OidcProvider) -> OidcClient:
    return OidcClient(request, provider, settings.BERTH_URL + reverse("oidc-callback", args=[provider.id]))
