"""Statistics of the benchmarks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from portal.ops.paths import CHECKOUT, find_layout
from tests.bench.frame import (
    Measure,
    Options,
    Target,
    as_json,
    as_table,
    at_least,
    at_most,
    measure_in_turns,
    never_above,
    row_of,
)


def measure(target: Target | None = None) -> Measure:
    return Measure("speed", "1/s", lambda: 3.0, lambda: 2.0, target)


def test_ratio_is_the_median_of_those_of_the_rounds() -> None:
    row = row_of(measure(), [10, 30, 20], [10, 10, 10])
    assert (row.ours, row.peer, row.ratio, row.lowest, row.highest) == (20, 10, 2.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("target", "holds"),
    [(at_least(1.5), True), (at_least(1.6), False), (at_most(1.5), True), (at_most(1.4), False)],
)
def test_target_is_held_against_the_ratio(target: Target, holds: bool) -> None:
    assert row_of(measure(target), [3], [2]).holds is holds


@pytest.mark.parametrize(("numbers", "holds"), [([1, 20], True), ([1, 21], False)])
def test_target_without_a_peer_is_held_against_the_worst_round(numbers: list[float], holds: bool) -> None:
    assert row_of(measure(never_above(20)), numbers, []).holds is holds


def test_measure_without_a_target_holds_nothing() -> None:
    assert row_of(measure(), [1], [2]).holds is None


def test_ours_and_the_peer_take_turns_and_change_who_is_first() -> None:
    order: list[str] = []

    def note(who: str) -> float:
        order.append(who)
        return 1.0

    options = Options(find_layout(None), is_given=False, rounds=2)
    measure_in_turns([Measure("a", "s", lambda: note("ours"), lambda: note("peer"))], options)
    assert order == ["peer", "ours", "ours", "peer"]


def test_what_is_measured_in_the_midst_of_the_peer_is_a_round_with_it() -> None:
    options = Options(find_layout(None), is_given=False, rounds=2)
    rounds = iter([(30.0, 10.0), (50.0, 10.0)])
    [row] = measure_in_turns(
        [Measure("a", "1/s", float, target=at_least(4), both=lambda: next(rounds))], options
    )
    assert (row.ours, row.peer, row.ratio, row.lowest, row.highest) == (40, 10, 4.0, 3.0, 5.0)


def run_bench(*arguments: str) -> tuple[int, str]:
    """Exit code and what it complains about."""
    command = [sys.executable, "-m", "tests.bench", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_measure_that_there_is_not_is_refused_with_those_there_are() -> None:
    code, said = run_bench("scheduler", "--only", "nothing of the kind")
    assert code == 2
    assert "check before submitting" in said
    assert "20,000 nodes" in said


def test_no_rounds_are_refused() -> None:
    code, said = run_bench("scheduler", "--rounds", "0")
    assert code == 2
    assert "--rounds: one is the least" in said


def test_table_and_json_say_the_same(tmp_path: Path) -> None:
    rows = [row_of(measure(at_least(2)), [3], [2])]
    assert "MISSED" in as_table("gateway", rows)
    told = json.loads(as_json("gateway", rows))
    assert told["name"] == "gateway"
    assert told["rows"][0]["ratio"] == 1.5
    assert told["machine"]["cpus"]
