"""What people are told of when their sessions end, and of how these are used."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from common.actors import Actor
from common.words import duration_words
from sessions_app.extending import extension_of_session
from sessions_app.idle_facts import idle_of, outlook_of
from sessions_app.idle_models import Interaction
from sessions_app.idle_rules import Cause
from sessions_app.models import ComputeSession
from sessions_app.selectors import Action, may

WHY: Mapping[str, str] = MappingProxyType(
    {
        "": gettext_noop("Its time limit is over then."),
        Cause.LIFETIME: gettext_noop("That is its longest lifetime."),
        Cause.INTERACTION: gettext_noop(
            "Work in it and it goes on; a page that is only open does not count."
        ),
        Cause.USE: gettext_noop("Once it uses more of what it holds, it goes on."),
        Cause.PREEMPTION: gettext_noop("A session with a higher priority needs its machine."),
    }
)
WHY_IN_SHORT: Mapping[str, str] = MappingProxyType(
    {
        "": gettext_noop("time limit"),
        Cause.LIFETIME: gettext_noop("longest lifetime"),
        Cause.INTERACTION: gettext_noop("nobody works in it"),
        Cause.USE: gettext_noop("uses too little"),
        Cause.PREEMPTION: gettext_noop("higher priority"),
    }
)
_NOTHING_KNOWN: Mapping[str, Any] = MappingProxyType(
    {"gap": "", "interacted_at": None, "interaction": "", "extend": "", "left": ""}
)


def ending(actor: Actor, session: ComputeSession) -> dict[str, Any] | None:
    """When a running session ends, and what can be done: {"ends_at", "why", "is_near", "gap", "interacted_at", "interaction",
    "extend", "left"}; "extend" says by how much that is, or is empty. None where nothing ends it. It must have come `with_parts`. Two queries at most."""
    outlook = outlook_of(session)
    if outlook is None or (outlook.ends_at is None and not outlook.gap):
        return None
    if outlook.cause == Cause.PREEMPTION:
        return {**_NOTHING_KNOWN, "ends_at": outlook.ends_at, "why": _(WHY[outlook.cause]), "is_near": True}
    known = idle_of(session).interaction
    return {
        "ends_at": outlook.ends_at,
        "why": _(WHY[outlook.cause]),
        "is_near": outlook.is_near,
        "gap": outlook.gap,
        "interacted_at": outlook.interacted_at,
        "interaction": str(Interaction(known).label) if known else "",
        **_extension(actor, session),
    }


@dataclass(frozen=True, slots=True)
class NearEnd:
    """Of a session that ends soon: when, why in two words, and in a sentence."""

    at: datetime
    in_short: str
    why: str


def near_end(session: ComputeSession) -> NearEnd | None:
    """What a list says of a session whose end is no more than NEAR away; None of all others. No query, as outlook_of."""
    outlook = outlook_of(session)
    if outlook is None or outlook.ends_at is None or not outlook.is_soon:
        return None
    return NearEnd(outlook.ends_at, _(WHY_IN_SHORT[outlook.cause]), _(WHY[outlook.cause]))


def _extension(actor: Actor, session: ComputeSession) -> dict[str, str]:
    extension = extension_of_session(session) if may(actor, session, Action.EXTEND) else None
    if extension is None or not extension.is_possible:
        return {"extend": "", "left": ""}
    left = ngettext("{count} more time", "{count} more times", extension.left).format(count=extension.left)
    return {"extend": duration_words(extension.by_s), "left": left}
