"""Lists for people: what an address asks of one, and what its tabs, filters, head and foot then show.

A list is declared once as a `Table`. A `Listing` is that table as one query string wants it: tab, search, filters, sort and
page are all in the address, so that each of them is a link and works without scripts. A filter lets through what fits any of
its values; what is shown fits all filters. Values that nobody offers choose nothing; unknown tabs, sorts and pages fall back to the usual ones. Labels are declared in English, marked by gettext_noop; a
listing has them in the reader's language.
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
ANY = "*"  # in an address: not even what the filter would hold by itself
SHORT_LABEL = 14
MOST_BOXES = 30  # more choices than these are typed, and completed
Choices = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Column:
    """`order`: fields or expressions to sort by; without any it is no link. A column without a label holds actions. `is_fixed`: cannot be
    hidden; `is_usual`: shown until the person chooses otherwise; `tab`: the only one whose rows have something to say there."""

    name: str
    label: str
    order: tuple[str | Func, ...] = ()
    is_number: bool = False
    is_fixed: bool = False
    is_usual: bool = True
    tab: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """`condition`: what rows must match for a value of the address. `is_typed`: a text, not one of some choices; `is_single`:
    at most one of them."""

    name: str
    label: str
    condition: Callable[[str], Q]
    is_typed: bool = False
    is_single: bool = False


@dataclass(frozen=True, slots=True)
class Tab:
    """`sort`: what it is sorted by, where that is not what its table is sorted by."""

    name: str
    label: str
    condition: Q
    sort: str = ""


ALL = Tab("all", gettext_noop("All"), Q())


@dataclass(frozen=True, slots=True)
class Table:
    """`sort` is the name of a column, with a dash before it for the largest first; `noun` is for many."""

    name: str
    noun: str
    columns: tuple[Column, ...]
    sort: str
    search: Callable[[str], Q]
    search_label: str
    filters: tuple[Filter, ...] = ()
    tabs: tuple[Tab, ...] = (ALL,)


_tables: dict[str, Table] = {}


def declare(table: Table) -> Table:
    """Make `table` known by its name, so that people can choose its columns."""
    _tables[table.name] = table
    return table


def table_named(name: str) -> Table:
    """Raises NotFound."""
    if name not in _tables:
        raise NotFound(_("There is no list called {name}.").format(name=quoted(name, 40)))
    return _tables[name]


def choices_of(**lists: tuple[QuerySet[Any], str | Func, str | Func]) -> dict[str, Choices]:
    """{name: choices} of (rows, their value, their label), each by label, without what comes twice. One query for all."""
    whole, *others = (
        rows.order_by()
        .annotate(of=Value(name), choice=_field(value), said=_field(label))
        .values_list("of", "choice", "said")
        for name, (rows, value, label) in lists.items()
    )
    choices: dict[str, list[tuple[str, str]]] = {name: [] for name in lists}
    for name, choice, said in whole.union(*others).order_by("said", "choice"):
        choices[name].append((choice, said))
    return dict(choices)


class Head(list[dict[str, Any]]):
    """The columns that are shown, as includes/table_head.html takes them; rows show the same by `{% cell "name" %}`."""

    @cached_property
    def cells(self) -> tuple[tuple[str, SafeString], ...]:
        """How the cells of each column begin: ((name of the column, HTML), …)."""
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
    """One table as `asked` wants it. `chosen` are the columns that the person switched: {name: whether it is shown}."""

    def __init__(
        self,
        table: Table,
        asked: QueryDict,
        *,
        chosen: Mapping[str, bool] | None = None,
        without: Iterable[str] = (),
        tabs: Sequence[Tab] = (),
        usual: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`without` names columns and filters that are not for this person; `tabs` replace the table's where what they hold
        depends on who asks; `usual` are {filter: values} where the address says nothing of that filter."""
        left_out = set(without)
        self.table = table
        self._asked = asked
        self._filters = [each for each in table.filters if each.name not in left_out]
        self._chosen = chosen or {}
        self.search = _text(asked, "q")
        self._usual = {name: tuple(given) for name, given in (usual or {}).items() if given}
        values = {each.name: self._values_of(each) for each in self._filters}
        self.values = {name: given for name, given in values.items() if given}
        wanted = asked.get("tab", "")
        self._tabs = tabs or table.tabs
        self.tab = next((tab for tab in self._tabs if tab.name == wanted), self._tabs[0])
        self._columns = [
            column
            for column in table.columns
            if column.name not in left_out and column.tab in ("", self.tab.name)
        ]
        self.choices: dict[str, Choices] = {}

    # What rows there are

    def matching(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Those that search and filters let through, of all tabs."""
        for each in self._filters:
            if each.name in self.values:
                rows = rows.filter(reduce(or_, map(each.condition, self.values[each.name])))
        return rows.filter(self.table.search(self.search)) if self.search else rows

    def of_tab(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Of these the ones of the chosen tab, in order."""
        return self.matching(rows).filter(self.tab.condition).order_by(*self._order())

    def page(self, rows: QuerySet[Any], parts: Callable[[Any], Any]) -> Page[Any]:
        """The page that is asked for; `parts` adds what its rows show. At most 3 queries, of which only the last, for the rows
        of this page, reads more than a key and what is sorted by; and those of `parts`."""
        page, self._counts = page_of_keys(
            self.matching(rows),
            {tab.name: tab.condition for tab in self._tabs},
            self.tab.name,
            self._order(),
            self._asked.get("page", ""),
            reads_all=bool(self.search) and not self._is_in_usual_order,
        )
        found = {row.pk: row for row in parts(rows.filter(pk__in=page.object_list))}
        page.object_list = [found[key] for key in page.object_list if key in found]
        return page

    # What the templates show

    @property
    def noun(self) -> str:
        return _(self.table.noun)

    @property
    def search_label(self) -> str:
        return _(self.table.search_label)

    @property
    def tabs(self) -> list[dict[str, Any]]:
        """As includes/tabs.html takes them; none where there is only one. After `page`."""
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
        column, is_descending = self._sort
        return Head(
            {
                "name": each.name,
                "label": each.label and _(each.label),
                "is_number": each.is_number,
                "url": self._sort_address(each) if each.order else "",
                "direction": ("descending" if is_descending else "ascending") if each is column else "",
            }
            for each in self._columns
            if self._is_shown(each)
        )

    @property
    def column_choices(self) -> list[dict[str, Any]]:
        """What can be shown and hidden: [{"name", "label", "is_shown"}]."""
        return [
            {"name": each.name, "label": _(each.label), "is_shown": self._is_shown(each)}
            for each in self._columns
            if not each.is_fixed
        ]

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The filters as fields: [{"name", "label", "value", "choices": [(value, label, is_chosen)], "completions": options of
        what can be typed besides, "is_typed", "is_single", "has_usual", "is_short": the labels fit beside each other}].
        A value that is not offered (any more) is offered nevertheless, so that the form keeps it."""
        return [
            {
                "name": each.name,
                "label": _(each.label),
                "value": next(iter(self.values.get(each.name, ())), ""),
                "choices": self._offered(each),
                "completions": self._completions(each),
                "is_typed": each.is_typed,
                "is_single": each.is_single,
                "has_usual": each.name in self._usual,
                "is_short": all(
                    len(label) <= SHORT_LABEL for _value, label in self.choices.get(each.name, ())
                ),
            }
            for each in self._filters
            if each.is_typed or self.choices.get(each.name) or each.name in self.values
        ]

    @property
    def chips(self) -> list[dict[str, str]]:
        """What narrows the list now, each with the address without it: [{"label", "value", "url"}]."""
        chips = [
            {
                "label": _(each.label),
                "value": dict(self.choices.get(each.name, ())).get(value, value),
                "url": self.address(**{each.name: [other for other in given if other != value]}),
            }
            for each in self._filters
            for given in (self.values.get(each.name, ()),)
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
        """The same tab and order, without search and filters."""
        return self.address(q="", **{each.name: [] for each in self._filters})

    @property
    def kept(self) -> dict[str, str]:
        """What a form of search and filters must send along: {name: value}."""
        return {name: value for name in ("tab", "sort") if (value := self._asked.get(name, ""))}

    @property
    def query(self) -> str:
        """The query string of what is shown, without the page; for exports and for the way back."""
        return self.address().removeprefix("?")

    def address(self, **changes: str | Sequence[str]) -> str:
        """This list with other parameters, on its first page; "" or no value takes one away."""
        asked = QueryDict(mutable=True)
        now: dict[str, str | Sequence[str]] = {**self.kept, "q": self.search, **self.values}
        order = dict.fromkeys((*self._asked, *now, *changes))
        for name in (name for name in order if name in now or name in changes):
            values = changes.get(name, now.get(name, ()))
            given = [values] if isinstance(values, str) else list(values)
            if name in self._usual and not any(given):
                given = [ANY]
            asked.setlist(name, [value for value in given if value])
        return f"?{asked.urlencode(safe=ANY)}"

    # Inside

    @property
    def _sort(self) -> tuple[Column, bool]:
        for wanted in (self._asked.get("sort", ""), self.tab.sort, self.table.sort):
            name = wanted.removeprefix("-")
            for column in self.table.columns:
                if column.name == name and column.order:
                    return column, wanted.startswith("-")
        raise ValueError(f"The list {self.table.name} has no column {self.table.sort} to sort by.")

    @property
    def _is_in_usual_order(self) -> bool:
        """That is an index's: the first rows of it are found without reading the others."""
        column, is_descending = self._sort
        return (self.tab.sort or self.table.sort) == f"{'-' * is_descending}{column.name}"

    def _order(self) -> list[OrderBy]:
        column, is_descending = self._sort
        fields = [_field(field) for field in (*column.order, "pk")]
        return [OrderBy(field, descending=is_descending) for field in fields]

    def _sort_address(self, column: Column) -> str:
        """Click once for the usual direction of that column, again for the other."""
        current, is_descending = self._sort
        if column is current:
            return self.address(sort=column.name if is_descending else f"-{column.name}")
        return self.address(sort=f"-{column.name}" if column.is_number else column.name)

    def _is_shown(self, column: Column) -> bool:
        return column.is_fixed or self._chosen.get(column.name, column.is_usual)

    def _has_many(self, each: Filter) -> bool:
        return len(self.choices.get(each.name, ())) > MOST_BOXES

    def _offered(self, each: Filter) -> list[tuple[str, str, bool]]:
        """What has a box: all there is, or where that is much, what is chosen."""
        chosen = self.values.get(each.name, ())
        labels = dict(self.choices.get(each.name, ()))
        values = chosen if self._has_many(each) else dict.fromkeys((*chosen, *labels))
        offered = [(value, labels.get(value, value), value in chosen) for value in values]
        return [("", _("Any"), not chosen), *offered] if each.is_single else offered

    def _completions(self, each: Filter) -> SafeString:
        return _options(tuple(self.choices[each.name])) if self._has_many(each) else SafeString("")

    def _values_of(self, each: Filter) -> tuple[str, ...]:
        if each.name not in self._asked and each.name in self._usual:
            return self._usual[each.name]
        given = [_cleaned(value) for value in self._asked.getlist(each.name)[:MOST_VALUES]]
        values = tuple(dict.fromkeys(value for value in given if value and value != ANY))
        return values[:1] if each.is_typed or each.is_single else values


def _field(it: str | Func) -> F | Func:
    return F(it) if isinstance(it, str) else it


@lru_cache(maxsize=32)
def _options(choices: tuple[tuple[str, str], ...]) -> SafeString:
    """Drawn here and kept, since some hundred of them are a fifth of a template's time."""
    return format_html_join("", '<option value="{}">{}</option>', choices)


def _text(asked: QueryDict, name: str) -> str:
    return _cleaned(asked.get(name, ""))


def _cleaned(value: str) -> str:
    return normalised(value).strip()[:MAX_VALUE_LENGTH]
