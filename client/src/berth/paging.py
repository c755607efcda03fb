"""Requests that the parts of the REST API share: iterate over lists, get, create and change."""

from collections.abc import Iterator
from typing import Any, TypeVar

from berth.decoding import Record, decode
from berth.errors import UnexpectedAnswer
from berth.transport import Transport, json_of, new_key

PAGE_SIZE = 200

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
        return decode(kind, json_of(self._transport.request(method, path, json=body, headers=headers)))
