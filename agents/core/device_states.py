"""State of an accelerator as shown to people. Pure."""

from enum import StrEnum

from common.i18n import gettext_noop
from common.values.resources import MILLI

IDLE_PERCENT = 5
"""Use below this percentage counts as idle, as for idle sessions."""


class DeviceState(StrEnum):
    """States in the order of the legend. `IDLE` is wholly held and measured as unused."""

    FREE = "free"
    SHARED = "shared"
    HELD = "held"
    IDLE = "idle"
    ILL = "ill"
    WITHHELD = "withheld"
    SPLIT = "split"
    ABSENT = "absent"


STATE_TITLES = {
    DeviceState.FREE: gettext_noop("Free"),
    DeviceState.SHARED: gettext_noop("Partly held"),
    DeviceState.HELD: gettext_noop("Held"),
    DeviceState.IDLE: gettext_noop("Held, idle"),
    DeviceState.ILL: gettext_noop("Quarantined"),
    DeviceState.WITHHELD: gettext_noop("Withheld"),
    DeviceState.SPLIT: gettext_noop("Split"),
    DeviceState.ABSENT: gettext_noop("Missing"),
}


def device_state(
    *, occupied: int, is_present: bool, withheld: str, percent: float | None = None
) -> DeviceState:
    """Return the state of a device: `occupied` in milli-devices, `withheld` as of
    `agents.models.Withheld`, `percent` its measured use; None: not measured.
    """
    if not is_present:
        return DeviceState.ABSENT
    if withheld:
        special = {
            "quarantine": DeviceState.ILL,
            "administrator": DeviceState.ILL,
            "partitioned": DeviceState.SPLIT,
        }
        return special.get(withheld, DeviceState.WITHHELD)
    if not occupied:
        return DeviceState.FREE
    if percent is not None and percent < IDLE_PERCENT:
        return DeviceState.IDLE
    return DeviceState.HELD if occupied >= MILLI else DeviceState.SHARED
