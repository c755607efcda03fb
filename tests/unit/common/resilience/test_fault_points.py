"""Fault points at which a test stops a process; inactive otherwise."""

import os
import threading
from pathlib import Path

import pytest

from common.resilience import fault_points
from tests.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fault_points, "_folder", str(tmp_path))
    return tmp_path


def test_points_are_numbered_within_their_stretch_of_work(folder: Path) -> None:
    for _ in range(2):
        with fault_points.during("launch"):
            fault_points.pause("inspect")
            fault_points.pause("inspect")
    fault_points.pause("outside")
    lines = [f"launch.inspect{number} {os.getpid()}" for number in ("", ".2")]
    assert (folder / "passed").read_text().splitlines() == 2 * lines


def test_a_held_point_is_left_when_the_test_lets_go(folder: Path) -> None:
    (folder / "hold.launch.start").touch()

    def launch() -> None:
        with fault_points.during("launch"):
            fault_points.pause("start")

    threads = [threading.Thread(target=launch) for _ in range(2)]
    for thread in threads:
        thread.start()
    held = folder / "held.launch.start"
    wait_until(lambda: held.exists() and held.read_text() == str(os.getpid()), deadline_s=30)
    wait_until(lambda: sum(thread.is_alive() for thread in threads) == 1, deadline_s=30)
    held.unlink()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_without_a_test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with fault_points.during("launch"):
        fault_points.pause("start")
    assert list(tmp_path.iterdir()) == []
