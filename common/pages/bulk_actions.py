"""Bulk actions: one operation on many objects, each on its own."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from common.audit.denied_requests import record_refused_request
from common.errors import BerthError, InvalidInput
from common.rest.actor import actor_of

MOST_AT_ONCE = 200
LONGEST_NUMBER = 18
RECORDED = frozenset((403, 404, 429))
Id = TypeVar("Id")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one object. `url` is "" if its page is gone."""

    name: str
    sentence: str
    is_done: bool
    url: str = ""


def chosen_ids(posted: QueryDict, name: str) -> list[UUID]:
    """Return the ids selected in a form, in order, without repeats. Raises InvalidInput for an
    invalid id, and for too many.
    """
    return _chosen(posted, name, UUID)


def chosen_numbers(posted: QueryDict, name: str) -> list[int]:
    """Return the selected ids like `chosen_ids`, for numeric ids."""
    return _chosen(posted, name, _number)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER:
        raise ValueError(text)
    return int(text)


def _chosen(posted: QueryDict, name: str, read: Callable[[str], Id]) -> list[Id]:
    try:
        ids = list(dict.fromkeys(read(value) for value in posted.getlist(name)))
    except ValueError as error:
        raise InvalidInput(
            _("One of the chosen things has no id."), hint=_("Reload the list and choose again.")
        ) from error
    if len(ids) > MOST_AT_ONCE:
        raise InvalidInput(
            _("You chose {count}; at most {most} at once.").format(count=len(ids), most=MOST_AT_ONCE),
            hint=_("Choose fewer of them."),
        )
    return ids


def run_bulk_action(
    request: HttpRequest,
    ids: Iterable[Id],
    act: Callable[[Id], str],
    object_name: Callable[[Id], str],
    object_url: Callable[[Id], str],
) -> list[Outcome]:
    """Call `act` on each id and return the outcomes; its result is the sentence shown. A refusal is
    an outcome too, and is recorded in the audit log if its status is in RECORDED.
    """
    outcomes = []
    for object_id in ids:
        try:
            outcomes.append(
                Outcome(object_name(object_id), act(object_id), is_done=True, url=object_url(object_id))
            )
        except BerthError as refusal:
            if refusal.http_status in RECORDED:
                request_line = f"{request.method} {request.path}"
                record_refused_request(
                    actor=actor_of(request),
                    request_line=request_line,
                    refusal=refusal,
                    target_label=object_name(object_id),
                )
            sentence = f"{refusal.message} {refusal.hint}".strip()
            outcomes.append(
                Outcome(object_name(object_id), sentence, is_done=False, url=object_url(object_id))
            )
    return outcomes


def done_count(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.is_done for outcome in outcomes)
