"""Write docs/faults.md from the matrix of faults and the results of tests: `python -m tests.faults.report`."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.faults import results
from tests.faults.matrix import MATRIX, FaultKind

TESTS = Path(__file__).parent.parent
FILE = TESTS.parent / "docs" / "faults.md"
HEAD = """# Faults, and what became of them

Written by `python -m tests.faults.report` from `tests/faults/matrix.py` and the last result of each test; do not edit.
`bin/faults` runs all tests, keeps their results and writes this file; `bin/test` runs those that are quick, and
`bin/test --faults` all.

During each fault an observer, which asks PostgreSQL and the engines itself, looks several times a second for what must
never be: a session twice or in two containers, a container that runs although its session has ended, a session past its
deadline, an end without a cause, a step that is not in the table of states, a ledger that is not the sum of live sessions.
At the end of each it demands that every live session runs in exactly one container, and that no container, network, volume
or helper is left over. With the faults of `tests/faults` somebody has an app open all the while; those of `tests/cluster`
are done to three engines with networks, disks and power of their own, which the observer also sees while the portal does
not. How it is done: [ADR 16](adr/0016-test-faults-on-dedicated-engines.md). “Heals in” is the time from the fault until
the observer found everything in order, of one run on a small machine; it contains the fault itself where it lasts.

What happens when everything comes at once and at random, processes killed at any instruction, `bin/faults chaos` finds out; what it did and saw
stands with the [scheduler](subsystems/scheduler.md#chaos).

## Matrix
Numbers that are missing are faults of accelerators, storage, memory and releases, which other tests have.

| # | Fault | How it is injected | What must hold | Result | Heals in |
|---|---|---|---|---|---|
"""
DETAILS = """
## What was done and seen

| # | What was done | What was seen | Heals in |
|---|---|---|---|
"""


def render() -> str:
    found = results.read()
    looks = sum(result.get("looks", 0) for result in found.values())
    rows = "".join(f"{_row(kind, found)}\n" for kind in MATRIX)
    details = "".join(f"{line}\n" for kind in MATRIX for line in _details(kind, found))
    left_out = "".join(f"- {kind.number}: {kind.left_out}\n" for kind in MATRIX if kind.left_out)
    return (
        f"{HEAD}{rows}{DETAILS}{details}\nThe observer looked {looks} times.\n\n## Not injected\n{left_out}"
    )


def _row(kind: FaultKind, found: dict[str, dict[str, Any]]) -> str:
    ran = [found[test] for test in kind.tests if test in found]
    missing = len(kind.tests) - len(ran)
    if not all(result["passed"] for result in ran):
        outcome = "**failed**"
    elif missing:
        outcome = f"holds; {missing} of {len(kind.tests)} tests not run yet" if ran else "not run yet"
    else:
        outcome = "holds" if ran else ""
    if kind.elsewhere:
        others = ", ".join(f"`{test}`" for test in kind.elsewhere)
        outcome = f"{outcome}; {others} in `bin/test`" if outcome else f"see {others} in `bin/test`"
    times = [result["recovered_s"] for result in ran if "recovered_s" in result]
    heals = f"{max(times):.0f} s" if times else "–"
    return f"| {kind.number} | {kind.title} | {kind.injected} | {kind.must_hold} | {outcome} | {heals} |"


def _details(kind: FaultKind, found: dict[str, dict[str, Any]]) -> Iterator[str]:
    for test in kind.tests:
        if seen := found.get(test, {}).get("seen"):
            seconds = found[test]["recovered_s"]
            yield f"| {kind.number} | {docstring_of(test)} | {seen} | {seconds:.0f} s |"


@cache
def functions_of(file: str) -> dict[str, ast.FunctionDef]:
    """Return the test functions of a file, relative to tests/, by name."""
    parsed = ast.parse((TESTS / file).read_text())
    return {each.name: each for each in parsed.body if isinstance(each, ast.FunctionDef)}


def docstring_of(test: str) -> str:
    file, _, name = test.partition("::")
    return " ".join((ast.get_docstring(functions_of(file)[name]) or "").split())


if __name__ == "__main__":
    FILE.write_text(render())
