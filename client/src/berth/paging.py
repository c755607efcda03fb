"""Requests that the parts of the REST API share: iterate over lists, get, create and change."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from berth.decoding import Record, decode
from berth.errors import InvalidInput, NotFound, UnexpectedAnswer
from berth.transport import Transport, new_key, parse_json

PAGE_SIZE = 200

NEAREST_FIRST = ("own", "project", "domain", "everybody")

R = TypeVar("R", bound=Record)


def iterate(
    transport: Transport, path: str, kind: type[R], *, given: Any = None, **params: Any
) -> Iterator[R]:
    """Yield all items of a list; fetches each page when it is needed."""
    number = 1
    while True:
        page = transport.get_json(path, **params, page=number, page_size=PAGE_SIZE)
        try:
            rows, has_more = page["results"], page["next"] is not None
        except (KeyError, TypeError) as exc:
            raise UnexpectedAnswer(f"The portal sent no list at {path}.") from exc
        for row in rows:
            yield decode(kind, row, **(given or {}))
        if not has_more:
            return
        number += 1


class Endpoint:
    """Base of the parts of the REST API."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _get(self, kind: type[R], path: str, /, **params: Any) -> R:
        return decode(kind, self._transport.get_json(path, **params))

    def _send(self, kind: type[R], method: str, path: str, body: object = None, *, is_new: bool = False) -> R:
        """Return the decoded answer to a request; `is_new` adds an idempotency key."""
        headers = new_key() if is_new else None
        return decode(kind, parse_json(self._transport.request(method, path, json=body, headers=headers)))


def find_nearest(offered: Iterable[R], text: str, noun: str) -> R:
    """Find an item by name or id, in the order of NEAREST_FIRST. Raises NotFound, InvalidInput."""
    found = [one for one in offered if text in (one.raw["name"], str(one.raw["id"]))]
    if not found:
        raise NotFound(f"There is no {noun} “{text[:80]}”.", hint=f"Which there are: berth {noun} list.")
    found.sort(key=lambda one: NEAREST_FIRST.index(one.raw["sharing"]))
    nearest = [one for one in found if one.raw["sharing"] == found[0].raw["sharing"]]
    if len(nearest) > 1:
        ids = ", ".join(f"{one.raw['id']} ({one.raw['project'] or one.raw['domain']})" for one in nearest)
        raise InvalidInput(f"Several {noun}s are called “{text[:80]}”: {ids}.", hint="Use one of the ids.")
    return nearest[0]
