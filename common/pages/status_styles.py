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
class StatusStyle:
    """Style of a status. `is_spinning`: the icon rotates, for work in progress."""

    icon: str
    label: str
    tone: Tone
    is_spinning: bool = False


_STYLES = {
    # compute sessions
    "pending": StatusStyle("hourglass", gettext_noop("Pending"), Tone.WARN),
    "scheduled": StatusStyle("clock-play", gettext_noop("Scheduled"), Tone.BUSY),
    "preparing": StatusStyle("loader-2", gettext_noop("Preparing"), Tone.BUSY, is_spinning=True),
    "starting": StatusStyle("loader-2", gettext_noop("Starting"), Tone.BUSY, is_spinning=True),
    "running": StatusStyle("circle-check", gettext_noop("Running"), Tone.GOOD),
    "terminating": StatusStyle("loader-2", gettext_noop("Terminating"), Tone.QUIET, is_spinning=True),
    "terminated": StatusStyle("player-stop", gettext_noop("Terminated"), Tone.QUIET),
    "cancelled": StatusStyle("ban", gettext_noop("Cancelled"), Tone.QUIET),
    "error": StatusStyle("alert-circle", gettext_noop("Error"), Tone.BAD),
    # callbacks
    "waiting": StatusStyle("hourglass", gettext_noop("Waiting"), Tone.WARN),
    "delivered": StatusStyle("circle-check", gettext_noop("Delivered"), Tone.GOOD),
    "given_up": StatusStyle("alert-circle", gettext_noop("Failed"), Tone.BAD),
    # agents
    "connected": StatusStyle("plug-connected", gettext_noop("Connected"), Tone.GOOD),
    "lost": StatusStyle("plug-connected-x", gettext_noop("Lost"), Tone.BAD),
    "draining": StatusStyle("player-pause", gettext_noop("Draining"), Tone.WARN),
    "maintenance": StatusStyle("tool", gettext_noop("Maintenance"), Tone.WARN),
    "retired": StatusStyle("archive", gettext_noop("Retired"), Tone.QUIET),
    # accelerators
    "free": StatusStyle("circle-check", gettext_noop("Free"), Tone.GOOD),
    "shared": StatusStyle("chart-area-line", gettext_noop("Partly held"), Tone.BUSY),
    "held": StatusStyle("cpu", gettext_noop("Held"), Tone.BUSY),
    "idle": StatusStyle("clock", gettext_noop("Held, idle"), Tone.WARN),
    "ill": StatusStyle("alert-circle", gettext_noop("Quarantined"), Tone.BAD),
    "withheld": StatusStyle("player-pause", gettext_noop("Withheld"), Tone.QUIET),
    "split": StatusStyle("template", gettext_noop("Split"), Tone.QUIET),
    "absent": StatusStyle("plug-connected-x", gettext_noop("Missing"), Tone.BAD),
    # images on machines
    "image-there": StatusStyle("circle-check", gettext_noop("On the machine"), Tone.GOOD),
    "image-coming": StatusStyle("loader-2", gettext_noop("On its way"), Tone.BUSY, is_spinning=True),
    "image-waiting": StatusStyle("hourglass", gettext_noop("Waiting"), Tone.WARN),
    "image-failed": StatusStyle("alert-circle", gettext_noop("Failed"), Tone.BAD),
    "image-absent": StatusStyle("circle-dashed", gettext_noop("Not there"), Tone.QUIET),
    # resource groups
    "paused": StatusStyle("player-pause", gettext_noop("Paused"), Tone.WARN),
    # accounts, projects, domains
    "open": StatusStyle("circle-check", gettext_noop("Open"), Tone.GOOD),
    "closed": StatusStyle("ban", gettext_noop("Closed"), Tone.QUIET),
    "archived": StatusStyle("archive", gettext_noop("Archived"), Tone.QUIET),
    # invitations
    "used": StatusStyle("user-check", gettext_noop("Used"), Tone.QUIET),
    "expired": StatusStyle("clock-off", gettext_noop("Expired"), Tone.QUIET),
    "revoked": StatusStyle("ban", gettext_noop("Revoked"), Tone.QUIET),
    "void": StatusStyle("user-off", gettext_noop("Void"), Tone.WARN),
    # folders
    "cloning": StatusStyle("loader-2", gettext_noop("Being copied"), Tone.BUSY, is_spinning=True),
    "trashed": StatusStyle("trash", gettext_noop("In the trash"), Tone.QUIET),
    # budgets and prices
    "within": StatusStyle("circle-check", gettext_noop("Within budget"), Tone.GOOD),
    "nearly_spent": StatusStyle("alert-triangle", gettext_noop("Nearly used up"), Tone.WARN),
    "spent": StatusStyle("alert-circle", gettext_noop("Used up"), Tone.BAD),
    "holds": StatusStyle("circle-check", gettext_noop("In effect"), Tone.GOOD),
    "to_come": StatusStyle("calendar", gettext_noop("Upcoming"), Tone.BUSY),
    "over": StatusStyle("archive", gettext_noop("Past"), Tone.QUIET),
    # tokens
    "active": StatusStyle("circle-check", gettext_noop("Active"), Tone.GOOD),
    "off": StatusStyle("player-pause", gettext_noop("Switched off"), Tone.WARN),
    # folders, apps
    "ready": StatusStyle("circle-check", gettext_noop("Ready"), Tone.GOOD),
    "deleting": StatusStyle("loader-2", gettext_noop("Deleting"), Tone.QUIET, is_spinning=True),
    "deleted": StatusStyle("trash", gettext_noop("Deleted"), Tone.QUIET),
    # lines of the audit log
    "done": StatusStyle("circle-check", gettext_noop("Done"), Tone.GOOD),
    "refused": StatusStyle("ban", gettext_noop("Refused"), Tone.WARN),
    "failed": StatusStyle("circle-x", gettext_noop("Failed"), Tone.BAD),
}


def status_style(state: str) -> StatusStyle:
    """Return the style of a status name in any case, with its label in the reader's language; a
    neutral style with the name itself if unknown.
    """
    style = _STYLES.get(state.lower())
    if style is None:
        return StatusStyle("circle-dashed", state.replace("_", " ").capitalize(), Tone.QUIET)
    return replace(style, label=_(style.label))
