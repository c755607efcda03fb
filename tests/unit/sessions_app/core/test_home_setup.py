"""The set-up archive of a session, run by a real shell, and the progress that it reports."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sessions_app.core.home_setup import (
    MARK,
    SETUP,
    STATUS,
    HomeFile,
    Progress,
    Skip,
    build_archive,
    has_timed_out,
    read_log,
    read_progress,
)


@dataclass
class Place:
    """A home directory, and what running `begin` in it gave."""

    home: Path
    progress: Progress
    output: str


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., Place]:
    """Runs what the container's first process would run, in directories of its own."""
    home, setup, status = tmp_path / "home", tmp_path / "setup", tmp_path / "status"
    home.mkdir()

    def run(*files: HomeFile, script: str | None = None, seconds: int = 30) -> Place:
        setup.mkdir()
        archive = build_archive(files, script, seconds=seconds, owner=(os.getuid(), os.getgid()))
        subprocess.run(["tar", "-x", "-C", setup], input=archive, check=True)
        line = setup / "begin"
        text = line.read_text().replace(SETUP, str(setup)).replace(STATUS, str(status))
        done = subprocess.run(
            ["sh", "-c", text],
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return Place(home, read_progress(status.read_bytes()), done.stdout)

    return run


def test_files_are_there_with_their_mode_and_to_the_byte(begin: Callable[..., Place]) -> None:
    odd = "quote ' \" $HOME `id` \\ %s 가\n\n"
    place = begin(
        HomeFile(".bashrc", "0600", odd),
        HomeFile(".config/a b/c'$(id)", "0755", ""),
        HomeFile("-n", "0644", "x"),
    )
    assert (place.home / ".bashrc").read_text() == odd
    assert (place.home / ".bashrc").stat().st_mode & 0o777 == 0o600
    assert (place.home / ".config" / "a b" / "c'$(id)").stat().st_mode & 0o777 == 0o755
    assert (place.home / "-n").read_text() == "x"
    assert place.progress == Progress(has_files=True)
    assert not [each for each in place.home.iterdir() if each.name.startswith(".berth")]


def test_a_file_of_the_image_is_replaced(begin: Callable[..., Place], tmp_path: Path) -> None:
    (tmp_path / "home" / ".bashrc").write_text("of the image")
    assert (begin(HomeFile(".bashrc", "0644", "mine")).home / ".bashrc").read_text() == "mine"


def test_no_link_is_followed_or_replaced(begin: Callable[..., Place], tmp_path: Path) -> None:
    other = tmp_path / "share"
    other.mkdir()
    (other / "precious").write_text("theirs")
    (tmp_path / "home" / ".bashrc").symlink_to(other / "precious")
    (tmp_path / "home" / ".config").symlink_to(other)
    (tmp_path / "home" / ".dangling").symlink_to(other / "absent")
    place = begin(
        HomeFile(".bashrc", "0644", "x"),
        HomeFile(".config/precious", "0644", "x"),
        HomeFile(".dangling", "0644", "x"),
    )
    assert (other / "precious").read_text() == "theirs"
    assert not (other / "absent").exists()
    assert place.progress.skipped == ((0, Skip.LINK), (1, Skip.LINK), (2, Skip.LINK))


def test_what_is_in_the_way_stays(begin: Callable[..., Place], tmp_path: Path) -> None:
    (tmp_path / "home" / "directory").mkdir()
    (tmp_path / "home" / "file").write_text("a file")
    place = begin(HomeFile("directory", "0644", "x"), HomeFile("file/below", "0644", "x"))
    assert place.progress.skipped == ((0, Skip.DIRECTORY), (1, Skip.REFUSED))
    assert (tmp_path / "home" / "file").read_text() == "a file"


def test_a_script_runs_after_the_files_and_writes_into_the_log(begin: Callable[..., Place]) -> None:
    place = begin(HomeFile("word", "0644", "hello\n"), script='cat "$HOME/word" && touch made-here\n')
    assert place.output == "hello\n"
    assert place.progress.exit_code == 0


def test_a_script_that_fails_says_so_in_the_log(begin: Callable[..., Place]) -> None:
    place = begin(script="echo before; exit 3")
    assert place.progress.exit_code == 3
    assert place.output.startswith(f"before\n{MARK} exit code 3")
    assert read_log(place.output.encode()) == (3, place.progress.took_s)


def test_a_script_that_hangs_is_stopped_with_its_children(begin: Callable[..., Place]) -> None:
    place = begin(script="sleep 600 & sleep 600", seconds=1)
    assert place.progress.exit_code == 124
    assert has_timed_out(124, 1, 1)


def test_a_time_limit_is_told_by_signals_too() -> None:
    assert has_timed_out(137, 61, 60)
    assert not has_timed_out(137, 3, 60)
    assert not has_timed_out(1, 90, 60)


def test_what_makes_no_sense_is_passed_over() -> None:
    noise = (
        b"skipped 9999 link\nskipped 1 because\nskipped x link\nscript 1\nscript -1 2\nscript 1 \xff\n\0\n"
    )
    assert read_progress(noise) == Progress()
    assert read_log(f"{MARK} exit code many after 2 s\n{MARK} hm\nother\n".encode()) is None
