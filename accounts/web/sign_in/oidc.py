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
from accounts.sign_in.federation import Claim, NoAccount, ProofNeeded, admit_person, wait_for_proof
from accounts.sign_in.oidc import FAULTS, OidcClient, refusal_of
from accounts.sign_in.throttle import count_attempt, return_form
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
    its = _provider_named(provider)
    next_url = local_url(request, request.POST.get("next", ""))
    if request.user.is_authenticated:
        return redirect(next_url)
    count_attempt(request, Purpose.PROVIDER, "")
    try:
        url = _client(request, its).begin(next_url)
    except FAULTS as fault:
        _note(request, its, fault)
        raise refusal_of(fault, its) from fault
    return render(request, "accounts/to_provider.html", {"url": url, "name": its.name})


@closed_during_impersonation
@never_cache
@require_http_methods(["GET", "HEAD"])
def finish_oidc(request: HttpRequest, provider: str) -> HttpResponse:
    """Complete the sign-in. Callback address of the provider."""
    its = _provider_named(provider)
    kept = statekit.unstash_state(request, provider_id=its.id, state_id=request.GET.get("state", ""))
    if kept is None:
        record_refused_sign_in(request, "", reason="stale_sign_in")
        raise PermissionDenied(
            _("This sign-in was begun in another browser, was used already, or took too long."),
            hint=_("Start again from the sign-in page."),
            code="sign_in_refused",
        )
    if request.GET.get("error") == "access_denied":
        messages.info(request, _("Nobody is signed in: you went back from {name}.").format(name=its.name))
        return redirect(settings.LOGIN_URL)
    claim = _claim_of(request, its, kept)
    try:
        user = admit_person(actor=actor_of(request), provider_id=its.id, admission=its.admission, claim=claim)
    except ProofNeeded as need:
        record_refused_sign_in(request, claim.email, reason=need.reason)
        wait_for_proof(request, its.id, claim)
        messages.info(request, f"{need.message} {need.hint}")
        return redirect(f"{reverse(settings.LOGIN_URL)}?{urlencode({'next': kept['next']})}")
    except NoAccount as refusal:
        record_refused_sign_in(request, claim.email, reason=refusal.reason)
        raise
    return_form(request, Purpose.PROVIDER, "")
    request.signed_in_by = its.id  # type: ignore[attr-defined]  # for the audit log
    answer: HttpResponse = perform_login(
        request, user, email_verification=settings.ACCOUNT_EMAIL_VERIFICATION, redirect_url=kept["next"]
    )
    return answer


def _claim_of(request: HttpRequest, its: OidcProvider, kept: dict[str, Any]) -> Claim:
    try:
        return _client(request, its).finish(request.GET["code"], kept)
    except FAULTS as fault:
        _note(request, its, fault)
        raise refusal_of(fault, its) from fault


def _note(request: HttpRequest, its: OidcProvider, fault: Exception) -> None:
    """Log the type of the fault only: its text may contain secrets sent by the provider."""
    log.warning("oidc.refused", provider=its.id, fault=type(fault).__name__)
    record_refused_sign_in(request, "", reason="provider_failed")


def _provider_named(name: str) -> OidcProvider:
    for its in settings.BERTH_OIDC_PROVIDERS:
        if its.id == name:
            found: OidcProvider = its
            return found
    raise NotFound(_("There is no such way to sign in here."))


def _client(request: HttpRequest, its: OidcProvider) -> OidcClient:
    return OidcClient(request, its, settings.BERTH_URL + reverse("oidc-callback", args=[its.id]))
