"""What the sign-in page offers beside a password."""

from django import template

from accounts import invitations

register = template.Library()


@register.simple_tag
def can_sign_up() -> bool:
    """One query, where mail is set up."""
    return invitations.is_open_to_somebody()
