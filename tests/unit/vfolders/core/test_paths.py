"""Paths inside a folder, by example."""

import pytest

from vfolders.core.paths import (
    MAX_DEPTH,
    ROOT,
    UnsafePath,
    check_new_name,
    display_name,
    is_addressable,
    numbered_name,
    parse_automatic_name,
    parse_directory,
    parse_path,
)


@pytest.mark.parametrize(
    ("text", "components"),
    [
        ("a", ("a",)),
        ("data/train.csv", ("data", "train.csv")),
        ("…/데이터/über uns.txt", ("…", "데이터", "über uns.txt")),
        ("%2e%2e/x", ("%2e%2e", "x")),
        ("a\\..\\b", ("a\\..\\b",)),
        (".hidden/...", (".hidden", "...")),
        ("a\nb/-rf/\t'\"", ("a\nb", "-rf", "\t'\"")),
        ("x" * 255, ("x" * 255,)),
    ],
)
def test_names_are_taken_as_they_are(text: str, components: tuple[str, ...]) -> None:
    assert parse_path(text) == components


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/etc/passwd",
        "//a",
        ".",
        "..",
        "../a",
        "a/..",
        "a/../b",
        "a/./b",
        "a//b",
        "a/",
        "a\0b",
        "\udc80",
        "\ufffd",
        "x" * 256,
        "é" * 128,
        "a/" * MAX_DEPTH + "a",
        "/".join(["x" * 200] * 20),
    ],
)
def test_everything_else_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(UnsafePath, match=r"\.$"):
        parse_path(text)


@pytest.mark.parametrize("name", ["a\nb", "\n", "a\x1b[31m", "a\x7f", "a\x85", "a\u2028b"])
def test_what_only_sessions_may_call_so_can_be_asked_for_and_not_be_made(name: str) -> None:
    assert parse_path(f"in/{name}") == ("in", name)
    assert is_addressable(name)
    with pytest.raises(UnsafePath, match="control character"):
        check_new_name(name)


def test_the_empty_directory_is_the_folder_itself_and_one_trailing_slash_is_allowed() -> None:
    assert parse_directory("") == ROOT
    assert parse_directory("a/b/") == ("a", "b")
    for text in ("/", "a//", "..", "../"):
        with pytest.raises(UnsafePath):
            parse_directory(text)


def test_names_that_sessions_made_can_always_be_shown() -> None:
    assert display_name("caf\udce9\n\x85") == "caf\N{REPLACEMENT CHARACTER}␊\N{REPLACEMENT CHARACTER}"
    assert not is_addressable("caf\udce9")
    assert is_addressable("café")


def test_length_is_counted_in_bytes() -> None:
    with pytest.raises(UnsafePath, match="bytes"):
        parse_path("/".join(["é" * 100] * 16))


@pytest.mark.parametrize(
    ("name", "numbered"),
    [
        ("a.txt", "a (2).txt"),
        ("a.tar.gz", "a (2).tar.gz"),
        ("a." + "b" * 20, "a." + "b" * 20 + " (2)"),
        ("é" * 127, "é" * 125 + " (2)"),
        (".cache", ".cache (2)"),
    ],
)
def test_numbered_names_keep_their_ending_and_fit_a_disk(name: str, numbered: str) -> None:
    assert numbered_name(name, 2) == numbered


def test_auto_mount_folders_are_named_by_a_dot_and_a_folder_name() -> None:
    assert parse_automatic_name(".cache") == ".cache"
    for name in ("..", ".berth-x", ".Berth", "." + "a" * 64, ".a b"):
        with pytest.raises(UnsafePath):
            parse_automatic_name(name)


def test_names_of_the_portal_are_nobody_elses() -> None:
    for path in (".berth-trash", ".berth-uploads/a", ".berth-new"):
        with pytest.raises(UnsafePath):
            parse_path(path)
    assert parse_path("a/.berth-trash") == ("a", ".berth-trash")


def test_long_names_are_not_addressable() -> None:
    assert not is_addressable("\x01" * 256)
