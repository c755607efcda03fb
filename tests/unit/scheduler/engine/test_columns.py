"""Lazily built rows behave like a tuple of rows."""

from typing import NamedTuple

import pytest

from scheduler.engine.columns import Columns, column_of


class Berth(NamedTuple):
    name: str
    length_m: int


ROWS = (Berth("north", 12), Berth("south", 8), Berth("pier", 30))


def berths() -> Columns[Berth]:
    return Columns(Berth, ["north", "south", "pier"], [12, 8, 30])


def test_they_are_read_as_a_tuple_is():
    rows = berths()
    assert (len(rows), list(rows), list(reversed(rows))) == (3, [*ROWS], [*reversed(ROWS)])
    assert (rows[0], rows[-1], rows[1:], rows[:1]) == (ROWS[0], ROWS[-1], ROWS[1:], ROWS[:1])
    assert rows[1].length_m == 8
    assert ROWS[2] in rows
    assert list(rows) == list(rows), "they can be read again"


def test_what_is_not_there_is_not_found():
    with pytest.raises(IndexError):
        berths()[3]
    assert not Columns(Berth, [], [])
    assert Columns(Berth, [], [])[:] == ()


def test_they_are_equal_to_equal_rows():
    assert berths() == berths()
    assert berths() == ROWS
    assert berths() == [*ROWS]
    assert berths() != ROWS[:2]
    assert berths() != 3
    assert Columns(Berth, [], []) != ""
    assert repr(berths()) == repr(ROWS)


def test_columns_are_as_long_as_each_other():
    with pytest.raises(ValueError, match="shorter"):
        list(Columns(Berth, ["north"], []))


@pytest.mark.parametrize("rows", [berths(), ROWS])
def test_one_column_is_read_alone(rows):
    assert list(column_of(rows, "length_m")) == [12, 8, 30]
