"""The page of a list that is asked for, and how many rows each of its tabs has."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Case, Count, OrderBy, Q, QuerySet, Value, When, Window

ROWS_PER_PAGE = 50
FIRST = ("", "1")


class CountedPaginator(Paginator[Any]):
    """A paginator that need not count: the tabs did."""

    def __init__(self, rows: Any, per_page: int, *, count: int) -> None:
        super().__init__(rows, per_page)
        self.count = count  # type: ignore[misc]  # a cached property, filled


def page_of_keys(
    rows: QuerySet[Any],
    tabs: Mapping[str, Q],
    tab: str,
    order: Sequence[OrderBy],
    number: str,
    *,
    reads_all: bool,
) -> tuple[Page[Any], dict[str, int]]:
    """The keys of the page `number` of one of `tabs`, and the count of each. Two queries; where the first page needs all rows
    read to put them in order, one that does both."""
    counted = {f"tab_{name}": Count("pk", filter=condition) for name, condition in tabs.items()}
    found = _first_page(rows, counted, tabs[tab], order) if reads_all and number in FIRST else []
    counts = found[0] if found else rows.order_by().aggregate(**counted)
    keys = rows.filter(tabs[tab]).order_by(*order).values_list("pk", flat=True)
    paginator = CountedPaginator(keys, ROWS_PER_PAGE, count=counts[f"tab_{tab}"])
    page = paginator.get_page(number)
    page.object_list = [row["pk"] for row in found[: paginator.count]] if found else list(page.object_list)
    return page, {name: counts[f"tab_{name}"] for name in tabs}


def _first_page(
    rows: QuerySet[Any], counted: Mapping[str, Count], tab: Q, order: Sequence[OrderBy]
) -> list[dict[str, Any]]:
    """Rows of the tab, then others, each with the counts of all tabs; none where there is none in any tab."""
    first = [Case(When(tab, then=Value(0)), default=Value(1))] if tab else []
    over_all = {name: Window(count) for name, count in counted.items()}
    return list(rows.order_by(*first, *order).values("pk", **over_all)[:ROWS_PER_PAGE])
