"""CSV export of lists: streamed to save memory, and safe to open in a spreadsheet."""

import csv
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from common.db.streaming import in_own_thread

MOST_ROWS = 50_000
ROWS_AT_ONCE = 500
# Spreadsheets run such cells as formulas, which can leak neighbouring cells.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
HIDDEN_FORMULA = re.compile(r"(;)(?=[=+\-@])")  # in locales with semicolon as separator

Row = Sequence[object]


def csv_response(
    name: str,
    head: Sequence[str],
    rows: QuerySet[Any],
    parts: Callable[[Any], Any],
    cells: Callable[[Any], Row],
) -> StreamingHttpResponse:
    """Return `rows` in order, at most MOST_ROWS, as file `name`. Keys are read now;
    the data of `parts` in batches of ROWS_AT_ONCE, as fast as the client reads.
    Rows deleted meanwhile are omitted.
    """
    keys = list(rows.values_list("pk", flat=True)[:MOST_ROWS])

    def read(some: Sequence[Any]) -> str:
        found = {row.pk: row for row in parts(rows.model._default_manager.filter(pk__in=some))}
        return as_csv(cells(found[key]) for key in some if key in found)

    async def stream() -> AsyncIterator[str]:
        yield as_csv([head])
        for some in _in_parts(keys):
            yield await in_own_thread(partial(read, some))

    return StreamingHttpResponse(
        stream(),
        content_type="text/csv; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, no-store",
        },
    )


def as_csv(rows: Iterable[Row]) -> str:
    lines = _Lines()
    csv.writer(lines).writerows([[_cell(value) for value in row] for row in rows])
    return "".join(lines)


class _Lines(list[str]):
    write = list.append


def _cell(value: object) -> object:
    """Return the value, or a text that no spreadsheet evaluates."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    value = HIDDEN_FORMULA.sub(r"\1'", value)
    return f"'{value}" if value.startswith(FORMULA_STARTS) else value


def _in_parts(keys: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(keys), ROWS_AT_ONCE):
        yield keys[start : start + ROWS_AT_ONCE]
