"""Names and secrets of new sessions."""

import base64
import secrets
from collections.abc import Sequence

from django.utils.translation import gettext as _

from common.actors import Actor
from common.errors import Conflict
from sessions_app.core.request import SessionRequest
from sessions_app.selectors import own_sessions


def suggest_name(actor: Actor, stem: str) -> str:
    """Return the first of `stem`-1, `stem`-2 … that no live session or array of the actor uses.

    One query.
    """
    names = own_sessions(actor).live().filter(name__startswith=f"{stem}-").values_list("name", flat=True)
    # an element is called NAME-INDEX
    taken = {name.removeprefix(f"{stem}-").partition("-")[0] for name in names}
    return next(f"{stem}-{number}" for number in range(1, len(taken) + 2) if str(number) not in taken)


def used_names(actor: Actor, requests: Sequence[SessionRequest]) -> set[str]:
    """Return the requested names that live sessions of the actor use. One query."""
    live = own_sessions(actor).live().filter(name__in=[request.name for request in requests])
    return set(live.values_list("name", flat=True))


def name_conflict(name: str) -> Conflict:
    return Conflict(
        _("You have a live session called “{name}” already.").format(name=name),
        hint=_("Choose another name, or stop that session first."),
        fields={"name": [_("Used by a live session of yours.")]},
    )


def new_host_label() -> str:
    """Return the session's part of app host names: 16 base32 characters (80 random bits).

    It is never reused.
    """
    return base64.b32encode(secrets.token_bytes(10)).decode().lower()


def new_app_token() -> str:
    """Return 48 hexadecimal digits: the token that the apps of one session require."""
    return secrets.token_hex(24)
