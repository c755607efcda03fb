"""Define the stages of the suite, and run one by pytest."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.ops.paths import CHECKOUT
from tests.running.needs import COVERAGE, Plan

NOTES = CHECKOUT / "var" / "test" / "stages"
MEASURED = ("--cov", "--cov-append", "--cov-report=")
TESTS_FAILED = 1  # pytest's exit code; others mean that pytest itself failed


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    seconds: float
    cpu_seconds: float  # of the process and its descendants, without shared servers


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    title: str
    markers: str
    paths: tuple[str, ...]  # relative to tests/; pytest imports nothing else
    options: tuple[str, ...] = ()
    is_measured: bool = False  # for coverage, if the plan wants it

    @property
    def output(self) -> Path:
        return NOTES / f"{self.name}.log"

    @property
    def durations(self) -> Path:
        return NOTES / f"{self.name}.durations"

    def run(self, plan: Plan, *extra: str, is_shown: bool) -> Ended:
        """Run the selected tests; shows their output, or stores it in `output`. `extra` are options."""
        self._last_failed.unlink(missing_ok=True)
        measured = MEASURED if self.measures(plan) else ()
        command = self.command(plan, *self.options, *extra, *measured, f"--durations-to={self.durations}")
        if is_shown:
            return run(command)
        with self.output.open("wb") as output:
            return run(command, stdout=output, stderr=subprocess.STDOUT)

    def run_failed(self, plan: Plan) -> Ended:
        """Run the failed tests once more, alone."""
        return run(self.command(plan, "--last-failed", "--last-failed-no-failures=none"))

    def measures(self, plan: Plan) -> bool:
        return self.is_measured and (plan.is_wide or (self is PURE and not plan.leaves_out(COVERAGE)))

    def command(self, plan: Plan, *options: str) -> list[str]:
        """Return pytest's command line."""
        profile = "search" if plan.is_wide else "suite"
        given = ("-q", "-p", "tests.running.durations", f"--hypothesis-profile={profile}")
        notes = ("-o", f"cache_dir={NOTES / self.name}")
        markers = [self.markers, "not storage", *([] if plan.is_wide else ["not wide"])]
        markers += [f"not {need.marker}" for need in plan.left_out if need.marker]
        files = [f"--ignore=tests/{name}" for need in plan.left_out if not need.marker for name in need.tests]
        paths = [f"tests/{name}" for name in self.paths]
        return [
            sys.executable,
            "-m",
            "pytest",
            *given,
            *notes,
            "-m",
            " and ".join(markers),
            *options,
            *files,
            *paths,
        ]

    def failed_tests(self) -> list[str]:
        """Return the tests that failed in the last run of the stage."""
        try:
            return sorted(json.loads(self._last_failed.read_text()))
        except FileNotFoundError:
            return []

    @property
    def _last_failed(self) -> Path:
        return NOTES / self.name / "v" / "cache" / "lastfailed"


def run(argv: Sequence[str], **streams: Any) -> Ended:
    began_at = time.monotonic()
    process = subprocess.Popen(argv, cwd=CHECKOUT, stdin=subprocess.DEVNULL, **streams)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Ended(process.returncode, time.monotonic() - began_at, usage.ru_utime + usage.ru_stime)


# tests/architecture is run by bin/check.
WITHOUT_ENGINE = "not docker and not e2e and not faults and not walk"
SIDE_BY_SIDE = ("-n2", "--dist=worksteal")
# Life cycles are not pure, but have the same coverage floor.
LIFE_CYCLES = (
    "db/agents/machines/test_lifecycle.py",
    "db/sessions_app/queue/test_endings.py",
    "db/sessions_app/lifecycle/test_session_lifecycle.py",
    "db/sessions_app/lifecycle/test_termination_deadline.py",
    "db/vfolders/test_folders.py",
)
PURE = Stage(
    "pure",
    "rules, laws and life cycles",
    WITHOUT_ENGINE,
    ("unit", "property", *LIFE_CYCLES),
    SIDE_BY_SIDE,
    is_measured=True,
)
FAST = Stage(
    "fast",
    "without engine and browser",
    WITHOUT_ENGINE,
    ("db", "api", "web", "ws", "access", "client", "contract", "ops"),
    (*SIDE_BY_SIDE, *(f"--ignore=tests/{name}" for name in LIFE_CYCLES)),
    is_measured=True,
)
# Never with coverage, which doubles Python's time: these tests repeat the same requests thousands
# of times.
WALKS = Stage(
    "walks",
    "walks: everybody asks for everything, the engine whatever there may be",
    "walk",
    (
        "access",
        "property",
        "db/accounts/sign_in/test_throttle_concurrency.py",
        "db/sessions_app/admission/test_limits_concurrency.py",
    ),
    SIDE_BY_SIDE,
)
# A file stays with one worker, which shares a portal and a browser among its files. Order as in
# tests/e2e/conftest.py: by itself pytest-xdist would run files with few tests, the longest, last.
WHOLE = Stage(
    "whole",
    "a real engine, a real browser, the whole portal",
    "(docker or e2e)",
    ("e2e", "docker", "contract", "ops", "db/portal/management/test_first_run.py"),
    ("-n2", "--dist=loadfile", "--no-loadscope-reorder"),
    is_measured=True,
)
# Never with coverage: these tests run processes of a portal, not this one.
FAULTS = Stage(
    "faults",
    "machines, engines and processes of a portal are killed",
    "faults",
    ("faults", "cluster"),
    ("-p", "tests.faults.results"),
)
STAGES = (PURE, FAST, WALKS, WHOLE, FAULTS)
# In parallel if a processor would be idle.
TURNS = ((PURE,), (FAST, WALKS), (WHOLE, FAULTS))
