"""Results of these tests, from which docs/faults.md is written."""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HEAD = """# Faults, and what became of them

Written by `bin/faults` from a run of `tests/faults`; do not edit. Each line is a test: what was broken while the portal
worked, what was seen, and how long it took until an observer, which asks PostgreSQL and the engines itself, found
everything in order again. The times are of one run on a small machine and contain the fault itself where it lasts.

During each fault the observer looks several times a second for what must never be: a session twice or in two
containers, a container that runs although its session has ended, a session past its deadline, an end without a cause, a
step that is not in the table of states, a ledger that is not the sum of live sessions. At the end of each it demands
that every live session runs in exactly one container, and that no container, network, volume or helper is left over.
Somebody has an app open all the while. How it is done: [ADR 16](adr/0016-test-faults-on-dedicated-engines.md).

What happens when everything comes at once and at random, processes killed at any instruction, `bin/faults chaos` finds out; what it did and saw
stands with the [scheduler](subsystems/scheduler.md#chaos).

| Fault | What was done | What was seen | In order again after |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Row:
    fault: str
    done: str
    seen: str
    recovered_s: float
    looks: int

    @classmethod
    def of(cls, test: Callable[..., object], seen: str, recovered_s: float, looks: int) -> "Row":
        done = " ".join((inspect.getdoc(test) or "").split())
        return cls(title_of(test.__name__), done, seen, recovered_s, looks)


ROWS: list[Row] = []


def title_of(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ").capitalize()


def conclude(file: Path, *, is_green: bool) -> str:
    """Write the report of a run that saw every fault and nothing that must not be; otherwise it stays as it was. What to say."""
    missing = left_out()
    if is_green and not missing:
        write(file)
        return f"{file} was written."
    why = f"without {len(missing)} of the faults" if is_green else "not green"
    return f"{file} stays as it was: this run was {why}."


def left_out() -> list[str]:
    """Faults that there are tests of, and no row."""
    parsed = [ast.parse(file.read_text()) for file in Path(__file__).parent.glob("test_*.py")]
    tests = [each for module in parsed for each in module.body if isinstance(each, ast.FunctionDef)]
    faults = [test.name for test in tests if "fault" in (given.arg for given in test.args.args)]
    return sorted(set(map(title_of, faults)) - {row.fault for row in ROWS})


def write(file: Path) -> None:
    lines = [f"| {row.fault} | {row.done} | {row.seen} | {row.recovered_s:.0f} s |\n" for row in ROWS]
    looks = sum(row.looks for row in ROWS)
    file.write_text(
        f"{HEAD}{''.join(lines)}\nThe observer looked {looks} times and saw nothing that must not be.\n"
    )
