"""Cells of CSV files that a spreadsheet would calculate are exported as text."""

import csv
import io

import pytest

from common.pages.csv_export import as_csv


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@A1", "\t=1", "\r=1", "\n=1"])
def test_what_a_spreadsheet_would_calculate_is_text(text: str) -> None:
    (line,) = csv.reader(io.StringIO(as_csv([[text]]), newline=""))

    assert line == [f"'{text}"]


def test_other_values_are_as_they_are() -> None:
    assert as_csv([["a, b", 'say "x"', -1.5, None, ""]]) == '"a, b","say ""x""",-1.5,,\r\n'


def test_what_would_begin_a_cell_behind_a_semicolon_is_text_too() -> None:
    assert as_csv([["a;=1+1", "a;b"]]) == "a;'=1+1,a;b\r\n"
