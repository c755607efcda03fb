"""Paths in a container are accepted unchanged or refused."""

import pytest

from sessions_app.core.container_paths import UnfitPath, parse_container_path, parse_file_path, parse_mode


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/", "/"),
        ("/home/work", "/home/work"),
        ("//home///work/", "/home/work"),
        ("/home/work/größe & co; rm -rf $HOME", "/home/work/größe & co; rm -rf $HOME"),
        ("/home/work/-rf", "/home/work/-rf"),
        ("/home/work/...", "/home/work/..."),
        ("/processes", "/processes"),
        ("/a\nb/\t\x7f'", "/a\nb/\t\x7f'"),
    ],
)
def test_a_path_means_what_it_says(text: str, path: str) -> None:
    assert parse_container_path(text) == path


@pytest.mark.parametrize(
    "text",
    [
        "", "home", "../etc", "~/x", "/home/../etc", "/home/./work", "/..", "/a\0b", "/\ud800",
        "/" + "x" * 256, "/x" * 2000, "/proc", "/proc/self/mem", "/sys/kernel", "/dev/zero",
    ],
)  # fmt: skip
def test_what_leads_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(UnfitPath):
        parse_container_path(text)


def test_a_file_has_a_directory_and_a_name() -> None:
    assert parse_file_path("/home/work/a.txt") == ("/home/work", "a.txt")
    assert parse_file_path("/a.txt") == ("/", "a.txt")
    for text in ("/home/work/", "/"):
        with pytest.raises(UnfitPath):
            parse_file_path(text)


def test_a_mode_is_octal_digits() -> None:
    assert (parse_mode("0755"), parse_mode("600")) == (0o755, 0o600)
    for text in ("", "rwx", "0888", "4755", "00644", "-644", "²"):
        with pytest.raises(UnfitPath):
            parse_mode(text)
