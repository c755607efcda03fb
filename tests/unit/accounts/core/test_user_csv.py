"""CSV files of users, valid and malformed."""

import pytest

from accounts.core.user_csv import MOST_BYTES, MOST_ROWS, ROW_FAULT, TEMPLATE, CsvRow, parse_user_csv
from common.pages.csv_export import as_csv

ADA = CsvRow(2, {"email": "ada@lab.example", "name": "Ada"})


@pytest.mark.parametrize(
    "content",
    [
        b"email,name\nada@lab.example,Ada\n",
        b"\xef\xbb\xbfE-Mail;Name\r\nADA@lab.example ; Ada\r\n\r\n;\r\n",
        b'name,email,,\n"Ada",ada@lab.example,,\n',
    ],
)
def test_one_person_is_read_from_any_spreadsheet(content: bytes) -> None:
    assert parse_user_csv(content) == [ADA]


def test_the_template_is_a_file_that_can_be_read() -> None:
    ada, grace = parse_user_csv(as_csv(TEMPLATE).encode())
    assert ada.projects == ["vision", "speech"]
    assert not ada.faults | grace.faults
    assert "role" not in grace.values


def test_what_exports_guard_against_formulas_comes_back_as_it_was() -> None:
    text = as_csv([("email", "name"), ("ada@lab.example", "=1+1")])
    assert "'=1+1" in text
    assert parse_user_csv(text.encode())[0].values["name"] == "=1+1"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfee\0m\0", "UTF-16"),
        (b"email,name\nada@lab.example,Andr\xe9\n", "Line 2 is not UTF-8 .byte 0xe9."),
        (b"", "must name the columns"),
        (b"name,role\nAda,user\n", "must name the columns"),
        (b"email,phone\nada@lab.example,1\n", "no column “phone”"),
        (b"email,e-mail\na@b.example,a@b.example\n", "there twice"),
        (b"email,name\n\n", "nobody below"),
        (b'email,name\n"ada"@lab.example,Ada\n', "is no CSV"),
        (b"email\n" + b"a@b.example\n" * (MOST_ROWS + 1), "at most 5000"),
        (b"a" * (MOST_BYTES + 1), "larger than 2 MiB"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused_with_the_reason(content: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_user_csv(content)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (b",Ada", "email"),
        (b"ada@lab.example," + b"a" * 121, "name"),
        (b"ada@lab.example,A\x00da", "name"),
        (b"a" * 255 + b",Ada", "email"),
        (b"ada@lab.example,Ada,more", ROW_FAULT),
    ],
)
def test_errors_of_a_row_are_reported_at_their_column(row: bytes, column: str) -> None:
    assert list(parse_user_csv(b"email,name\n" + row)[0].faults) == [column]


def test_an_address_that_is_there_twice_counts_once_in_any_letter_case() -> None:
    first, second = parse_user_csv(b"email\nada@lab.example\nADA@lab.example\n")
    assert not first.faults
    assert "row 2 already" in second.faults["email"]
