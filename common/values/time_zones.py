"""Time zones by their names, such as Europe/Berlin."""

from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

LONGEST_ZONE = 64  # of a name


def zone_named(name: str) -> tzinfo:
    """UTC where there is no zone of that name."""
    return _find(name) or UTC


def is_zone(name: str) -> bool:
    """Whether it is one of the same name and meaning on all machines."""
    return name in _names()


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - {"localtime", "Factory"}


def _find(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # of names that are none, or a directory of zones
        return None
