"""Run the whole suite in its stages; `bin/test` without arguments calls this after preparing everything.

python -m tests.suite

A test that fails is run once more, alone. If it fails again the suite is red; if it passes the suite stays green and
names it at the end, since it is a race that somebody has to find. More than `SECOND_RUNS` failures in a stage are no
races: nothing is run again.

Stages run side by side where that leaves no processor idle. The output of all but the first is shown when they have
ended. A working tree runs one suite at a time.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.ops.layout import CHECKOUT, Layout
from portal.ops.locks import holder, running

SECOND_RUNS = 3
NOTES = CHECKOUT / "var" / "test" / "stages"
COVERAGE = ("--cov", "--cov-append", "--cov-report=")
TESTS_FAILED = 1  # pytest's exit code; others mean that pytest itself could not go on


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    title: str
    markers: str
    paths: tuple[str, ...]  # below tests/; pytest imports nothing else
    options: tuple[str, ...] = ()

    @property
    def output(self) -> Path:
        return NOTES / f"{self.name}.log"

    def command(self, *options: str) -> list[str]:
        notes = f"cache_dir={NOTES / self.name}"
        given = ("-q", "--hypothesis-profile=suite", "-o", notes, "-m", self.markers, *options)
        return [sys.executable, "-m", "pytest", *given, *(f"tests/{path}" for path in self.paths)]

    def run(self, *, is_shown: bool) -> "Ended":
        """Run all of it, with what it prints shown, or kept in `output`."""
        self._last_failed.unlink(missing_ok=True)
        command = self.command(*self.options)
        if is_shown:
            return _run(command)
        with self.output.open("wb") as output:
            return _run(command, stdout=output, stderr=subprocess.STDOUT)

    def failed_tests(self) -> list[str]:
        """Return the tests that failed in the last run of the stage."""
        try:
            return sorted(json.loads(self._last_failed.read_text()))
        except FileNotFoundError:
            return []

    @property
    def _last_failed(self) -> Path:
        return NOTES / self.name / "v" / "cache" / "lastfailed"


# tests/architecture is run by bin/check.
FAST = Stage(
    "fast",
    "without engine and browser",
    "not docker and not e2e and not faults and not walk",
    ("unit", "property", "db", "api", "web", "ws", "access", "client", "contract", "ops"),
    ("-n2", "--dist=worksteal", *COVERAGE),
)
# Without coverage, which doubles the time of Python: these tests repeat the same requests thousands of times.
WALKS = Stage(
    "walks",
    "with walks: everybody asks for everything, the engine whatever there may be",
    "walk",
    (
        "access",
        "property",
        "db/test_attempts_concurrency.py",
        "db/test_limits_concurrency.py",
    ),
    ("-n2", "--dist=worksteal"),
)
# A file stays with one worker, which has a portal and a browser of its own for all of its files. In the order of
# tests/e2e/conftest.py: by itself pytest-xdist would leave files of few tests, the longest of all, to the end.
WHOLE = Stage(
    "whole",
    "with a real engine, a real browser, the whole portal",
    "docker or e2e",
    ("e2e", "docker", "contract", "ops", "db/test_accounts_first_run.py"),
    ("-n2", "--dist=loadfile", "--no-loadscope-reorder", *COVERAGE),
)
# Without coverage: what is tested there are processes of a portal, not this one.
FAULTS = Stage(
    "faults",
    "with faults: engines and processes of a portal are killed",
    "faults",
    ("faults",),
)
TURNS = ((FAST, WALKS), (WHOLE, FAULTS))


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    seconds: float
    cpu_seconds: float  # of the process and its descendants, without servers that are shared


def main() -> int:
    """Run the suite, unless one runs in this working tree already: each would read the other's notes and coverage."""
    NOTES.mkdir(parents=True, exist_ok=True)
    layout = Layout(checkout=CHECKOUT, data=NOTES)
    with running(layout) as is_ours:
        if not is_ours:
            print(f"test     | process {holder(layout)} runs the suite of this tree already")
            return 1
        return 0 if is_green() else 1


def is_green() -> bool:
    """Run all stages; return True if all tests passed and the coverage keeps its floor."""
    began_at = time.monotonic()
    subprocess.run([sys.executable, "-m", "coverage", "erase"], cwd=CHECKOUT, check=True)
    flaky: list[str] = []
    times: dict[str, Ended] = {}
    verdicts = [run_together(stages, flaky, times) for stages in TURNS]
    verdicts.append(_run([sys.executable, "-m", "tests.coverage_floor"]).code == 0)
    for name in flaky:
        print(f"test     | failed once and passed when run again, a race to be found: {name}")
    for name, its in times.items():
        print(f"test     | {name:<8} {its.seconds:5.0f} s  {its.cpu_seconds:5.0f} CPU s")
    print(f"test     | all      {time.monotonic() - began_at:5.0f} s", flush=True)
    return all(verdicts)


def run_together(stages: Sequence[Stage], flaky: list[str], times: dict[str, Ended]) -> bool:
    """Run the stages side by side; return True if all tests passed. Adds to `flaky` those that did in their second run."""
    print(f"test     | {'; beside it '.join(stage.title for stage in stages)}", flush=True)
    first, *others = stages
    with ThreadPoolExecutor(len(stages)) as pool:
        all_ended = list(pool.map(lambda stage: stage.run(is_shown=stage is first), stages))
    for stage in others:
        print(f"test     | {stage.title}:\n{stage.output.read_text(errors='replace')}", flush=True)
    times.update(zip((stage.name for stage in stages), all_ended, strict=True))
    have_passed = [_passes(stage, its.code, flaky) for stage, its in zip(stages, all_ended, strict=True)]
    return all(have_passed)


def _passes(stage: Stage, code: int, flaky: list[str]) -> bool:
    """Return True if the stage passed with this exit code, or passes once what failed has run alone."""
    failed = stage.failed_tests()
    if code == TESTS_FAILED and 0 < len(failed) <= SECOND_RUNS:
        print(f"test     | {len(failed)} failed; once more, alone", flush=True)
        code = _run(stage.command("--last-failed", "--last-failed-no-failures=none")).code
        flaky.extend(name for name in failed if name not in stage.failed_tests())
    return code == 0


def _run(argv: Sequence[str], **streams: Any) -> Ended:
    began_at = time.monotonic()
    process = subprocess.Popen(argv, cwd=CHECKOUT, stdin=subprocess.DEVNULL, **streams)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, time.monotonic() - began_at, usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
