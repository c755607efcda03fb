"""Sentences for users about the next end of a session and its utilisation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from common.actors import Actor
from common.i18n import paragraph
from common.values.durations import format_duration
from common.values.resources import CPU, MEM
from sessions_app.core.idle_rules import DEVICE, DEVICE_MEM, Cause, ResourceUtilization
from sessions_app.idle.extension import session_extension
from sessions_app.idle.facts import NextEnd, find_next_end, idle_row
from sessions_app.models import ComputeSession, Interaction
from sessions_app.selectors import Action, may

CAUSES: Mapping[str, str] = MappingProxyType(
    {
        "": gettext_noop("Its time limit is over then."),
        Cause.LIFETIME: gettext_noop("That is its maximum lifetime."),
        Cause.INTERACTION: gettext_noop(
            "Activity in it restarts the idle timeout; an open page alone is no activity."
        ),
        Cause.USE: gettext_noop("Once its utilization rises, it goes on."),
        Cause.PREEMPTION: gettext_noop("It is preempted by a session with a higher priority."),
    }
)
UTILIZATIONS: Mapping[str, str] = MappingProxyType(
    {
        CPU: gettext_noop("Its CPU utilization is {part}; the minimum is {least}."),
        MEM: gettext_noop("Its memory utilization is {part}; the minimum is {least}."),
        DEVICE: gettext_noop("Its accelerator utilization is {part}; the minimum is {least}."),
        DEVICE_MEM: gettext_noop("Its accelerator memory utilization is {part}; the minimum is {least}."),
    }
)
UNMEASURED: Mapping[str, str] = MappingProxyType(
    {
        CPU: gettext_noop("Its CPU utilization is not measured, so it does not end for that."),
        MEM: gettext_noop("Its memory utilization is not measured, so it does not end for that."),
        DEVICE: gettext_noop("Its accelerator utilization is not measured, so it does not end for that."),
        DEVICE_MEM: gettext_noop(
            "Its accelerator memory utilization is not measured, so it does not end for that."
        ),
    }
)
SHORT_CAUSES: Mapping[str, str] = MappingProxyType(
    {
        "": gettext_noop("time limit"),
        Cause.LIFETIME: gettext_noop("maximum lifetime"),
        Cause.INTERACTION: gettext_noop("idle timeout"),
        Cause.USE: gettext_noop("low utilization"),
        Cause.PREEMPTION: gettext_noop("preemption"),
    }
)
_NOTHING_KNOWN: Mapping[str, Any] = MappingProxyType(
    {"gap": "", "unmeasured": "", "interacted_at": None, "interaction": "", "extend": "", "left": ""}
)


def explain_end(outlook: NextEnd) -> str:
    """Return sentences that explain the next end; "" if nothing ends the session.

    For minimum utilisation they name each resource that is below it.
    """
    if outlook.ends_at is None:
        return ""
    low = outlook.use if outlook.cause == Cause.USE else ()
    return paragraph(filter(None, (low_utilization_text(low_utilization(low)), _(CAUSES[outlook.cause]))))


def low_utilization_text(use: Iterable[tuple[str, int, int]]) -> str:
    """Return sentences for (name, percent, minimum) that are too low; "" for none."""
    return paragraph(
        _(UTILIZATIONS[name]).format(part=f"{percent} %", least=f"{least} %") for name, percent, least in use
    )


def low_utilization(use: Iterable[ResourceUtilization]) -> list[tuple[str, int, int]]:
    """Return (name, percent, minimum) of each utilisation that is too low, as `low_utilization_text` takes it."""
    return [(each.name, each.percent or 0, each.least) for each in use if each.is_low]


def _unmeasured(outlook: NextEnd) -> str:
    """Return sentences about required utilisation that is not measured; "" for none."""
    return paragraph(_(UNMEASURED[each.name]) for each in outlook.use if each.percent is None)


def next_end_row(actor: Actor, session: ComputeSession) -> dict[str, Any] | None:
    """Return the next end of a running session and the possible extension; None if nothing ends it.

    {"ends_at", "why", "is_near", "gap", "unmeasured", "interacted_at", "interaction", "extend",
    "left"}; "extend" is the duration of an extension, or "". The session must have come
    `with_parts`. Two queries at most.
    """
    outlook = find_next_end(session)
    if outlook is None or (outlook.ends_at is None and not outlook.gap and not _unmeasured(outlook)):
        return None
    if outlook.cause == Cause.PREEMPTION:
        return {**_NOTHING_KNOWN, "ends_at": outlook.ends_at, "why": explain_end(outlook), "is_near": True}
    known = idle_row(session).interaction
    return {
        "ends_at": outlook.ends_at,
        "why": explain_end(outlook),
        "is_near": outlook.is_near,
        "gap": outlook.gap,
        "unmeasured": _unmeasured(outlook),
        "interacted_at": outlook.interacted_at,
        "interaction": str(Interaction(known).label) if known else "",
        **_extension(actor, session),
    }


@dataclass(frozen=True, slots=True)
class NearEnd:
    """End of a session within NEAR: instant, reason in two words, and sentence."""

    at: datetime
    in_short: str
    why: str


def near_end(session: ComputeSession) -> NearEnd | None:
    """Return the end of a session if it is within NEAR, else None. No query (see `find_next_end`)."""
    outlook = find_next_end(session)
    if outlook is None or outlook.ends_at is None or not outlook.is_soon:
        return None
    return NearEnd(outlook.ends_at, _(SHORT_CAUSES[outlook.cause]), explain_end(outlook))


def _extension(actor: Actor, session: ComputeSession) -> dict[str, str]:
    extension = session_extension(session) if may(actor, session, Action.EXTEND) else None
    if extension is None or not extension.is_possible:
        return {"extend": "", "left": ""}
    left = ngettext("{count} more time", "{count} more times", extension.left).format(count=extension.left)
    return {"extend": format_duration(extension.by_s), "left": left}
