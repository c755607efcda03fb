"""Tables on pages: declaration of columns, filters and tabs, and their state as given by the query
string.

A list is declared once as a `Table`. A `Listing` is that table for one query string: tab, search,
filters, sort and page are all in the address, so that each is a link and works without scripts. A
row passes a filter if it matches any of its values, and is shown if it passes all filters. Unknown
filter values match nothing; unknown tabs, sorts and pages fall back to the defaults. Labels are
declared in English, marked by gettext_noop; a listing translates them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import or_
from typing import Any

from django.core.paginator import Page
from django.db.models import F, Func, OrderBy, Q, QuerySet, Value
from django.http import QueryDict
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.db.pagination import page_of_keys
from common.errors import NotFound
from common.values.text import normalised, quoted

MAX_VALUE_LENGTH = 100
MOST_VALUES = 20
ANY = "*"  # in an address: no value, not even the filter's default
SHORT_LABEL = 14
MOST_BOXES = 30  # with more choices, a text field with completion is shown
Choices = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table. `order`: fields or expressions to sort by; without any it cannot be
    sorted. A column without a label holds actions. `is_fixed`: cannot be hidden; `is_usual`: shown
    by default; `tab`: the only tab that shows it.
    """

    name: str
    label: str
    order: tuple[str | Func, ...] = ()
    is_number: bool = False
    is_fixed: bool = False
    is_usual: bool = True
    tab: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter of a table. `condition`: condition for a value of the address. `is_typed`: free text
    instead of choices; `is_single`: at most one value.
    """

    name: str
    label: str
    condition: Callable[[str], Q]
    is_typed: bool = False
    is_single: bool = False


@dataclass(frozen=True, slots=True)
class Tab:
    """Tab of a table. `sort`: default sort of the tab, if not that of its table."""

    name: str
    label: str
    condition: Q
    sort: str = ""


ALL = Tab("all", gettext_noop("All"), Q())


@dataclass(frozen=True, slots=True)
class Table:
    """Declaration of a list. `sort`: a column, with a dash for descending; `noun`: plural."""

    name: str
    noun: str
    columns: tuple[Column, ...]
    sort: str
    search: Callable[[str], Q]
    search_label: str
    filters: tuple[Filter, ...] = ()
    tabs: tuple[Tab, ...] = (ALL,)


_tables: dict[str, Table] = {}


def define_table(table: Table) -> Table:
    """Register `table` by its name, so that users can choose its columns."""
    _tables[table.name] = table
    return table


def find_table(name: str) -> Table:
    """Return the table of this name. Raises NotFound."""
    if name not in _tables:
        raise NotFound(_("There is no list called {name}.").format(name=quoted(name, 40)))
    return _tables[name]


def choices_of(**lists: tuple[QuerySet[Any], str | Func, str | Func]) -> dict[str, Choices]:
    """Return {name: choices} from {name: (rows, value, label)}, sorted by label. One query."""
    whole, *others = (
        rows.order_by()
        .annotate(list_name=Value(name), choice=_field(value), choice_label=_field(label))
        .values_list("list_name", "choice", "choice_label")
        for name, (rows, value, label) in lists.items()
    )
    choices: dict[str, list[tuple[str, str]]] = {name: [] for name in lists}
    for name, choice, label in whole.union(*others).order_by("choice_label", "choice"):
        choices[name].append((choice, label))
    return dict(choices)


class Head(list[dict[str, Any]]):
    """Visible columns for includes/table_head.html and `{% cell "name" %}`."""

    @cached_property
    def cells(self) -> tuple[tuple[str, SafeString], ...]:
        """Opening tags of the cells of each column: ((column name, HTML), …)."""
        return tuple((column["name"], _opening(**column)) for column in self)

    @cached_property
    def shown(self) -> frozenset[str]:
        return frozenset(column["name"] for column in self)


def _opening(*, name: str, label: str, is_number: bool = False, **_others: object) -> SafeString:
    css_class = f"col-{name} is-number" if is_number else f"col-{name}"
    if not label:
        return format_html('<td class="{}">', css_class)
    return format_html('<td class="{}" data-label="{}">', css_class, label)


class Listing:
    """Table in the state of the query string `query`. `chosen`: {column name: is it shown}."""

    def __init__(
        self,
        table: Table,
        query: QueryDict,
        *,
        chosen: Mapping[str, bool] | None = None,
        without: Iterable[str] = (),
        tabs: Sequence[Tab] = (),
        usual: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Parse `query`. `without` names columns and filters hidden from this user; `tabs` replaces
        the table's tabs if they depend on the user; `usual` are default values {filter: values} of
        filters that are absent from the address.
        """
        left_out = set(without)
        self.table = table
        self._query = query
        self._filters = [filter_ for filter_ in table.filters if filter_.name not in left_out]
        self._chosen = chosen or {}
        self.search = _text(query, "q")
        self._usual = {name: tuple(given) for name, given in (usual or {}).items() if given}
        values = {filter_.name: self._filter_values(filter_) for filter_ in self._filters}
        self.values = {name: given for name, given in values.items() if given}
        wanted = query.get("tab", "")
        self._tabs = tabs or table.tabs
        self.tab = next((tab for tab in self._tabs if tab.name == wanted), self._tabs[0])
        self._columns = [
            column
            for column in table.columns
            if column.name not in left_out and column.tab in ("", self.tab.name)
        ]
        self.choices: dict[str, Choices] = {}

    # Rows

    def matching(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Filter rows by search and filters, over all tabs."""
        for filter_ in self._filters:
            if filter_.name in self.values:
                rows = rows.filter(reduce(or_, map(filter_.condition, self.values[filter_.name])))
        return rows.filter(self.table.search(self.search)) if self.search else rows

    def of_tab(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Filter rows by search, filters and the chosen tab, in order."""
        return self.matching(rows).filter(self.tab.condition).order_by(*self._order())

    def page(self, rows: QuerySet[Any], parts: Callable[[Any], Any]) -> Page[Any]:
        """Return the requested page; `parts` adds the data that its rows show. At most 3 queries
        plus those of `parts`; only the last of them, for the rows of this page, reads more than
        keys and sort columns.
        """
        page, self._counts = page_of_keys(
            self.matching(rows),
            {tab.name: tab.condition for tab in self._tabs},
            self.tab.name,
            self._order(),
            self._query.get("page", ""),
            reads_all=bool(self.search) and not self._is_in_usual_order,
        )
        found = {row.pk: row for row in parts(rows.filter(pk__in=page.object_list))}
        page.object_list = [found[key] for key in page.object_list if key in found]
        return page

    # For templates

    @property
    def noun(self) -> str:
        return _(self.table.noun)

    @property
    def search_label(self) -> str:
        return _(self.table.search_label)

    @property
    def tabs(self) -> list[dict[str, Any]]:
        """Tabs for includes/tabs.html; empty if there is only one. Call after `page`."""
        if len(self._tabs) == 1:
            return []
        return [
            {
                "name": tab.name,
                "label": _(tab.label),
                "url": self.address(tab=tab.name),
                "count": self._counts[tab.name],
                "is_active": tab is self.tab,
            }
            for tab in self._tabs
        ]

    @cached_property
    def columns(self) -> Head:
        sorted_by, is_descending = self._sort
        return Head(
            {
                "name": column.name,
                "label": column.label and _(column.label),
                "is_number": column.is_number,
                "url": self._sort_address(column) if column.order else "",
                "direction": ("descending" if is_descending else "ascending") if column is sorted_by else "",
            }
            for column in self._columns
            if self._is_shown(column)
        )

    @property
    def column_choices(self) -> list[dict[str, Any]]:
        """Columns that can be shown and hidden: [{"name", "label", "is_shown"}]."""
        return [
            {"name": column.name, "label": _(column.label), "is_shown": self._is_shown(column)}
            for column in self._columns
            if not column.is_fixed
        ]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """Filters as form fields: [{"name", "label", "value", "choices": [(value, label,
        is_chosen)], "completions": options for a typed value, "is_typed", "is_single", "has_usual",
        "is_short": labels fit on one line}]. A value that is not among the choices (any more) is
        added, so that the form keeps it.
        """
        return [
            {
                "name": filter_.name,
                "label": _(filter_.label),
                "value": next(iter(self.values.get(filter_.name, ())), ""),
                "choices": self._offered(filter_),
                "completions": self._completions(filter_),
                "is_typed": filter_.is_typed,
                "is_single": filter_.is_single,
                "has_usual": filter_.name in self._usual,
                "is_short": all(
                    len(label) <= SHORT_LABEL for _value, label in self.choices.get(filter_.name, ())
                ),
            }
            for filter_ in self._filters
            if filter_.is_typed or self.choices.get(filter_.name) or filter_.name in self.values
        ]

    @property
    def chips(self) -> list[dict[str, str]]:
        """Active search and filters, with the address without it: [{"label", "value", "url"}]."""
        chips = [
            {
                "label": _(filter_.label),
                "value": dict(self.choices.get(filter_.name, ())).get(value, value),
                "url": self.address(**{filter_.name: [other for other in given if other != value]}),
            }
            for filter_ in self._filters
            for given in (self.values.get(filter_.name, ()),)
            for value in given
        ]
        if self.search:
            chips.insert(0, {"label": _("Search"), "value": self.search, "url": self.address(q="")})
        return chips

    @property
    def is_narrowed(self) -> bool:
        return bool(self.values or self.search)

    @property
    def clear_url(self) -> str:
        """Address with the current tab and order, without search and filters."""
        return self.address(q="", **{filter_.name: [] for filter_ in self._filters})

    @property
    def kept(self) -> dict[str, str]:
        """Hidden values that a search and filter form must send: {name: value}."""
        return {name: value for name in ("tab", "sort") if (value := self._query.get(name, ""))}

    @property
    def query(self) -> str:
        """Query string of the current state without the page; for exports and return addresses."""
        return self.address().removeprefix("?")

    def address(self, **changes: str | Sequence[str]) -> str:
        """Return the address of this list with changed parameters, on its first page; an empty
        value removes a parameter.
        """
        query = QueryDict(mutable=True)
        now: dict[str, str | Sequence[str]] = {**self.kept, "q": self.search, **self.values}
        order = dict.fromkeys((*self._query, *now, *changes))
        for name in (name for name in order if name in now or name in changes):
            values = changes.get(name, now.get(name, ()))
            given = [values] if isinstance(values, str) else list(values)
            if name in self._usual and not any(given):
                given = [ANY]
            query.setlist(name, [value for value in given if value])
        return f"?{query.urlencode(safe=ANY)}"

    # Private

    @property
    def _sort(self) -> tuple[Column, bool]:
        for wanted in (self._query.get("sort", ""), self.tab.sort, self.table.sort):
            name = wanted.removeprefix("-")
            for column in self.table.columns:
                if column.name == name and column.order:
                    return column, wanted.startswith("-")
        raise ValueError(f"The list {self.table.name} has no column {self.table.sort} to sort by.")

    @property
    def _is_in_usual_order(self) -> bool:
        """True for the default order, which an index provides without reading all rows."""
        column, is_descending = self._sort
        return (self.tab.sort or self.table.sort) == f"{'-' * is_descending}{column.name}"

    def _order(self) -> list[OrderBy]:
        column, is_descending = self._sort
        fields = [_field(field) for field in (*column.order, "pk")]
        return [OrderBy(field, descending=is_descending) for field in fields]

    def _sort_address(self, column: Column) -> str:
        """Return the sort link of a column: first its default direction, then the reverse."""
        current, is_descending = self._sort
        if column is current:
            return self.address(sort=column.name if is_descending else f"-{column.name}")
        return self.address(sort=f"-{column.name}" if column.is_number else column.name)

    def _is_shown(self, column: Column) -> bool:
        return column.is_fixed or self._chosen.get(column.name, column.is_usual)

    def _has_many(self, filter_: Filter) -> bool:
        return len(self.choices.get(filter_.name, ())) > MOST_BOXES

    def _offered(self, filter_: Filter) -> list[tuple[str, str, bool]]:
        """Return the checkbox choices: all, or only the chosen ones if there are many."""
        chosen = self.values.get(filter_.name, ())
        labels = dict(self.choices.get(filter_.name, ()))
        values = chosen if self._has_many(filter_) else dict.fromkeys((*chosen, *labels))
        offered = [(value, labels.get(value, value), value in chosen) for value in values]
        return [("", _("Any"), not chosen), *offered] if filter_.is_single else offered

    def _completions(self, filter_: Filter) -> SafeString:
        return _options(tuple(self.choices[filter_.name])) if self._has_many(filter_) else SafeString("")

    def _filter_values(self, filter_: Filter) -> tuple[str, ...]:
        if filter_.name not in self._query and filter_.name in self._usual:
            return self._usual[filter_.name]
        given = [_cleaned(value) for value in self._query.getlist(filter_.name)[:MOST_VALUES]]
        values = tuple(dict.fromkeys(value for value in given if value and value != ANY))
        return values[:1] if filter_.is_typed or filter_.is_single else values


def _field(name: str | Func) -> F | Func:
    return F(name) if isinstance(name, str) else name


@lru_cache(maxsize=32)
def _options(choices: tuple[tuple[str, str], ...]) -> SafeString:
    """Return <option> tags, cached: rendering hundreds takes a fifth of the template's time."""
    return format_html_join("", '<option value="{}">{}</option>', choices)


def _text(query: QueryDict, name: str) -> str:
    return _cleaned(query.get(name, ""))


def _cleaned(value: str) -> str:
    return normalised(value).strip()[:MAX_VALUE_LENGTH]
