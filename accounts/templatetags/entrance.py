"""What the sign-in page offers beside a password."""

from collections.abc import Sequence

from django import template
from django.conf import settings

from accounts import invitations
from accounts.providers import OidcProvider

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
