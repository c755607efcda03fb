"""Template tags of the sign-in page: sign-up, mail, reason of a sign-out."""

from collections.abc import Sequence
from typing import Any

from django import template
from django.conf import settings

from accounts.core.identity_providers import OidcProvider
from accounts.logins import concurrent_logins
from accounts.tenancy import invitations

register = template.Library()


@register.simple_tag
def can_sign_up() -> bool:
    """True if some domain is open for sign-up. One query if mail is configured, else none."""
    return invitations.is_sign_up_open()


@register.simple_tag
def has_mail() -> bool:
    """True if Berth can send mail, e.g. password reset links."""
    return bool(settings.BERTH_MAIL)


@register.simple_tag
def oidc_providers() -> Sequence[OidcProvider]:
    providers: Sequence[OidcProvider] = settings.BERTH_OIDC_PROVIDERS
    return providers


@register.simple_tag(takes_context=True)
def why_signed_out(context: Any) -> str:
    """Sentence that explains why another login replaced the one in this browser, or "". At most one
    query.
    """
    return concurrent_logins.end_reason(context["request"])
