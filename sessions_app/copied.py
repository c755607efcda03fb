"""Sessions that ask for the same: all but the first are copies of its rows. And what no two sessions share."""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any
from uuid import UUID, uuid4

from django.utils.translation import gettext as _

from common.copies import copy_rows
from common.errors import InvalidInput
from sessions_app.holds import Standing
from sessions_app.models import (
    ComputeSession,
    Kernel,
    SessionCallback,
    SessionDependency,
    SessionMount,
    SessionTransition,
)
from sessions_app.requests import SessionRequest

OWN_FIELDS = ("name", "command", "environment")
"""What each of a request's likes may have of its own."""
_shared = attrgetter(*(each.name for each in fields(SessionRequest) if each.name not in OWN_FIELDS))
STEP = timedelta(microseconds=1)
"""From one to the next, so that they stand in lists and in the queue in their order."""


@dataclass(frozen=True, slots=True)
class Element:
    """One of an array: its index, where it stands, and until when it may wait there."""

    index: int
    standing: Standing
    deadline_at: datetime | None


def check_alike(requests: Sequence[SessionRequest]) -> None:
    """Raises InvalidInput for a name that comes twice, ValueError for none and for what else differs."""
    if not requests:
        raise ValueError("No session was asked for.")
    if any(_shared(each) != _shared(requests[0]) for each in requests):
        raise ValueError(f"They may differ in {OWN_FIELDS} alone.")
    seen: set[str] = set()
    for each in requests:
        if each.name in seen:
            sentence = _("The name “{name}” comes twice. Give each session a name of its own.")
            sentence = sentence.format(name=each.name)
            raise InvalidInput(sentence, fields={"name": [sentence]})
        seen.add(each.name)


def copy_session(
    session: ComputeSession, requests: Sequence[SessionRequest], elements: Sequence[Element] = ()
) -> dict[UUID, str]:
    """A session for each of these requests, which are like that of `session`, in the transaction that wrote it; their names
    by id, in this order. `elements`: what each is in the array of `session`, if it has one. 5 statements, one more with a callback."""
    if not requests:
        return {}
    ids = [uuid4() for _each in requests]
    copy_rows(
        ComputeSession,
        like={"id": session.pk},
        values={
            "id": ids,
            "name": [each.name for each in requests],
            "command": [each.command for each in requests],
            "environment": [dict(each.environment) for each in requests],
            "host_label": new_host_labels(len(requests)),
            "app_token": [new_app_token() for _each in requests],
            "created_at": [session.created_at + STEP * number for number in range(1, len(requests) + 1)],
            **_of_elements(elements),
        },
    )
    history = _told_of_elements(elements)
    copy_rows(SessionTransition, like={"session_id": session.pk}, values={"session_id": ids, **history})
    for part in (Kernel, SessionMount, SessionDependency):
        copy_rows(part, like={"session_id": session.pk}, values={"session_id": ids})
    if requests[0].callback_url:
        copy_rows(SessionCallback, like={"session_id": session.pk}, values={"session_id": ids})
    return dict(zip(ids, (each.name for each in requests), strict=True))


def _of_elements(elements: Sequence[Element]) -> dict[str, list[Any]]:
    if not elements:
        return {}
    return {
        "array_index": [each.index for each in elements],
        "held_for": [each.standing.hold.value for each in elements],
        "status_reason": [each.standing.reason.value for each in elements],
        "status_message": [each.standing.message for each in elements],
        "deadline_at": [each.deadline_at for each in elements],
    }


def _told_of_elements(elements: Sequence[Element]) -> dict[str, list[Any]]:
    if not elements:
        return {}
    return {
        "reason": [each.standing.reason.value for each in elements],
        "message": [each.standing.message for each in elements],
    }


def new_host_label() -> str:
    return new_host_labels(1)[0]


def new_host_labels(count: int) -> list[str]:
    """16 base32 characters each, 80 random bits: the part of an app host that names the session, never used again."""
    letters = base64.b32encode(secrets.token_bytes(10 * count)).decode().lower()
    return [letters[first : first + 16] for first in range(0, len(letters), 16)]


def new_app_token() -> str:
    """48 hexadecimal digits, which the apps of one session ask for."""
    return secrets.token_hex(24)
