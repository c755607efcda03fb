"""How each state looks: icon, word, tone. Pure presentation; what the states mean stands with their owners."""

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """Colour families of static/src/tokens.css."""

    GOOD = "is-good"
    BUSY = "is-busy"
    WARN = "is-warn"
    BAD = "is-bad"
    QUIET = "is-quiet"


@dataclass(frozen=True, slots=True)
class Look:
    """`turns`: the icon turns, because something is under way."""

    icon: str
    word: str
    tone: Tone
    turns: bool = False


_LOOKS = {
    # compute sessions
    "pending": Look("hourglass", "Pending", Tone.WARN),
    "scheduled": Look("clock-play", "Scheduled", Tone.BUSY),
    "preparing": Look("loader-2", "Preparing", Tone.BUSY, turns=True),
    "starting": Look("loader-2", "Starting", Tone.BUSY, turns=True),
    "running": Look("circle-check", "Running", Tone.GOOD),
    "terminating": Look("loader-2", "Terminating", Tone.QUIET, turns=True),
    "terminated": Look("player-stop", "Terminated", Tone.QUIET),
    "cancelled": Look("ban", "Cancelled", Tone.QUIET),
    "error": Look("alert-circle", "Error", Tone.BAD),
    # agents
    "connected": Look("plug-connected", "Connected", Tone.GOOD),
    "lost": Look("plug-connected-x", "Lost", Tone.BAD),
    "draining": Look("player-pause", "Draining", Tone.WARN),
    "maintenance": Look("tool", "Maintenance", Tone.WARN),
    "retired": Look("archive", "Retired", Tone.QUIET),
    # folders, apps
    "ready": Look("circle-check", "Ready", Tone.GOOD),
    "deleting": Look("loader-2", "Deleting", Tone.QUIET, turns=True),
    "deleted": Look("trash", "Deleted", Tone.QUIET),
    "failed": Look("circle-x", "Failed", Tone.BAD),
}


def look_of(state: str) -> Look:
    """The look of a state's name in any case; a name that is not known looks quiet and reads as it is."""
    return _LOOKS.get(state.lower()) or Look(
        "circle-dashed", state.replace("_", " ").capitalize(), Tone.QUIET
    )
