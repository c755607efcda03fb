"""Iterate over paginated REST lists."""

from collections.abc import Iterator
from typing import Any, TypeVar

from berth.decoding import Record, decode
from berth.errors import UnexpectedAnswer
from berth.transport import Transport

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
