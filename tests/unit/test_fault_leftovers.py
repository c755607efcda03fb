"""What runs of the fault tests find of earlier ones."""

import os
from pathlib import Path

import pytest

from tests.faults import leftovers


def test_a_run_clears_away_what_an_earlier_process_of_its_number_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    monkeypatch.setattr(leftovers, "HOMES", tmp_path)
    monkeypatch.setattr(leftovers, "remove_run", removed.append)
    for number in (os.getpid(), os.getppid()):
        leftovers.home_of(number).mkdir()

    leftovers.clear_away_abandoned_runs()

    assert removed == [leftovers.home_of(os.getpid())]
