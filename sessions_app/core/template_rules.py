"""Rules of templates: the parts of a request they store, and names that sound secret. Pure."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from common.i18n import gettext as _
from common.values.text import check_text
from sessions_app.core.request import parse_request

MAX_NAME_LENGTH, MAX_DESCRIPTION_LENGTH = 64, 300
MAX_PER_SCOPE = 200
# Fields of a single session: its name, start time and dependencies; and a URL that may hold a
# secret.
PER_SESSION_FIELDS = ("name", "start_at", "dependencies", "callback_url")
# Users see which variables were left out, but not which secrets were stored by mistake. So most
# words match anywhere in a name, as in PGPASSWORD and accessToken.
_SOUNDS_SECRET = re.compile(
    r"pass(word|wd|phrase)|pass(_|$)|secret|token(?!i[sz])|credential|api_?key|private_?key|access_?key"
    r"|(^|_)(pwd|pat|auth|authorization|key|cookie)s?(_|$)",
    re.IGNORECASE,
)


class Sharing(StrEnum):
    """Audience of a template."""

    OWN = "own"
    PROJECT = "project"
    DOMAIN = "domain"
    EVERYBODY = "everybody"


def template_body(raw: object) -> tuple[dict[str, Any], list[str]]:
    """Return the part of a request (REST body) that a template stores, and the variables left out.

    Leaves out variables whose names sound like secrets. Raises InvalidInput for an invalid request.
    """
    asked = dict(raw) if isinstance(raw, Mapping) else raw
    if isinstance(asked, dict):
        for name in PER_SESSION_FIELDS:
            asked.pop(name, None)
        asked |= {"name": "template", "project": asked.get("project") or "any"}
    request = parse_request(asked)
    body = request.to_json()
    body.pop("name")
    if isinstance(raw, Mapping) and not raw.get("project"):
        body.pop("project")
    variables = {name: text for name, text in request.environment.items() if not is_secret_name(name)}
    body.pop("environment", None)
    if variables:
        body["environment"] = variables
    return body, sorted(request.environment.keys() - variables.keys())


def is_secret_name(name: str) -> bool:
    return bool(_SOUNDS_SECRET.search(name))


def check_template_name(value: object) -> str:
    text = check_text(value, max_length=MAX_NAME_LENGTH).strip()
    if not text:
        raise ValueError(_("Give the template a name."))
    return text


def check_description(value: object) -> str:
    return check_text(value, max_length=MAX_DESCRIPTION_LENGTH).strip()


def template_name_stem(name: str) -> str:
    """Return the prefix of the names of its sessions."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "session"
