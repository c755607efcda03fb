"""Replaces `{% csrf_token %}` in all templates: adds the user for whom the page was made."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from common.pages.returned_forms import OPENED_BY_FIELD, TOKEN_FIELD

register = template.Library()


@register.simple_tag(takes_context=True)
def csrf_token(context: template.Context) -> SafeString:
    if not _has_token(context):
        return SafeString("")
    return format_html(
        '<input type="hidden" name="{}" value="{}"><input type="hidden" name="{}" value="{}">',
        TOKEN_FIELD,
        context["csrf_token"],
        OPENED_BY_FIELD,
        opened_by(context),
    )


@register.simple_tag(takes_context=True)
def opened_by(context: template.Context) -> str:
    """Return the id of the signed-in user; "" if there is none, and on pages without a token, which
    must not query the database.
    """
    if not _has_token(context):
        return ""
    user = getattr(context.get("request"), "user", None)
    return str(user.pk) if user is not None and user.is_authenticated else ""


def _has_token(context: template.Context) -> bool:
    return str(context.get("csrf_token", "")) not in ("", "NOTPROVIDED")
