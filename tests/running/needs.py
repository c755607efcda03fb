"""Select the tests that a change needs.

Some tests are long and depend on few files. When they pass, a hash of those files is stored outside
of the checkout, shared by all clones on the machine; while it matches, `bin/test` skips them,
except for a fifth that changes with each commit. `bin/test --all` skips nothing.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from portal.ops.paths import CHECKOUT, content_hash
from tests.running.floors import PURE_MODULES
from tests.running.imports import closure_of

TESTS = CHECKOUT / "tests"
GREEN = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth" / "green"
KEPT_S = 30 * 24 * 3600
SLICES = 5  # so each test runs at least at every fifth commit
COVERAGE = "coverage of pure modules"

# Files that any test may depend on: patterns relative to the checkout; `!` excludes files again.
EVERYBODYS = (
    "requirements*.txt",
    "pyproject.toml",
    "portal/settings.py",
    "tests/conftest.py",
    "tests/settings.py",
    "tests/running/*.py",
)
PAGES = (
    "*/web/**/*",
    "!tests/web/**/*",
    "templates/**/*",
    "static/**/*",
    "common/**/*.py",
    "portal/locale/**/*",
)
REST = ("*/api/**/*.py", "!tests/api/**/*")
SESSIONS = ("sessions_app/**/*.py", "!sessions_app/web/**/*", "!sessions_app/api/**/*")
GATEWAY = ("sessions_app/gateway/**/*.py", "common/**/*.py", "transport/**/*.py")


@dataclass(frozen=True, slots=True)
class Need:
    """Tests with the product files they depend on, besides what the tests import from tests/."""

    name: str
    tests: tuple[str, ...]  # relative to tests/
    files: tuple[str, ...] = ()
    marker: str = ""  # of tests, if only some tests of these files are meant

    def key(self) -> str:
        """Return a short hash over all files that the result depends on."""
        tests = [TESTS / name for name in self.tests]
        around = {
            folder / "conftest.py" for path in tests for folder in path.parents if TESTS in folder.parents
        }
        theirs = closure_of(path for path in (*tests, *around) if path.is_file())
        if self.files:  # otherwise all files that the tests import
            theirs = {path for path in theirs if path.is_relative_to(TESTS)}
        return f"{content_hash(sorted(theirs | matching((*EVERYBODYS, *self.files))))}-{sys.version_info[1]}"

    @property
    def note(self) -> Path:
        return GREEN / f"{self.name.replace(' ', '_')}-{self.key()}"


NEEDS = (
    Need("accessibility", ("e2e/test_accessibility.py",), PAGES),
    Need("languages", ("e2e/test_languages.py",), PAGES),
    Need("hostile app", ("e2e/test_hostile_app.py",), GATEWAY),
    Need("idle notebook", ("e2e/test_idle_notebook.py",), (*GATEWAY, *SESSIONS)),
    Need(
        "survival", ("e2e/test_portal_restart.py",), ("portal/**/*.py", "agents/**/*.py", *GATEWAY, *SESSIONS)
    ),
    Need("command line", ("e2e/test_command_line.py",), ("client/src/**/*.py", *REST)),
    Need("first starts", ("ops/test_up.py",), ("portal/ops/**/*", "bin/*", "*/migrations/**/*")),
    Need("REST document", ("access/test_document.py",), (*REST, "common/**/*.py")),
    Need(
        "rare faults",
        tuple(
            f"faults/test_{name}.py"
            for name in ("control_plane", "engines", "killed_workers", "clock", "messages", "requests")
        ),
        ("agents/**/*.py", "common/**/*.py", "portal/ops/**/*", *SESSIONS),
        marker="rare",
    ),
    Need("chaos", ("faults/test_chaos.py",), ("scheduler/**/*.py", "agents/**/*.py", *SESSIONS)),
    Need(COVERAGE, (), (*PURE_MODULES, "tests/unit/**/*.py", "tests/property/*.py")),
)


def laws() -> Iterator[Need]:
    """Yield a need for each property test file that imports pure modules only.

    Nothing else can change its result; `tests/architecture/test_suite.py` enforces it.
    """
    for path in sorted(TESTS.glob("property/test_*.py")):
        if path.name not in IMPURE_LAWS:
            yield Need(f"laws {path.stem}", (f"property/{path.name}",))


IMPURE_LAWS = {"test_allocated_capacity.py"}


def matching(patterns: Iterable[str]) -> set[Path]:
    """Return the files matching the patterns, in order: a later `!` excludes earlier matches."""
    found: set[Path] = set()
    for pattern in patterns:
        paths = {path for path in CHECKOUT.glob(pattern.removeprefix("!")) if path.is_file()}
        found = found - paths if pattern.startswith("!") else found | paths
    return {path for path in found if "__pycache__" not in path.parts}


@dataclass(frozen=True, slots=True)
class Plan:
    """Selection of a run: its width, and the tests to skip."""

    is_wide: bool
    left_out: tuple[Need, ...] = ()
    notes: tuple[Path, ...] = field(default=(), repr=False)  # written if all pass

    def leaves_out(self, name: str) -> bool:
        return any(need.name == name for need in self.left_out)


def plan(*, is_wide: bool) -> Plan:
    needs = (*NEEDS, *laws())
    notes = {need: need.note for need in needs}
    turn = commits() % SLICES
    left_out = (
        ()
        if is_wide
        else tuple(
            need for number, need in enumerate(needs) if notes[need].exists() and number % SLICES != turn
        )
    )
    return Plan(is_wide, left_out, tuple(note for need, note in notes.items() if need not in left_out))


def keep(done: Plan) -> None:
    """Record that the selected tests passed, unless a file has changed meanwhile."""
    GREEN.mkdir(parents=True, exist_ok=True)
    now = {need.note for need in (*NEEDS, *laws())}
    for note in done.notes:
        if note in now:
            note.touch()
    for old in GREEN.iterdir():
        if old.stat().st_mtime < time.time() - KEPT_S:
            old.unlink(missing_ok=True)


def commits() -> int:
    """Return the number of commits; 0 outside of a repository."""
    argv = ["git", "rev-list", "--count", "HEAD"]
    count = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return int(count.stdout or 0)
