"""Template tags for links into sessions and REST examples: `{% load sessions %}`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django import template
from django.conf import settings
from django.template import RequestContext
from django.utils.translation import gettext as _

from common.errors import InvalidInput
from sessions_app.core.request import parse_request
from sessions_app.core.request_export import LANGUAGES, RequestExample, request_examples
from sessions_app.gateway.proxy.app_ports import app_link
from sessions_app.models import ComputeSession
from sessions_app.session_templates.quick_start import session_request_body

register = template.Library()


@register.simple_tag(takes_context=True)
def app_url(context: RequestContext, session: ComputeSession, app: str) -> str:
    """Return the URL at which the reader opens an app of a session or session row, under the host
    name by which the portal was opened; "" for no app.
    """
    return app_link(context["request"], session, app) if app else ""


@register.inclusion_tag("includes/copy_as.html")
def copy_as(session: ComputeSession) -> dict[str, Any]:
    """Render `{% copy_as session %}`: the session's request for the command line, curl, Python and
    YAML; empty if the request would be invalid today. No query if the session came `with_parts`.
    """
    try:
        request = parse_request(session_request_body(session, name=session.name))
    except InvalidInput:
        return {"examples": ()}
    own = {
        str(mount.folder_id): mount.folder_name
        for mount in session.mounts.all()
        if mount.folder and mount.folder.owner_id == session.owner_id
    }
    mounts = [replace(mount, folder=own.get(mount.folder, mount.folder)) for mount in request.mounts]
    return {"examples": request_examples(replace(request, mounts=mounts), settings.BERTH_URL)}


@register.simple_tag
def example_languages() -> Sequence[tuple[str, str]]:
    """Return (key, title) of each language of includes/copy_as.html."""
    return [(key, _(title)) for key, title in LANGUAGES]


@register.filter
def example_in(examples: Sequence[RequestExample] | None, key: str) -> RequestExample | None:
    """Return the example in one language; None if there is none yet (launcher before valid input)."""
    return next((example for example in examples or () if example.key == key), None)


@register.filter
def as_json(value: object) -> str:
    """Return JSON for a data attribute; Django escapes it there."""
    return json.dumps(value)
