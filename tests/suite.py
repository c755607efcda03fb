"""The whole suite in its stages, each with what it needs; `bin/test` without arguments runs it after preparing all.

python -m tests.suite

A test that fails is run once more, alone. If it fails again the suite is red; if it passes the suite stays green and
says at its end which tests those were, for each of them is a race somebody has yet to find. More than
`SECOND_RUNS` failures in a stage are no races: nothing is run again.

Stages run side by side where that leaves no processor idle. What the others say is shown when they have ended. A
working tree has one suite at a time.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
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
    options: tuple[str, ...] = ()

    @property
    def output(self) -> Path:
        return NOTES / f"{self.name}.log"

    def command(self, *options: str) -> list[str]:
        notes = f"cache_dir={NOTES / self.name}"
        given = ("-q", "--hypothesis-profile=suite", "-o", notes, "-m", self.markers, *options)
        return [sys.executable, "-m", "pytest", *given]

    def failed_tests(self) -> list[str]:
        """Of its last run."""
        try:
            return sorted(json.loads(self._last_failed.read_text()))
        except FileNotFoundError:
            return []

    def forget(self) -> None:
        self._last_failed.unlink(missing_ok=True)

    @property
    def _last_failed(self) -> Path:
        return NOTES / self.name / "v" / "cache" / "lastfailed"


FAST = Stage(
    "fast",
    "without engine and browser",
    "not docker and not e2e and not faults and not walk",
    ("-n2", "--dist=worksteal", *COVERAGE),
)
# Without coverage, which makes tests half as long again: they ask for the same again and again, and what lines there are
# is measured where tests look at one thing.
WALKS = Stage(
    "walks",
    "with walks: everybody asks for everything, the engine whatever there may be",
    "walk",
    ("-n2", "--dist=worksteal"),
)
# A file stays with one worker, which has a portal and a browser of its own for all of its files. In the order of
# tests/e2e/conftest.py: by itself pytest-xdist would leave files of few tests, the longest of all, to the end.
WHOLE = Stage(
    "whole",
    "with a real engine, a real browser, the whole portal",
    "docker or e2e",
    ("-n2", "--dist=loadfile", "--no-loadscope-reorder", *COVERAGE),
)
# Without coverage: what is tested there are processes of a portal, not this one.
FAULTS = Stage("faults", "with faults: engines and processes of a portal are killed", "faults")
TURNS = ((FAST, WALKS), (WHOLE, FAULTS))


def main() -> int:
    """What a stage says, which tests failed and what was covered is noted by working tree: of two suites each would read the
    other's, and be green by it."""
    NOTES.mkdir(parents=True, exist_ok=True)
    layout = Layout(checkout=CHECKOUT, data=NOTES)
    with running(layout) as is_ours:
        if not is_ours:
            print(f"test     | process {holder(layout)} runs the suite of this tree already")
            return 1
        return 0 if is_green() else 1


def is_green() -> bool:
    """Whether all tests passed and the coverage has not sunk."""
    subprocess.run([sys.executable, "-m", "coverage", "erase"], cwd=CHECKOUT, check=True)
    flaky: list[str] = []
    verdicts = [run_together(stages, flaky) for stages in TURNS]
    verdicts.append(_run([sys.executable, "-m", "tests.coverage_floor"]) == 0)
    for name in flaky:
        print(f"test     | failed once and passed when run again, a race to be found: {name}", flush=True)
    return all(verdicts)


def run_together(stages: Sequence[Stage], flaky: list[str]) -> bool:
    """Whether all tests of these stages passed, some perhaps in their second run: these are added to `flaky`."""
    first, *others = stages
    print(f"test     | {'; beside it '.join(stage.title for stage in stages)}", flush=True)
    began_at = time.monotonic()
    beside = []
    for stage in others:
        stage.forget()
        with stage.output.open("wb") as output:
            beside.append(_begin(stage.command(*stage.options), stdout=output, stderr=subprocess.STDOUT))
    first.forget()
    codes = [_run(first.command(*first.options)), *(process.wait() for process in beside)]
    for stage in others:
        print(f"test     | {stage.title}:\n{stage.output.read_text(errors='replace')}", flush=True)
    print(f"test     | {time.monotonic() - began_at:.0f} s", flush=True)
    have_passed = [_passes(stage, code, flaky) for stage, code in zip(stages, codes, strict=True)]
    return all(have_passed)


def _passes(stage: Stage, code: int, flaky: list[str]) -> bool:
    """Whether the stage passed with this exit code, or passes now that what failed runs alone."""
    failed = stage.failed_tests()
    if code == TESTS_FAILED and 0 < len(failed) <= SECOND_RUNS:
        print(f"test     | {len(failed)} failed; once more, alone", flush=True)
        code = _run(stage.command("--last-failed", "--last-failed-no-failures=none"))
        flaky.extend(name for name in failed if name not in stage.failed_tests())
    return code == 0


def _run(argv: Sequence[str]) -> int:
    return _begin(argv).wait()


def _begin(argv: Sequence[str], **streams: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, cwd=CHECKOUT, stdin=subprocess.DEVNULL, **streams)


if __name__ == "__main__":
    sys.exit(main())
