"""Rows that are made when they are read. A long plan would else be a hundred thousand small objects that nobody may ever look at, but Python's
collector does: a tenth of the time of a pass."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, overload

Row = TypeVar("Row", bound=tuple[Any, ...])


class Columns(Sequence[Row], Generic[Row]):
    """As a tuple of such named tuples; equal to a sequence with equal ones. Whose columns these are does not change them any more."""

    __slots__ = ("_columns", "_make")
    __hash__ = None  # type: ignore[assignment]  # its columns are lists

    def __init__(self, kind: type[Row], *columns: Sequence[Any]) -> None:
        """`columns`: what the rows have first, second and so on, of all in their order."""
        self._make = partial(tuple.__new__, kind)  # in a third of the time that the class itself takes
        self._columns = columns

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
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))
