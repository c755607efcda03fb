"""Rules of the test suite."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from portal.ops.paths import CHECKOUT
from tests.running import needs
from tests.running.imports import closure_of, names_in
from tests.running.stages import FAST, FAULTS, PURE, WALKS, WHOLE, Stage

TESTS = CHECKOUT / "tests"
WORLDLY = {"django", "rest_framework", "celery", "redis", "docker", "psycopg"}
STAGES_OF = {"walk": WALKS, "docker": WHOLE, "e2e": WHOLE, "faults": FAULTS}


def is_in(file: Path, stage: Stage) -> bool:
    return any(file.is_relative_to(TESTS / path) for path in stage.paths)


def files_with(marker: str) -> set[Path]:
    return {file for file in TESTS.glob("*/**/*.py") if re.search(rf"\bmark\.{marker}\b", file.read_text())}


@pytest.mark.parametrize("marker", STAGES_OF)
def test_a_marker_stands_where_its_stage_looks(marker: str) -> None:
    """A stage imports its own paths alone: elsewhere a marker would stand at tests that never run."""
    marked = files_with(marker)
    assert marked
    assert {file for file in marked if not is_in(file, STAGES_OF[marker])} == set()


def test_every_file_of_tests_belongs_to_a_stage_or_to_the_checks() -> None:
    files = {file for file in TESTS.glob("*/**/test_*.py") if not (is_in(file, PURE) or is_in(file, FAST))}
    marked = set().union(*(files_with(marker) for marker in STAGES_OF))
    assert {file for file in files - marked if file.parent.name != "architecture"} == set()


def test_laws_that_are_left_out_by_their_imports_import_pure_modules_alone() -> None:
    """Django finds modules by names in its settings, which the text of a file does not tell."""
    impure = {
        need.name: found
        for need in needs.laws()
        for found in [worldly_imports(TESTS / name for name in need.tests)]
        if found
    }
    assert impure == {}


def worldly_imports(files: Iterable[Path]) -> set[str]:
    names = {name.partition(".")[0] for file in closure_of(files) for name in names_in(file)}
    return names & WORLDLY


def test_every_file_that_a_need_names_is_there() -> None:
    patterns = {pattern.removeprefix("!") for need in needs.NEEDS for pattern in need.files}
    assert {pattern for pattern in {*patterns, *needs.EVERYBODYS} if not needs.matching([pattern])} == set()
    assert [name for need in needs.NEEDS for name in need.tests if not (TESTS / name).is_file()] == []
    for need in needs.NEEDS:
        if need.marker:
            assert files_with(need.marker) == {TESTS / name for name in need.tests}
