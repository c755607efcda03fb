"""What a request says of its place in the queue, checked as far as that needs no database. Pure."""

import re
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from accounts.quota import HIGHEST_PRIORITY
from common.languages import gettext as _
from common.texts import quoted

LOWEST_PRIORITY = -HIGHEST_PRIORITY
MAX_PENDING_TIMEOUT_S = 30 * 24 * 3600
LONGEST_INSTANT = 40
_WHOLE = re.compile(r"[-−]?\d{1,9}\Z", re.ASCII)


class Hold(StrEnum):
    """What keeps a waiting session out of the queue for a machine."""

    NOTHING = ""
    START_TIME = "start_time"


def check_priority(value: object) -> int:
    if value is None or value == "":
        return 0
    value = _whole(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > HIGHEST_PRIORITY:
        sentence = _("{value} is no priority. Give a whole number from {least} to {most}.")
        raise ValueError(sentence.format(value=quoted(value), least=LOWEST_PRIORITY, most=HIGHEST_PRIORITY))
    return value


def check_pending_timeout(value: object) -> int | None:
    """Whole seconds."""
    if value is None or value == "":
        return None
    value = _whole(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PENDING_TIMEOUT_S:
        sentence = _("{value} is no time to wait. Give whole seconds from 1 to {most}.")
        raise ValueError(sentence.format(value=quoted(value), most=MAX_PENDING_TIMEOUT_S))
    return value


def check_start_at(value: object) -> datetime | None:
    """An instant in UTC, of text in the form of ISO 8601 that names its time zone."""
    if value is None or value == "":
        return None
    try:
        if not isinstance(value, str) or len(value) > LONGEST_INSTANT:
            raise ValueError
        instant = datetime.fromisoformat(value.strip())
        if instant.tzinfo is None:
            raise ValueError
        return instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        sentence = _("{value} is no instant. Write it with its time zone, like {example}.")
        raise ValueError(sentence.format(value=quoted(value), example="2027-01-31T08:00:00+00:00")) from error


def instant_of(typed: str, time_zone: str) -> str:
    """What a browser sends of a control for date and time, which names no time zone, as `check_start_at` reads it: in the zone
    of that name, or else in UTC. What is no instant stays as it is."""
    try:
        instant = datetime.fromisoformat(typed)
    except ValueError:
        return typed
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=_zone(time_zone))
    return instant.isoformat()


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):  # of names that are none, or a directory of zones
        return UTC


def _whole(value: object) -> object:
    """Forms send numbers as text."""
    if isinstance(value, str) and _WHOLE.match(value.strip()):
        return int(value.strip().replace("−", "-"))
    return value
