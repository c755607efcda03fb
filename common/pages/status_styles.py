"""Icon, label and colour of each status. Presentation only; meanings are defined by the apps."""

from dataclasses import dataclass, replace
from enum import StrEnum

from common.i18n import gettext as _
from common.i18n import gettext_noop


class Tone(StrEnum):
    """Colour families of static/src/tokens.css."""

    GOOD = "is-good"
    BUSY = "is-busy"
    WARN = "is-warn"
    BAD = "is-bad"
    QUIET = "is-quiet"


@dataclass(frozen=True, slots=True)
class Look:
    """Style of a status. `turns`: the icon rotates, for work in progress."""

    icon: str
    word: str
    tone: Tone
    turns: bool = False


_LOOKS = {
    # compute sessions
    "pending": Look("hourglass", gettext_noop("Pending"), Tone.WARN),
    "scheduled": Look("clock-play", gettext_noop("Scheduled"), Tone.BUSY),
    "preparing": Look("loader-2", gettext_noop("Preparing"), Tone.BUSY, turns=True),
    "starting": Look("loader-2", gettext_noop("Starting"), Tone.BUSY, turns=True),
    "running": Look("circle-check", gettext_noop("Running"), Tone.GOOD),
    "terminating": Look("loader-2", gettext_noop("Terminating"), Tone.QUIET, turns=True),
    "terminated": Look("player-stop", gettext_noop("Terminated"), Tone.QUIET),
    "cancelled": Look("ban", gettext_noop("Cancelled"), Tone.QUIET),
    "error": Look("alert-circle", gettext_noop("Error"), Tone.BAD),
    # callbacks
    "waiting": Look("hourglass", gettext_noop("Waiting"), Tone.WARN),
    "delivered": Look("circle-check", gettext_noop("Delivered"), Tone.GOOD),
    "given_up": Look("alert-circle", gettext_noop("Failed"), Tone.BAD),
    # agents
    "connected": Look("plug-connected", gettext_noop("Connected"), Tone.GOOD),
    "lost": Look("plug-connected-x", gettext_noop("Lost"), Tone.BAD),
    "draining": Look("player-pause", gettext_noop("Draining"), Tone.WARN),
    "maintenance": Look("tool", gettext_noop("Maintenance"), Tone.WARN),
    "retired": Look("archive", gettext_noop("Retired"), Tone.QUIET),
    # resource groups
    "paused": Look("player-pause", gettext_noop("Paused"), Tone.WARN),
    # accounts, projects, domains
    "open": Look("circle-check", gettext_noop("Open"), Tone.GOOD),
    "closed": Look("ban", gettext_noop("Closed"), Tone.QUIET),
    "archived": Look("archive", gettext_noop("Archived"), Tone.QUIET),
    # invitations
    "used": Look("user-check", gettext_noop("Used"), Tone.QUIET),
    "expired": Look("clock-off", gettext_noop("Expired"), Tone.QUIET),
    "revoked": Look("ban", gettext_noop("Revoked"), Tone.QUIET),
    "void": Look("user-off", gettext_noop("Void"), Tone.WARN),
    # budgets and prices
    "within": Look("circle-check", gettext_noop("Within budget"), Tone.GOOD),
    "nearly_spent": Look("alert-triangle", gettext_noop("Nearly used up"), Tone.WARN),
    "spent": Look("alert-circle", gettext_noop("Used up"), Tone.BAD),
    "holds": Look("circle-check", gettext_noop("In effect"), Tone.GOOD),
    "to_come": Look("calendar", gettext_noop("Upcoming"), Tone.BUSY),
    "over": Look("archive", gettext_noop("Past"), Tone.QUIET),
    # tokens
    "active": Look("circle-check", gettext_noop("Active"), Tone.GOOD),
    "off": Look("player-pause", gettext_noop("Switched off"), Tone.WARN),
    # folders, apps
    "ready": Look("circle-check", gettext_noop("Ready"), Tone.GOOD),
    "deleting": Look("loader-2", gettext_noop("Deleting"), Tone.QUIET, turns=True),
    "deleted": Look("trash", gettext_noop("Deleted"), Tone.QUIET),
    # lines of the access log
    "done": Look("circle-check", gettext_noop("Done"), Tone.GOOD),
    "refused": Look("ban", gettext_noop("Refused"), Tone.WARN),
    "failed": Look("circle-x", gettext_noop("Failed"), Tone.BAD),
}


def look_of(state: str) -> Look:
    """Return the style of a status name in any case, with its label in the reader's language; a
    neutral style with the name itself if unknown.
    """
    look = _LOOKS.get(state.lower())
    if look is None:
        return Look("circle-dashed", state.replace("_", " ").capitalize(), Tone.QUIET)
    return replace(look, word=_(look.word))
