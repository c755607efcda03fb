"""Paths never leave their folder, for any text and nesting."""

import os.path

from hypothesis import example, given
from hypothesis import strategies as st

from vfolders.core.paths import (
    MAX_DEPTH,
    MAX_NAME_BYTES,
    MAX_PATH_BYTES,
    UnsafePath,
    display_name,
    is_addressable,
    parse_directory,
    parse_path,
)

hostile_parts = st.sampled_from(
    ["..", ".", "", "/", "\0", "~", "a", "..a", "\\", "%2e%2e", "\u202e", "\ud800", "é"]
)
hostile_text = st.one_of(
    st.text(), st.lists(hostile_parts).map("/".join), st.lists(hostile_parts).map("".join)
)


@given(hostile_text)
@example("a/../../etc/passwd")
def test_what_is_accepted_stays_below_the_folder(text: str) -> None:
    try:
        components = parse_path(text)
    except UnsafePath:
        return
    joined = os.path.join("/folder", *components)
    assert os.path.normpath(joined) == joined
    assert joined.startswith("/folder/")


@given(hostile_text)
def test_each_accepted_component_is_one_name_that_the_kernel_takes(text: str) -> None:
    try:
        components = parse_directory(text)
    except UnsafePath:
        return
    assert len(components) <= MAX_DEPTH
    assert len("/".join(components).encode()) <= MAX_PATH_BYTES
    for name in components:
        assert name not in {"", ".", ".."}
        assert not {"/", "\0"} & set(name)
        assert 0 < len(os.fsencode(name)) <= MAX_NAME_BYTES


@given(hostile_text)
def test_parsing_changes_nothing(text: str) -> None:
    try:
        components = parse_path(text)
    except UnsafePath:
        return
    assert "/".join(components) == text
    assert parse_path("/".join(components)) == components
    assert all(is_addressable(name) for name in components)


@given(st.binary(min_size=1))
def test_any_name_on_a_disk_can_be_shown(raw: bytes) -> None:
    shown = display_name(os.fsdecode(raw))
    shown.encode()
    assert "\n" not in shown
    assert "\0" not in shown
