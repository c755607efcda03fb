"""Workers of a chaos run are started and killed without touching other processes or leaking any."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.processes import Heard, Process, Workers
from tests.waiting import wait_until

COUNT = 3


@pytest.fixture
def born(tmp_path: Path) -> Path:
    path = tmp_path / "born"
    path.touch()
    return path


@pytest.fixture
def heard() -> Heard:
    return Heard(say=lambda _: None)


@pytest.fixture
def workers(born: Path, heard: Heard) -> Iterator[Workers]:
    begun = Workers(
        count=COUNT,
        seed=1,
        environment={**os.environ, "BORN": str(born)},
        heard=heard,
        nursery="tests.doubles.nursery",
    )
    yield begun
    begun.end()


def test_exited_worker_is_reported_and_restarted(workers: Workers, born: Path, heard: Heard) -> None:
    workers.begin()
    first, *_ = ids(born)
    os.kill(first, signal.SIGKILL)  # as a kernel without memory does: nobody here is asked

    def has_begun_anew() -> bool:
        workers.tend()
        return len(ids(born)) == COUNT + 1

    wait_until(has_begun_anew)
    assert heard.kinds == {"error": 1}
    assert "ended by itself" in heard.violations[0]
    assert not workers.kills


def test_exited_worker_does_not_count_as_killed(workers: Workers, born: Path, heard: Heard) -> None:
    workers.begin()
    for each in ids(born):
        os.kill(each, signal.SIGKILL)
    wait_until(lambda: all(map(is_gone, ids(born))))
    while not heard.kinds:
        workers.strike()
    assert not workers.kills


def test_stopped_workers_are_removed(workers: Workers, born: Path) -> None:
    workers.begin()
    for each in ids(born):
        os.kill(each, signal.SIGSTOP)
    workers.end()
    assert all(map(is_gone, ids(born)))


def test_worker_that_does_not_start_in_time_ends_the_run(workers: Workers, born: Path) -> None:
    with pytest.raises(RuntimeError, match=f"0 of {COUNT} workers began"):
        workers.begin(within_s=0)
    workers.end()
    assert len(ids(born)) == COUNT
    assert all(map(is_gone, ids(born)))


def test_no_signal_reaches_a_reused_process_id() -> None:
    ended = subprocess.Popen(["sleep", "60"])
    process = Process(ended.pid)
    assert process.send(signal.SIGKILL)
    ended.wait()
    assert not process.send(signal.SIGKILL)  # its id is anybody's from now on
    process.close()
    assert not process.send(signal.SIGCONT)


def ids(born: Path) -> list[int]:
    return [int(line) for line in born.read_text().splitlines()]


def is_gone(pid: int) -> bool:
    """It has ended; its parent may still be to hear of it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True
