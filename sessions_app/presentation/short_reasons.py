"""Shorten the reasons why a session waits to a few words for lists. Pure."""

from string import Formatter

from common.i18n import gettext_noop
from common.values.stored_message import StoredMessage

# By reason code (scheduler.engine.ReasonCode): the first text whose arguments the message has.
_SHORT: dict[str, tuple[str, ...]] = {
    "group_paused": (gettext_noop("Group paused"),),
    "no_agents": (gettext_noop("No agent takes it now"),),
    "agent_unavailable": (gettext_noop("Its agent takes none now"),),
    "never_fits": (
        gettext_noop("Never fits: {short} requested, {room} at most"),
        gettext_noop("Never fits: {count} agents needed, {found} there"),
    ),
    "no_capacity": (
        gettext_noop("No room: {short} requested, {room} free"),
        gettext_noop("No room: {count} agents needed, {found} free"),
    ),
    "fragmented": (
        gettext_noop("No room: {short} requested, {room} on one agent"),
        gettext_noop("No room: {asked} requested, {room} in one piece"),
        gettext_noop("No room: {count} agents needed, {found} free"),
        gettext_noop("Free, but on too many agents"),
    ),
    "budget_spent": (gettext_noop("Budget used up"),),
    "limit_reached": (gettext_noop("Limit: {held} of {most} allocated"),),
    "kept_free": (gettext_noop("Backfill reservation ahead"),),
    "priority": (gettext_noop("Higher priority ahead: {count}"),),
    "making_room": (gettext_noop("Preemption in progress"),),
    "placement_rule": (gettext_noop("Placement group: {count} agents"),),
    "reservation": (
        gettext_noop("Reserved until {until} UTC"),
        gettext_noop("Reserved for it from {start} UTC"),
    ),
}


def short_reason(code: str, sentence: StoredMessage) -> StoredMessage:
    """Return the short form of the message for reason `code`, or the message itself if there is none."""
    for text in _SHORT.get(code, ()):
        if all(name in sentence.arguments for _, name, _, _ in Formatter().parse(text) if name):
            return StoredMessage(text, sentence.arguments)
    return sentence
