"""Addresses below /dav/."""

import pytest

from vfolders.core.paths import UnsafePath
from vfolders.webdav.addresses import Address, OtherServer, parse_address, parse_reference

HOSTS = frozenset({"berth.example:8080"})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", Address()),
        ("data", Address("", "data")),
        ("data/", Address("", "data")),
        ("data/a/b.txt", Address("", "data", ("a", "b.txt"))),
        ("@vision", Address("@vision")),
        ("@vision/data/a", Address("@vision", "data", ("a",))),
        ("data/%2e%2e", Address("", "data", ("%2e%2e",))),
    ],
)
def test_an_address_names_a_folder_or_an_entry(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["/", "//", "/etc", "data//a", "data/..", "../x", "data/./a", "data/a\0", "x" * 4000, "data/�"]
)
def test_an_address_never_leaves_the_folders(text: str) -> None:
    with pytest.raises(UnsafePath):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("http://berth.example:8080/dav/data/a%3Fb%3Bc%23d", ("a?b;c#d",)),
        ("https://me:token@BERTH.example:8080/dav/data/a;b", ("a;b",)),
        ("/dav/data/%252e%252e", ("%2e%2e",)),
        ("/dav/data/caf%C3%A9/", ("café",)),
    ],
)
def test_a_destination_is_decoded_once(text: str, path: tuple[str, ...]) -> None:
    found = parse_reference(text, HOSTS)
    assert (found.folder, found.path) == ("data", path)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("http://other.example/dav/data/a", OtherServer),
        ("//other.example/dav/data/a", OtherServer),
        ("ftp://berth.example:8080/dav/data/a", OtherServer),
        ("/api/v1/folders/", OtherServer),
        ("/dav/../etc/passwd", UnsafePath),
        ("/dav/data/%2e%2e/%2e%2e/x", UnsafePath),
        ("/dav/data/a%00", UnsafePath),
        ("/dav/data/%ff", UnsafePath),
        ("/dav/data/a?b", UnsafePath),
        ("http://[/dav/data/a", UnsafePath),
    ],
)
def test_a_wrong_destination_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_reference(text, HOSTS)


def test_an_address_is_written_as_it_is_read() -> None:
    address = Address("@a.b@berth.example", "data", ("ä b?", "c%20;#"))
    href = address.href(is_directory=False)
    assert parse_reference(href, HOSTS) == address
    assert address.href(is_directory=True) == f"{href}/"
