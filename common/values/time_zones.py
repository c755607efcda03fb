"""Time zones by name, such as Europe/Berlin."""

from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

LONGEST_ZONE = 64  # length of a name


def zone_or_utc(name: str) -> tzinfo:
    """Return the zone of that name; UTC if there is none."""
    return _find(name) or UTC


def is_zone(name: str) -> bool:
    """Return True if the name denotes the same zone on all machines."""
    return name in _names()


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - {"localtime", "Factory"}


def _find(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # invalid name, or a directory of zones
        return None
