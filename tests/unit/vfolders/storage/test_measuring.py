"""Size of a directory tree, and incomplete measurements."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from vfolders.core.paths import EntryPath
from vfolders.storage import descriptors, measuring
from vfolders.storage.base import Effort, Usage

EFFORT = Effort(max_entries=1000, max_s=60, share=1)


def count(folder: Path) -> Usage:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return measuring.measure(descriptor, EFFORT)
    finally:
        os.close(descriptor)


def test_holes_count_nothing(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(2**40)
    (tmp_path / "small").write_bytes(b"x" * 100)
    assert count(tmp_path) == Usage(100, 2, is_complete=True)


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError, OSError])
def test_a_directory_that_cannot_be_entered_makes_the_count_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    (tmp_path / "shut").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "file").write_bytes(b"x" * 100)
    enter = descriptors.descend

    def enter_all_but_one(folder: int, path: EntryPath) -> AbstractContextManager[int]:
        if path == ("shut",):
            raise error("shut")
        return enter(folder, path)

    monkeypatch.setattr(descriptors, "descend", enter_all_but_one)
    assert count(tmp_path) == Usage(100, 1, is_complete=False)
