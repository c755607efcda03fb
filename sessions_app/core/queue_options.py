"""Validates the queue options of a request: priority, start time, dependencies, retries. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from accounts.core.limits import HIGHEST_PRIORITY
from common.i18n import gettext as _
from common.values.text import check_text, quoted
from common.values.time_zones import zone_or_utc
from sessions_app.core.request_fields import (
    RequestField,
    RequestObject,
    check_whole_number,
    one_of,
    read_list,
    required_text,
)

LOWEST_PRIORITY = -HIGHEST_PRIORITY
MAX_PENDING_TIMEOUT_S = 30 * 24 * 3600
LONGEST_INSTANT = 40
MAX_DEPENDENCIES = 32
MAX_RETRIES = 10
MAX_SESSION_NAME = 64


class Hold(StrEnum):
    """Reason why a waiting session is not in the queue.

    GROUP: its resource group no longer admits it. IMAGE: no machine has its image, and none can
    pull it.
    """

    NOTHING = ""
    START_TIME = "start_time"
    DEPENDENCY = "dependency"
    GROUP = "group_closed"
    ARRAY_LIMIT = "array_limit"
    IMAGE = "image_missing"


class When(StrEnum):
    """Outcome of another session that a dependency requires."""

    SUCCESS = "success"
    ANY = "any"
    FAILURE = "failure"


def check_priority(value: object) -> int:
    sentence = _("{value} is no priority. Give a whole number from {least} to {most}.")
    return check_whole_number(value, LOWEST_PRIORITY, HIGHEST_PRIORITY, sentence) or 0


def check_pending_timeout(value: object) -> int | None:
    sentence = _("{value} is no time to wait. Give whole seconds from 1 to {most}.")
    return check_whole_number(value, 1, MAX_PENDING_TIMEOUT_S, sentence)


def check_retries(value: object) -> int:
    sentence = _("{value} is no number of retries. Give a whole number from 0 to {most}.")
    return check_whole_number(value, 0, MAX_RETRIES, sentence) or 0


def check_start_at(value: object) -> datetime | None:
    """Return an instant in UTC from ISO 8601 text with a time zone; None if empty.

    Raises ValueError.
    """
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


def check_when(value: object) -> When:
    if value is None or value == "":
        return When.SUCCESS
    if not isinstance(value, str) or value not in set(When):
        raise ValueError(
            _("{value} is no condition. Use success, any or failure.").format(value=quoted(value))
        )
    return When(value)


def check_awaited(value: object) -> str:
    text = "" if value is None else check_text(value, max_length=MAX_SESSION_NAME).strip()
    if not text:
        raise ValueError(_("Say which session, by name or id."))
    return text


@dataclass(frozen=True, slots=True)
class DependencyRequest(RequestObject):
    """Session to wait for, and the outcome that it needs."""

    # fmt: off
    session: Annotated[str, RequestField(check_awaited, required_text(MAX_SESSION_NAME),
        "Id of a session or array, or name of one of yours.")]
    when: Annotated[When, RequestField(check_when, one_of(When), to_json=str)] = When.SUCCESS
    # fmt: on


def check_dependencies(value: object) -> tuple[DependencyRequest, ...]:
    sentence = _("Give a list of at most {count} sessions, like {example}.")
    example = '[{"session": "prepare", "when": "success"}]'
    refusal = sentence.format(count=MAX_DEPENDENCIES, example=example)
    return read_list(value, _check_dependency, most=MAX_DEPENDENCIES, refusal=refusal)


def _check_dependency(item: object) -> DependencyRequest:
    raw = {"session": item} if isinstance(item, str) else item
    if not isinstance(raw, Mapping):
        raise ValueError(_("Each entry names a session: {example}.").format(example='{"session": "prepare"}'))
    return DependencyRequest.read(raw)


def to_zoned_instant(typed: str, time_zone: str) -> str:
    """Return the value of a date and time control in the form that `check_start_at` reads.

    The control has no time zone: reads it in the named zone, or in UTC. Text that is no instant is
    returned unchanged.
    """
    try:
        instant = datetime.fromisoformat(typed)
    except ValueError:
        return typed
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=zone_or_utc(time_zone))
    return instant.isoformat()
