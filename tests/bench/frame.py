"""Run measures in turns with a peer: medians of the ratios, a table, JSON.

A bench is a module with `bench(options) -> list[Row]`. Machines differ and are never quiet, so only
values of one run, measured in turns, are compared; absolute numbers are for orientation.
"""

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from portal.ops.console import speaker
from portal.ops.paths import Layout

say = speaker("bench")


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `bin/bench`.

    `is_given`: a data directory was given. `only`: part of a measure's name. `with_peer`: install a
    large peer. `offered`: collects the names of all measures.
    """

    layout: Layout
    is_given: bool
    rounds: int
    only: str = ""
    with_peer: bool = False
    offered: list[str] = field(default_factory=list)

    def wants(self, measure: str) -> bool:
        """Return True if this measure was selected; records its name."""
        self.offered.append(measure)
        return self.only in measure


@dataclass(frozen=True, slots=True)
class Target:
    """Limit of the median ratio ours / peer or, if `of_ratio` is False, of our worst round."""

    limit: float
    is_floor: bool
    of_ratio: bool = True

    def __str__(self) -> str:
        return f"{'≥' if self.is_floor else '≤'} {self.limit:g}{' ×' if self.of_ratio else ''}"


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity, measured again by each call, for Berth (`ours`) and perhaps a peer.

    `both` measures the two together, for peers so slow that the machine's speed changes meanwhile.
    """

    name: str
    unit: str
    ours: Callable[[], float]
    peer: Callable[[], float] | None = None
    target: Target | None = None
    most_rounds: int = 100  # lower for slow measures with little variance
    both: Callable[[], tuple[float, float]] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Result of a measure. `ours` and `peer` are medians.

    `ratio` is the median of the rounds' ratios, between `lowest` and `highest`.
    """

    measure: str
    unit: str
    ours: float
    worst: float
    peer: float | None
    ratio: float | None
    lowest: float | None
    highest: float | None
    target: str
    holds: bool | None


def at_least(limit: float) -> Target:
    return Target(limit, is_floor=True)


def at_most(limit: float) -> Target:
    return Target(limit, is_floor=False)


def never_above(limit: float) -> Target:
    """Return an upper limit for a quantity without a peer, such as megabytes of growth."""
    return Target(limit, is_floor=False, of_ratio=False)


def never_below(limit: float) -> Target:
    """Return a lower limit for a quantity without a peer, such as percent of capacity used."""
    return Target(limit, is_floor=True, of_ratio=False)


def measure_in_turns(measures: Sequence[Measure], options: Options) -> list[Row]:
    """Return a row for each measure selected by `options.only`; the first to run alternates by
    round.
    """
    rows = []
    for measure in measures:
        if not options.wants(measure.name):
            continue
        ours: list[float] = []
        peers: list[float] = []
        for number in range(min(options.rounds, measure.most_rounds)):
            if measure.both:
                mine, theirs = measure.both()
                ours.append(mine)
                peers.append(theirs)
                continue
            turns = [(ours, measure.ours), *([(peers, measure.peer)] if measure.peer else [])]
            for values, run in turns if number % 2 else reversed(turns):
                values.append(run())
        rows.append(row_of(measure, ours, peers))
        say(_line(rows[-1]))
    return rows


def row_of(measure: Measure, ours: Sequence[float], peers: Sequence[float]) -> Row:
    """Summarise the rounds of a measure.

    The ratio is missing without a peer, or if the peer is 0.
    """
    ratios = [mine / theirs for mine, theirs in zip(ours, peers, strict=True) if theirs] if peers else []
    ratio = statistics.median(ratios) if ratios else None
    worst = min(ours) if measure.target and measure.target.is_floor else max(ours)
    return Row(
        measure=measure.name,
        unit=measure.unit,
        ours=_short(statistics.median(ours)),
        worst=_short(worst),
        peer=_short(statistics.median(peers)) if peers else None,
        ratio=round(ratio, 3) if ratio is not None else None,
        lowest=round(min(ratios), 3) if ratios else None,
        highest=round(max(ratios), 3) if ratios else None,
        target=str(measure.target or ""),
        holds=_holds(measure.target, ratio, worst),
    )


def _holds(target: Target | None, ratio: float | None, worst: float) -> bool | None:
    if target is None:
        return None
    value = ratio if target.of_ratio else worst
    if value is None:
        return False
    return value >= target.limit if target.is_floor else value <= target.limit


def _short(value: float) -> float:
    """Round to four significant digits."""
    return float(f"{value:.4g}")


HEADS = ("measure", "unit", "ours", "worst", "peer", "ratio", "min", "max", "target", "")


def as_table(name: str, rows: Sequence[Row]) -> str:
    lines = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    machine = ", ".join(f"{fact} {value}" for fact, value in machine_facts().items())
    return "\n".join((f"\n{name}  ({machine})", *(line.rstrip() for line in table)))


def _cells(row: Row) -> tuple[str, ...]:
    numbers = (row.ours, row.worst, row.peer, row.ratio, row.lowest, row.highest)
    verdict = "" if row.holds is None else "ok" if row.holds else "MISSED"
    return (row.measure, row.unit, *("" if n is None else f"{n:g}" for n in numbers), row.target, verdict)


def _line(row: Row) -> str:
    return " ".join(cell for cell in _cells(row) if cell)


def as_json(name: str, rows: Sequence[Row]) -> str:
    told = {
        "name": name,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "rows": [asdict(row) for row in rows],
    }
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def machine_facts() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpus": str(os.cpu_count()),
        "model": _cpu_model(),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "python": f"{sys.version.split()[0]}, {os.path.realpath(sys.executable)}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
