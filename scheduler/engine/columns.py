"""Column-wise sequences of named tuples whose rows are made when they are read.

A long plan has a hundred thousand rows of which readers mostly want one column; making them all
would cost a tenth of the time of a pass in garbage collection.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, overload

Row = TypeVar("Row", bound=tuple[Any, ...])


class Columns(Sequence[Row], Generic[Row]):
    """Sequence of named tuples of one kind, stored as columns; equal to a tuple or list of equal
    rows. The columns must not change any more.
    """

    __slots__ = ("_columns", "_kind", "_make")

    def __init__(self, kind: type[Row], *columns: Sequence[Any]) -> None:
        """`columns`: values of the first field, the second, and so on, each for all rows."""
        self._kind = kind
        self._make = partial(tuple.__new__, kind)  # a third of the time of calling the class
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
    """Return the values of one field for all rows; makes no rows if they are `Columns`."""
    return rows.named(name) if isinstance(rows, Columns) else [getattr(row, name) for row in rows]


def index_by_identity(thing: object, among: Iterable[object]) -> int | None:
    """Return the index of this object by identity; None if absent."""
    return next((index for index, each in enumerate(among) if each is thing), None)
