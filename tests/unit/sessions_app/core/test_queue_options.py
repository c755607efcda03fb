"""Queue options of a request: valid and refused values."""

from datetime import UTC, datetime

import pytest

from common.errors import InvalidInput
from sessions_app.core.queue_options import (
    DependencyRequest,
    When,
    check_dependencies,
    check_pending_timeout,
    check_start_at,
    to_zoned_instant,
)
from sessions_app.core.request import parse_request

EIGHT = datetime(2027, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "typed",
    ["2027-01-31T08:00Z", "2027-01-31 09:00+01:00", " 2027-01-31T08:00:00.000+00:00 ", "20270131T080000Z"],
)
def test_an_instant_with_its_zone_is_read(typed: str) -> None:
    assert check_start_at(typed) == EIGHT


@pytest.mark.parametrize("typed", [None, ""])
def test_none_is_none(typed: object) -> None:
    assert check_start_at(typed) is None
    assert check_pending_timeout(typed) is None


@pytest.mark.parametrize(
    "typed",
    ["2027-01-31T08:00", "soon", 7, ["x"], True, "2027-02-30T08:00Z", "9999-12-31T23:59-14:00", "1" * 5000],
)
def test_what_is_no_instant_is_refused(typed: object) -> None:
    with pytest.raises(ValueError, match="is no instant"):
        check_start_at(typed)


@pytest.mark.parametrize(
    ("typed", "zone", "read"),
    [
        ("2027-01-31T09:00", "Europe/Berlin", EIGHT),
        ("2027-01-31T17:00", "Asia/Seoul", EIGHT),
        ("2027-01-31T08:00", "", EIGHT),
        ("2027-01-31T08:00", "Nowhere/Land", EIGHT),
        ("2027-01-31T08:00", "../../etc/passwd", EIGHT),
        ("2027-01-31T08:00", "Europe", EIGHT),
        ("2027-01-31T09:00+01:00", "Asia/Seoul", EIGHT),
    ],
)
def test_a_control_of_a_page_is_read_in_the_zone_of_its_reader(typed: str, zone: str, read: datetime) -> None:
    assert check_start_at(to_zoned_instant(typed, zone)) == read


def test_what_is_no_instant_stays_as_it_was_typed() -> None:
    assert to_zoned_instant("soon", "Europe/Berlin") == "soon"


@pytest.mark.parametrize(("typed", "read"), [(1, 1), ("60", 60), (2592000, 2592000)])
def test_a_time_to_wait_is_read(typed: object, read: int) -> None:
    assert check_pending_timeout(typed) == read


@pytest.mark.parametrize("typed", [0, -1, 1.5, "soon", 2592001, True, [1], "9" * 5000])
def test_what_is_no_time_to_wait_is_refused(typed: object) -> None:
    with pytest.raises(ValueError, match="is no time to wait"):
        check_pending_timeout(typed)


def test_others_are_read_as_names_or_with_the_way_they_end() -> None:
    asked = ["prepare", {"session": " load "}, {"session": "test", "when": "failure"}]
    assert check_dependencies(asked) == (
        DependencyRequest("prepare"),
        DependencyRequest("load"),
        DependencyRequest("test", When.FAILURE),
    )
    assert check_dependencies(None) == ()


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ("prepare", "dependencies", "a list of at most 32"),
        (["x"] * 33, "dependencies", "a list of at most 32"),
        ([7], "dependencies.0", "names a session"),
        (["a", {"session": "b", "wen": "any"}], "dependencies.1.wen", "when"),
        ([{"when": "any"}], "dependencies.0.session", ""),
        ([{"session": "  "}], "dependencies.0.session", "by name or id"),
        ([{"session": "x" * 65}], "dependencies.0.session", "64"),
        ([{"session": "a", "when": "later"}], "dependencies.0.when", "success, any or failure"),
        ([{"session": "a", "when": ["any"]}], "dependencies.0.when", "success, any or failure"),
    ],
)
def test_what_names_no_other_is_refused_at_its_place(asked: object, field: str, words: str) -> None:
    body = {"name": "a", "project": "p", "image": "i", "resources": {"cpu": 1, "mem": "1g"}}
    with pytest.raises(InvalidInput) as refusal:
        parse_request({**body, "dependencies": asked})
    assert list(refusal.value.fields) == [field]
    assert words in refusal.value.fields[field][0]
