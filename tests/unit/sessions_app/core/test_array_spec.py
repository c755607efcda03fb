"""Indices of an array specification."""

import pytest

from sessions_app.core.array_spec import HIGHEST_INDEX, LONGEST_SPEC, MAX_ELEMENTS, check_array
from sessions_app.core.request import parse_request


@pytest.mark.parametrize(
    ("text", "indices", "most"),
    [
        ("1-3", (1, 2, 3), None),
        ("1-3%2", (1, 2, 3), 2),
        (" 1-3 %2 ", (1, 2, 3), 2),
        ("0-9:3", (0, 3, 6, 9), None),
        ("0-8:3", (0, 3, 6), None),
        ("7", (7,), None),
        ("1,3, 7-9", (1, 3, 7, 8, 9), None),
        ("9,1", (9, 1), None),
        ("007", (7,), None),
        (f"{HIGHEST_INDEX}", (HIGHEST_INDEX,), None),
        ("1-2%999999999", (1, 2), MAX_ELEMENTS),
    ],
)
def test_indices_come_as_they_are_named(text: str, indices: tuple[int, ...], most: int | None) -> None:
    array = check_array(text)
    assert array is not None
    assert (array.indices, array.most_at_once, array.text) == (indices, most, text.strip())


@pytest.mark.parametrize("nothing", [None, ""])
def test_none_is_asked_for(nothing: object) -> None:
    assert check_array(nothing) is None


def test_the_largest_is_taken_and_one_more_is_not() -> None:
    array = check_array(f"0-{MAX_ELEMENTS - 1}")
    assert array is not None
    assert len(array.indices) == MAX_ELEMENTS
    with pytest.raises(ValueError, match=f"“0-{MAX_ELEMENTS}” has more than {MAX_ELEMENTS} elements"):
        check_array(f"0-{MAX_ELEMENTS}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("%5", "is no array"),
        ("1,,2", "is no array"),
        ("1 2", "is no array"),
        ("1-9999999999", "is no array"),
        ("1," * LONGEST_SPEC + "1", "is no array"),
        ("5-4", "names no index"),
        ("1-3:0", "names no index"),
        ("1-999999999", "has more than"),
        ("1000000", "too high"),
        ("1,2,1", "1 comes twice"),
        ("1-2%0", "no number of sessions at once"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_array(text)


def test_names_have_the_index_behind_them() -> None:
    array = check_array("1,10")
    assert array is not None
    assert array.names("train") == ["train-1", "train-10"]


def test_a_name_that_gets_too_long_is_refused() -> None:
    body = {"name": "x" * 61, "project": "p", "image": "i", "type": "batch", "command": "true"}
    resources = {"cpu": 1, "mem": "1g"}
    assert parse_request({**body, "resources": resources, "array": "1-99"}).array is not None
    with pytest.raises(Exception, match="longer than 64 characters") as refused:
        parse_request({**body, "resources": resources, "array": "1-100"})
    assert set(refused.value.fields) == {"name"}  # type: ignore[attr-defined]
