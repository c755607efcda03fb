"""Run the suite; `bin/test` calls this after preparing everything.

python -m tests.running             # what a change needs
python -m tests.running --all       # everything, at full width, random, with coverage
python -m tests.running --faults    # all faults, whose results are kept for docs/faults.md

A failed test is run once more, alone. If it fails again the suite is red; if it passes the suite
stays green and reports the test as flaky: a race to be found. After more than `SECOND_RUNS`
failures in a stage nothing is run again.

Stages run in parallel if a processor would be idle. The output of all but the first is shown when
they have ended. A working tree runs one suite at a time.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from portal.ops.locks import holder, running
from portal.ops.paths import CHECKOUT, Layout
from tests.running import durations, floors, needs
from tests.running.needs import Plan
from tests.running.stages import FAULTS, NOTES, PURE, STAGES, TESTS_FAILED, TURNS, Ended, Stage

SECOND_RUNS = 3


@dataclass(slots=True)
class Outcome:
    """Result of a run."""

    plan: Plan
    faults: list[str] = field(default_factory=list)
    races: list[str] = field(default_factory=list)  # tests that failed first and passed when run alone
    times: dict[str, Ended] = field(default_factory=dict)


def main(arguments: Sequence[str]) -> int:
    """Run the suite, unless another run uses this working tree: they would share notes and
    coverage.
    """
    NOTES.mkdir(parents=True, exist_ok=True)
    layout = Layout(checkout=CHECKOUT, data=NOTES)
    with running(layout) as is_ours:
        if not is_ours:
            print(f"test     | process {holder(layout)} runs the suite of this tree already")
            return 1
        if "--faults" in arguments:
            return 0 if survives_all_faults() else 1
        return 0 if is_green(is_wide="--all" in arguments) else 1


def survives_all_faults() -> bool:
    """Run the stage of faults at full width, and keep the results for docs/faults.md."""
    began_at = time.monotonic()
    outcome = Outcome(Plan(is_wide=True))
    os.environ["BERTH_TESTS_WIDE"] = "1"
    outcome.times[FAULTS.name] = ended = FAULTS.run(outcome.plan, "--keep-results", is_shown=True)
    if not passes(FAULTS, ended.code, outcome):
        outcome.faults.append(f"tests of {FAULTS.title} failed")
    tell(outcome, time.monotonic() - began_at)
    return not outcome.faults


def is_green(*, is_wide: bool) -> bool:
    """Run all stages. Returns True if tests, coverage and (if wide) durations are within limits."""
    began_at = time.monotonic()
    outcome = Outcome(needs.plan(is_wide=is_wide))
    if is_wide:
        os.environ["BERTH_TESTS_WIDE"] = "1"  # read by tests/width.py
    if outcome.plan.left_out:
        print(
            f"test     | passed before and not concerned since: {', '.join(n.name for n in outcome.plan.left_out)}"
        )
    subprocess.run([sys.executable, "-m", "coverage", "erase"], cwd=CHECKOUT, check=True)
    for stages in TURNS:
        run_together(stages, outcome)
    check_limits(outcome)
    if not outcome.faults and not outcome.races:
        needs.keep(outcome.plan)
    tell(outcome, time.monotonic() - began_at)
    return not outcome.faults


def run_together(stages: Sequence[Stage], outcome: Outcome) -> None:
    print(f"test     | {'; beside it '.join(stage.title for stage in stages)}", flush=True)
    first, *others = stages
    with ThreadPoolExecutor(len(stages)) as pool:
        all_ended = list(pool.map(lambda stage: stage.run(outcome.plan, is_shown=stage is first), stages))
    for stage in others:
        print(f"test     | {stage.title}:\n{stage.output.read_text(errors='replace')}", flush=True)
    for stage, ended in zip(stages, all_ended, strict=True):
        outcome.times[stage.name] = ended
        if not passes(stage, ended.code, outcome):
            outcome.faults.append(f"tests of {stage.title} failed")


def passes(stage: Stage, code: int, outcome: Outcome) -> bool:
    """Return True if the stage passed, or if its failed tests pass when run alone."""
    failed = stage.failed_tests()
    if code == TESTS_FAILED and 0 < len(failed) <= SECOND_RUNS:
        print(f"test     | {len(failed)} failed; once more, alone", flush=True)
        code = stage.run_failed(outcome.plan).code
        outcome.races.extend(name for name in failed if name not in stage.failed_tests())
    return code == 0


def check_limits(outcome: Outcome) -> None:
    if PURE.measures(outcome.plan) and not floors.keeps_floor_of_pure_modules():
        outcome.faults.append("the coverage of pure modules is below its floor")
    if outcome.plan.is_wide:
        if not floors.keeps_floor_of_all():
            outcome.faults.append("the coverage is below its floor")
        outcome.faults.extend(durations.grown(durations.lines_of(stage.durations for stage in STAGES)))


def tell(outcome: Outcome, seconds: float) -> None:
    for name in outcome.races:
        print(f"test     | failed once and passed when run again, a race to be found: {name}")
    for name, ended in outcome.times.items():
        print(f"test     | {name:<8} {ended.seconds:5.0f} s  {ended.cpu_seconds:5.0f} CPU s")
    print(
        f"test     | all      {seconds:5.0f} s  {sum(its.cpu_seconds for its in outcome.times.values()):5.0f} CPU s"
    )
    for fault in outcome.faults:
        print(f"test     | FAILED: {fault}")
    print(f"test     | {'red' if outcome.faults else 'green'}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
