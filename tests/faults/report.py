"""What a run of these tests did and saw: docs/faults.md is written from it."""

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
Somebody has an app open all the while. How it is done: [ADR 16](adr/0016-faults-are-tested-on-engines-of-our-own.md).

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
        name = test.__name__.removeprefix("test_").replace("_", " ")
        done = " ".join((inspect.getdoc(test) or "").split())
        return cls(name[0].upper() + name[1:], done, seen, recovered_s, looks)


ROWS: list[Row] = []


def write(file: Path) -> None:
    lines = [f"| {row.fault} | {row.done} | {row.seen} | {row.recovered_s:.0f} s |\n" for row in ROWS]
    looks = sum(row.looks for row in ROWS)
    file.write_text(
        f"{HEAD}{''.join(lines)}\nThe observer looked {looks} times and saw nothing that must not be.\n"
    )
