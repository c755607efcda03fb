"""Workloads of the scheduler benchmark, and its harness on a few agents."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from portal.ops.paths import find_layout
from scheduler.engine import Policy
from tests.bench import scheduler, scheduler_engine
from tests.bench.frame import Options, measure_in_turns
from tests.bench.scheduler_workload import (
    KINDS,
    NODE,
    Session,
    behind_a_gang,
    held_after,
    jain,
    mixed,
    user_by_user,
)


def kind_of(session: Session) -> str:
    if session.containers > 1:
        return "gang"
    return "gpu" if session.size.milli_gpus else "cpu"


def test_mixed_workload_has_the_shares_that_it_promises() -> None:
    sessions = mixed(20, 20_000).sessions

    found = Counter(map(kind_of, sessions))
    assert {kind: found[kind] / 200 for kind in KINDS} == pytest.approx(KINDS, abs=1)
    assert len({session.domain for session in sessions}) == 8
    assert len({session.project for session in sessions}) == 50
    assert len({session.user for session in sessions}) == 400
    assert {session.containers for session in sessions if kind_of(session) == "gang"} == {2, 3, 4}
    for session in sessions:
        assert all(asked <= there for asked, there in zip(session.size, NODE, strict=True))
        assert session.size.milli_gpus in (0, 1000, 2000, 4000, 8000)


def test_fractional_workload_asks_for_shares_where_the_other_asks_for_one_gpu() -> None:
    asked = Counter(session.size.milli_gpus for session in mixed(20, 2000, is_fractional=True).sessions)
    assert set(asked) == {0, 100, 250, 500, 2000, 4000, 8000}


def test_workloads_are_the_same_each_time() -> None:
    assert mixed(20, 200) == mixed(20, 200)
    assert mixed(20, 200).sessions == mixed(50, 300).sessions[:200]


def test_users_ask_one_after_the_other_for_more_than_there_is() -> None:
    workload = user_by_user()
    assert {session.project for session in workload.sessions} == {0}
    users = [session.user for session in workload.sessions]
    assert users == sorted(users)
    assert set(Counter(users).values()) == {200}
    assert workload.free_gpus == 800


def test_all_that_waits_behind_the_gang_has_room() -> None:
    gang, *others = behind_a_gang(20).sessions
    assert gang.size == NODE
    assert sum(session.size.milli_gpus for session in others) / 1000 == behind_a_gang(20).free_gpus == 80


def test_nodes_hold_what_runs_on_them_and_no_more_than_they_have() -> None:
    workload = mixed(20, 20)
    held = held_after(workload, 15)
    asked = sum(session.containers * session.size.milli_gpus for session in workload.sessions[:15])
    assert sum(size.milli_gpus for size in held) == asked
    assert all(size.milli_gpus <= NODE.milli_gpus and size.cores <= NODE.cores for size in held)


@pytest.mark.parametrize(
    ("amounts", "index"), [([5, 5, 5, 5], 1), ([8, 0, 0, 0], 0.25), ([2, 1], 0.9), ([0, 0], 0)]
)
def test_index_of_jain(amounts: list[float], index: float) -> None:
    assert jain(amounts) == pytest.approx(index)


@pytest.mark.parametrize("policy", Policy)
def test_harness_measures_each_policy_on_20_nodes(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "NODES", (10, 20))
    monkeypatch.setattr(scheduler, "MANY_PENDING", 40)
    monkeypatch.setattr(scheduler_engine, "MEASURED_S", 0)
    measures = [*scheduler.speed(policy, None), *scheduler.fairness(policy, None)]
    measures.append(scheduler.emptiest_first(None, nodes=20))

    rows = {
        row.measure: row for row in measure_in_turns(measures, Options(find_layout(None), False, rounds=1))
    }

    assert all(row.ours > 0 for row in rows.values())
    assert rows[f"{policy}, whole devices, flatness"].ratio
    assert rows[f"{policy}, GPUs used behind a gang without room"].ours == 100


def peer_that_says(*lines: str, at: Path, code: int = 0) -> scheduler.Peer:
    """Waits for an answer to each line but the last."""
    spoken = " && read answer && ".join(f"echo '{line}'" for line in lines)
    at.write_text(f"#!/bin/sh\n{spoken} && exit {code}\n")
    at.chmod(0o755)
    return scheduler.Peer(at)


def test_ours_is_measured_before_the_peers_pass_in_its_pauses_and_after_it(tmp_path: Path) -> None:
    peer = peer_that_says("pause", "pause", '{"decided": 10, "took_s": 2.0}', at=tmp_path / "python")
    took_s = iter([0.1, 0.2, 0.3, 0.4])
    assert peer.rates("drf", 100, lambda: next(took_s)) == (pytest.approx(400), 5.0)
    assert not list(took_s)


def test_a_peer_that_fails_is_no_rate(tmp_path: Path) -> None:
    peer = peer_that_says("pause", "Traceback", at=tmp_path / "python", code=3)
    with pytest.raises(subprocess.CalledProcessError):
        peer.rates("drf", 100, lambda: 0.1)
