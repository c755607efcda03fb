"""One page of a list, and the row counts of its tabs."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Case, Count, OrderBy, Q, QuerySet, Value, When, Window

ROWS_PER_PAGE = 50
FIRST = ("", "1")


class CountedPaginator(Paginator[Any]):
    """Paginator with a known count."""

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
    """Return the keys of page `number` of tab `tab`, and the count of each tab. Two queries; one if
    `reads_all` (ordering reads all rows anyway) and the first page is requested.
    """
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
    """Return rows of the tab, then others, with the counts of all tabs; empty without rows."""
    first = [Case(When(tab, then=Value(0)), default=Value(1))] if tab else []
    over_all = {name: Window(count) for name, count in counted.items()}
    return list(rows.order_by(*first, *order).values("pk", **over_all)[:ROWS_PER_PAGE])
