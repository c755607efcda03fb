"""The report of `bin/faults` is written by complete runs only."""

from pathlib import Path

import pytest

from portal.ops.paths import CHECKOUT
from tests.faults import report

DOCUMENT = CHECKOUT / "docs" / "faults.md"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[report.Row]:
    """Those of a run; none yet."""
    rows: list[report.Row] = []
    monkeypatch.setattr(report, "ROWS", rows)
    return rows


def row_of(fault: str) -> report.Row:
    return report.Row(fault, "It was done.", "It was seen.", 1.0, looks=7)


def test_a_run_of_some_faults_leaves_the_report_as_it_was(rows: list[report.Row], tmp_path: Path) -> None:
    rows += map(row_of, report.left_out()[2:])
    file = tmp_path / "faults.md"
    assert (
        report.conclude(file, is_green=True)
        == f"{file} stays as it was: this run was without 2 of the faults."
    )
    assert not file.exists()


def test_a_whole_run_writes_the_report_if_it_is_green(rows: list[report.Row], tmp_path: Path) -> None:
    faults = report.left_out()
    rows += map(row_of, faults)
    file = tmp_path / "faults.md"
    assert "not green" in report.conclude(file, is_green=False)
    assert not file.exists()

    assert report.conclude(file, is_green=True) == f"{file} was written."
    assert all(f"| {fault} | It was done. |" in file.read_text() for fault in faults)


def test_the_document_tells_of_every_fault_that_there_is(rows: list[report.Row]) -> None:
    document = DOCUMENT.read_text()
    assert [fault for fault in report.left_out() if f"| {fault} |" not in document] == []
