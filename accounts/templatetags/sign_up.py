"""What the sign-in page offers beside a password."""

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
    """One query, where mail is set up."""
    return invitations.is_open_to_somebody()


@register.simple_tag
def has_mail() -> bool:
    """Whether Berth can send any, links for a forgotten password among them."""
    return bool(settings.BERTH_MAIL)


@register.simple_tag
def oidc_providers() -> Sequence[OidcProvider]:
    providers: Sequence[OidcProvider] = settings.BERTH_OIDC_PROVIDERS
    return providers


@register.simple_tag(takes_context=True)
def why_signed_out(context: Any) -> str:
    """Why the login that was in this browser ended, if another one took its place. At most one query."""
    return concurrent_logins.why_ended(context["request"])
