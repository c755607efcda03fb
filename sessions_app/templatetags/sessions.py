"""Tags for pages that lead into sessions: `{% load sessions %}`."""

from django import template
from django.template import RequestContext

from sessions_app.gateway.doors import app_link
from sessions_app.models import ComputeSession

register = template.Library()


@register.simple_tag(takes_context=True)
def app_url(context: RequestContext, session: ComputeSession, app: str) -> str:
    """Where the reader of this page opens an app of a session, by the name under which the portal was opened."""
    return app_link(context["request"], session, app)
