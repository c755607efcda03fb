"""Rules of the test suite."""

import re
from pathlib import Path

import pytest

from portal.ops.layout import CHECKOUT
from tests.suite import FAST, FAULTS, WALKS, WHOLE, Stage

TESTS = CHECKOUT / "tests"
STAGES_OF = {"walk": WALKS, "docker": WHOLE, "e2e": WHOLE, "faults": FAULTS}


def is_in(file: Path, stage: Stage) -> bool:
    return any(file.is_relative_to(TESTS / path) for path in stage.paths)


def files_with(marker: str) -> set[Path]:
    return {file for file in TESTS.glob("*/*.py") if re.search(rf"\bmark\.{marker}\b", file.read_text())}


@pytest.mark.parametrize("marker", STAGES_OF)
def test_a_marker_stands_where_its_stage_looks(marker: str) -> None:
    """A stage imports its own paths alone: elsewhere a marker would stand at tests that never run."""
    marked = files_with(marker)
    assert marked
    assert {file for file in marked if not is_in(file, STAGES_OF[marker])} == set()


def test_every_file_of_tests_belongs_to_a_stage_or_to_the_checks() -> None:
    files = {file for file in TESTS.glob("*/test_*.py") if not is_in(file, FAST)}
    marked = set().union(*(files_with(marker) for marker in STAGES_OF))
    assert {file for file in files - marked if file.parent.name != "architecture"} == set()
