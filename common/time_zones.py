"""Time zones by their names, such as Europe/Berlin."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LONGEST_ZONE = 64  # of a name


def zone_named(name: str) -> tzinfo:
    """UTC where there is no zone of that name."""
    return _find(name) or UTC


def is_zone(name: str) -> bool:
    return _find(name) is not None


def _find(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # of names that are none, or a directory of zones
        return None
