"""Rules of dotfiles."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.dotfile_rules import (
    MAX_CONTENT_BYTES,
    check_content,
    check_dotfile_path,
    check_file_mode,
    conflicting_file,
    is_within,
)

HOME = "/home/work"


@pytest.mark.parametrize(
    "path", [".bashrc", ".config/git/config", "notes with spaces.txt", ".ssh/config", "설정", "a..b", "..."]
)
def test_paths_below_home_are_taken_as_they_are(path: str) -> None:
    assert check_dotfile_path(path) == path


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "from the home directory on"),
        ("/etc/passwd", "from the home directory on"),
        ("~/.bashrc", "from the home directory on"),
        ("../x", "an empty part"),
        (".config/../../x", "an empty part"),
        ("a/./b", "an empty part"),
        ("a//b", "an empty part"),
        (".config/", "an empty part"),
        (" .bashrc", "begin or end with a space"),
        ("a /b", "begin or end with a space"),
        ("a\nb", "Control characters"),
        ("a\0b", "NUL character"),
        ("a\u202eb", "Control characters"),
        ("a\ud800b", "surrogate"),
        ("/".join("abcdefghi"), "At most 8 directories"),
        ("x" * 256, "At most 255"),
        ("가" * 100, "longer than 255 bytes"),
        (".ssh/authorized_keys", "written by Berth itself"),
        (".ssh/authorized_keys2", "written by Berth itself"),
        (".berth/x", "written by Berth itself"),
        (".berth-upload-1", "written by Berth itself"),
    ],
)
def test_other_paths_are_refused_with_what_to_do(path: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_dotfile_path(path)


@given(st.one_of(st.text(max_size=40), st.from_regex(r"(\.?\.?[a-z /~]{0,3}/?){1,6}", fullmatch=True)))
def test_accepted_paths_stay_in_home(path: str) -> None:
    try:
        taken = check_dotfile_path(path)
    except ValueError:
        return
    parts = PurePosixPath(f"{HOME}/{taken}").parts
    assert parts[:3] == ("/", "home", "work")
    assert len(parts) > 3
    assert ".." not in parts
    assert "/".join(parts[3:]) == taken


def test_content_is_text_of_a_bounded_size_without_private_keys() -> None:
    assert check_content("alias ll='ls -l'\n") == "alias ll='ls -l'\n"
    assert check_content("가" * (MAX_CONTENT_BYTES // 3))
    for wrong, says in (
        ("x" * (MAX_CONTENT_BYTES + 1), "Keep larger files in a folder"),
        ("a\0", "NUL"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n", "holds a private key"),
    ):
        with pytest.raises(ValueError, match=says):
            check_content(wrong)


@pytest.mark.parametrize(("text", "mode"), [("644", "0644"), ("0755", "0755"), ("0400", "0400")])
def test_modes_are_octal_digits(text: str, mode: str) -> None:
    assert check_file_mode(text) == mode


@pytest.mark.parametrize("text", ["", "9", "4755", "rw-r--r--", "0000", "0200", "07777"])
def test_other_modes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"octal digits|could not read"):
        check_file_mode(text)


def test_a_file_is_no_directory() -> None:
    assert conflicting_file(".config", {".config/git", "x"}) == ".config/git"
    assert conflicting_file(".config/git", {".config"}) == ".config"
    assert conflicting_file(".configs", {".config", ".configs2/x"}) == ""


def test_files_in_mounted_folders_are_known() -> None:
    mounts = ["/home/work/.config", "/home/work/data"]
    assert is_within(".config/git", mounts, HOME)
    assert not is_within(".configs/git", mounts, HOME)
