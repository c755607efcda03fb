"""The Range header, by example and by law."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfolders.core.http_range import ByteRange, UnsatisfiableRange, parse_range


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", ByteRange(0, 1)),
        ("bytes=2-5", ByteRange(2, 4)),
        ("bytes=2-", ByteRange(2, 8)),
        ("bytes=2-999", ByteRange(2, 8)),
        ("bytes=-3", ByteRange(7, 3)),
        ("bytes=-999", ByteRange(0, 10)),
        ("bytes=5-2", None),
        ("bytes=-", None),
        ("bytes=0-1,4-5", None),
        ("lines=0-1", None),
        ("bytes=٣-٤", None),
        ("", None),
    ],
)
def test_ranges_of_a_file_of_ten_bytes(header: str, expected: ByteRange | None) -> None:
    assert parse_range(header, 10) == expected


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-20", "bytes=-0"])
def test_a_range_behind_the_end_is_refused(header: str) -> None:
    with pytest.raises(UnsatisfiableRange):
        parse_range(header, 10)


@given(st.text(alphabet="bytes=-0123456789, "), st.integers(0, 2**63))
def test_a_range_never_reaches_outside_the_file(header: str, size_bytes: int) -> None:
    try:
        found = parse_range(header, size_bytes)
    except UnsatisfiableRange:
        return
    if found is not None:
        assert found.length >= 1
        assert found.start >= 0
        assert found.start + found.length <= size_bytes
