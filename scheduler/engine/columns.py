"""Rows that are made when they are read: of a long plan a hundred thousand small objects, of which its readers mostly want one column, and at which
Python's collector would look, for a tenth of the time of a pass."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, overload

Row = TypeVar("Row", bound=tuple[Any, ...])


class Columns(Sequence[Row], Generic[Row]):
    """Named tuples of one kind; equal to the same in a tuple or a list. Whose columns these are does not change them any more."""

    __slots__ = ("_columns", "_kind", "_make")

    def __init__(self, kind: type[Row], *columns: Sequence[Any]) -> None:
        """`columns`: what the rows have first, second and so on, of all in their order."""
        self._kind = kind
        self._make = partial(tuple.__new__, kind)  # in a third of the time that the class itself takes
        self._columns = columns

    def named(self, name: str) -> Sequence[Any]:
        return self._columns[self._kind._fields.index(name)]  # type: ignore[attr-defined]  # of named tuples

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[Row]:
        return map(self._make, zip(*self._columns, strict=True))

    @overload
    def __getitem__(self, which: int) -> Row: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, which: int | slice) -> Row | tuple[Row, ...]:
        if isinstance(which, slice):
            return tuple(map(self._make, zip(*[column[which] for column in self._columns], strict=True)))
        return self._make([column[which] for column in self._columns])

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (tuple, list, Columns)) else NotImplemented

    def __repr__(self) -> str:
        return repr(tuple(self))


def column_of(rows: Sequence[Row], name: str) -> Sequence[Any]:
    """What these have by that name, in their order: no row is made for it where they are columns."""
    return rows.named(name) if isinstance(rows, Columns) else [getattr(row, name) for row in rows]


def index_of(thing: object, among: Iterable[object]) -> int | None:
    """Return where this very object is."""
    return next((index for index, each in enumerate(among) if each is thing), None)
