"""pytest plugin that keeps the result of each test in RESULTS, from which docs/faults.md is written.

`-p tests.faults.results --keep-results` replaces the results of the tests that ran, and leaves others.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parent / "results.json"
PROPERTIES = ("seen", "recovered_s", "looks")

_ended: dict[str, dict[str, Any]] = {}
_settings = {"keeps": False}


def read() -> dict[str, dict[str, Any]]:
    """Return {test: {passed, on, and what the fault's fixture told of it}}."""
    found: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-results", action="store_true", help=f"write results to {RESULTS.name}")


def pytest_configure(config: pytest.Config) -> None:
    _settings["keeps"] = config.getoption("--keep-results")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the result, and write it when the test is over: a run that is cut short has some too."""
    test = report.nodeid.removeprefix("tests/").partition("[")[0]
    result = _ended.setdefault(test, {"passed": True, "on": f"{datetime.now(UTC):%Y-%m-%d}"})
    result["passed"] &= not report.failed
    result |= {name: value for name, value in report.user_properties if name in PROPERTIES}
    if _settings["keeps"] and report.when == "teardown":
        merged = dict(sorted({**read(), **_ended}.items()))
        RESULTS.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n")
