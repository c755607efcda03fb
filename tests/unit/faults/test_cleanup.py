"""A run of `bin/faults` removes only its own remains."""

import os
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from tests.faults import cleanup
from tests.faults.cleanup import POOLS, begin_run, bridges_of, pool_of

DEAD = 2**22 + 1  # beyond the largest id that a process can have


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without a look at the machine's own interfaces, which a run of the other tests may have at this moment."""
    monkeypatch.setattr(cleanup, "HOMES", tmp_path)
    monkeypatch.setattr(cleanup, "interface_addresses", list)
    return tmp_path


def test_runs_at_the_same_time_have_pools_of_their_own(homes: Path) -> None:
    pools = {pool_of(begin_run(owner)) for owner in (1, os.getppid(), os.getpid())}
    assert len(pools - {None}) == 3


def test_a_pool_is_free_again_once_its_run_was_cleared_away(homes: Path) -> None:
    abandoned = begin_run(DEAD)
    assert pool_of(abandoned) == POOLS[0]
    assert pool_of(begin_run(os.getpid())) == POOLS[0]
    assert not abandoned.exists()


def test_only_bridges_of_sessions_in_its_pool_are_a_runs_own(
    homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = begin_run(os.getpid())
    ours, others = str(POOLS[0][1]), str(POOLS[1][1])
    there = [("bth0123", ours), ("bth4567", others), ("bth-card", ours), ("br-office", ours), ("eth0", ours)]
    monkeypatch.setattr(
        cleanup, "interface_addresses", lambda: [(name, IPv4Address(address)) for name, address in there]
    )
    monkeypatch.setattr(cleanup, "INTERFACES", tmp_path / "net")
    for bridge in ("bth0123", "bth4567", "br-office"):
        (tmp_path / "net" / bridge / "bridge").mkdir(parents=True)

    assert bridges_of(home) == ["bth0123"]


def test_a_run_clears_away_what_an_earlier_process_of_its_number_left(
    homes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    monkeypatch.setattr(cleanup, "remove_run", removed.append)
    for number in (os.getpid(), os.getppid()):
        cleanup.home_of(number).mkdir()

    cleanup.clear_away_abandoned_runs()

    assert removed == [cleanup.home_of(os.getpid())]
