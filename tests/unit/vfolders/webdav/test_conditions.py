"""The If header of WebDAV."""

import pytest

from vfolders.webdav.conditions import InvalidCondition, holds, parse_if, submitted_tokens

TOKEN = "urn:uuid:1"


def is_true(header: str, *, locked: str = TOKEN, etag: str = '"a"') -> bool:
    return holds(
        parse_if(header), lambda _address, token: token == locked, lambda _address, found: found == etag
    )


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", True),
        ("(<urn:uuid:1>)", True),
        ("(<urn:uuid:2>)", False),
        ("(<urn:uuid:2>) (<urn:uuid:1>)", True),
        ('(<urn:uuid:1> ["a"])', True),
        ('(<urn:uuid:1> ["b"])', False),
        ('(<urn:uuid:2>) (Not ["b"])', True),
        ("(Not <urn:uuid:1>)", False),
        ('(NOT <DAV:no-lock> ["a"])', True),
        ("</dav/data/x> (<urn:uuid:1>) (<urn:uuid:2>)", True),
        ('(["a"]) ([W/"x"])', True),
    ],
)
def test_one_list_must_hold(header: str, expected: bool) -> None:
    assert is_true(header) is expected


@pytest.mark.parametrize(
    "header",
    ["(", ")", "()", "x", "<a>", "(Not)", "(Not Not <a>)", "(<a>", '(["a)', "<a> <b", "(<a>) )", "(<a b>)"],
)
def test_what_is_no_if_header_is_refused(header: str) -> None:
    with pytest.raises(InvalidCondition):
        parse_if(header)


def test_lists_are_about_the_address_before_them() -> None:
    lists = parse_if("</a> (<t:1>) (<t:2>) </b> (Not <t:3>)")
    assert [each.address for each in lists] == ["/a", "/a", "/b"]
    assert submitted_tokens(lists) == {"t:1", "t:2", "t:3"}
