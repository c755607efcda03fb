"""The matrix of faults names tests that exist, and all tests of faults."""

from tests.faults import report
from tests.faults.matrix import MATRIX

REQUIRED = {*range(1, 16), 17, 18, 20, 21, *range(23, 28), 29, 31}
FOLDERS = ("faults", "cluster")


def test_every_required_fault_has_a_test() -> None:
    assert {kind.number for kind in MATRIX} >= REQUIRED
    assert [kind.number for kind in MATRIX if not (kind.tests or kind.elsewhere)] == []


def test_every_test_that_the_matrix_names_is_there() -> None:
    for kind in MATRIX:
        for test in kind.tests:
            file, _, name = test.partition("::")
            assert name in report.functions_of(file), test
        assert [name for name in kind.elsewhere if not (report.TESTS / name).is_file()] == []


def test_every_test_of_a_fault_is_in_the_matrix() -> None:
    files = [file for folder in FOLDERS for file in (report.TESTS / folder).glob("test_*.py")]
    tests = {
        f"{file.parent.name}/{file.name}::{name}"
        for file in files
        for name, function in report.functions_of(f"{file.parent.name}/{file.name}").items()
        if name.startswith("test_") and "fault" in {argument.arg for argument in function.args.args}
    }
    assert tests - {test for kind in MATRIX for test in kind.tests} == set()


def test_the_document_is_what_the_matrix_and_the_results_say() -> None:
    assert report.FILE.read_text() == report.render(), "Write it anew: python -m tests.faults.report"
