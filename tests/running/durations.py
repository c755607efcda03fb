"""Measure CPU seconds of tests (a pytest plugin), and limit their growth in `bin/test --all`.

Counts the test's process and its ended children, which a busy machine changes little; shared
servers are not counted. tests/durations.txt has a line for each folder of tests/, and for each file
of more than `LONG_S`.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from portal.ops.paths import CHECKOUT

FILE = CHECKOUT / "tests" / "durations.txt"
LONG_S = 3.0
MOST_ABOVE = 1.1
NOISE_S = 5.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--durations-to", type=Path, help="write {file: CPU seconds} of the tests that ran here")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Stopwatch(config.getoption("--durations-to")))


class Stopwatch:
    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._seconds: Counter[str] = Counter()
        self._as_of = 0.0

    def pytest_runtest_logstart(self) -> None:
        self._as_of = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Any:
        """Measure where the test runs; pytest-xdist carries the value in the report to where it is
        summed.
        """
        report = yield
        now = cpu_seconds()
        report.cpu_s, self._as_of = now - self._as_of, now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += getattr(
            report, "cpu_s", 0.0
        )  # reports of a crashed worker have no value

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._file and not hasattr(session.config, "workerinput"):
            self._file.write_text(json.dumps(self._seconds))


def cpu_seconds() -> float:
    return sum(os.times()[:4])


def lines_of(files: Iterable[Path]) -> dict[str, float]:
    """Return the seconds of folders and long files from the stages' results."""
    seconds: Counter[str] = Counter()
    for file in files:
        for name, its in json.loads(file.read_text()).items():
            seconds[name] += its
    folders: Counter[str] = Counter()
    for name, its in seconds.items():
        folders["/".join(Path(name).parts[:2]) + "/"] += its
    return dict(sorted({**folders, **{name: its for name, its in seconds.items() if its > LONG_S}}.items()))


def grown(lines: Mapping[str, float], *, file: Path = FILE) -> list[str]:
    """Return a sentence for each folder above its limit; lowers the limits of the others.

    Adds missing lines. A limit is raised by editing the file, so that a reviewer sees it.
    """
    before = read_lines(file)
    faults = [
        f"{name} takes {its:.0f} CPU s; its line in {file.name} says {before[name]:.0f}"
        for name, its in lines.items()
        if name.endswith("/") and name in before and its > before[name] * MOST_ABOVE + NOISE_S
    ]
    kept = {name: min(its, before.get(name, its)) for name, its in lines.items()}
    file.write_text("".join(f"{its:7.1f} {name}\n" for name, its in kept.items()))
    return faults


def read_lines(file: Path = FILE) -> dict[str, float]:
    if not file.exists():
        return {}
    rows = (line.split(maxsplit=1) for line in file.read_text().splitlines())
    return {name: float(seconds) for seconds, name in rows}
