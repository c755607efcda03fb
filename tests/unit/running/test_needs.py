"""Limits of durations, and selection of the tests that a change needs."""

import json
from pathlib import Path

import pytest

from tests.running import durations, imports, needs
from tests.running.needs import Need


def test_folders_and_long_files_have_lines(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(json.dumps({"tests/web/test_a.py": 1.0, "tests/db/test_b.py": 4.0}))
    (tmp_path / "two").write_text(json.dumps({"tests/db/test_b.py": 2.0}))
    assert durations.lines_of(tmp_path.iterdir()) == {
        "tests/db/": 6.0,
        "tests/db/test_b.py": 6.0,
        "tests/web/": 1.0,
    }


def test_a_folder_that_grows_is_a_fault_and_one_that_shrinks_lowers_its_line(tmp_path: Path) -> None:
    file = tmp_path / "durations.txt"
    assert durations.grown({"tests/db/": 100.0, "tests/web/": 50.0}, file=file) == []
    assert durations.grown({"tests/db/": 114.0, "tests/web/": 40.0}, file=file) == []
    assert durations.read_lines(file) == {"tests/db/": 100.0, "tests/web/": 40.0}

    [fault] = durations.grown({"tests/db/": 116.0, "tests/web/": 40.0}, file=file)
    assert fault.startswith("tests/db/ takes 116 CPU s")
    assert durations.read_lines(file)["tests/db/"] == 100.0


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one module, one test of it, and one need of that test; no test has passed yet."""
    for name in ("tests", "room"):
        (tmp_path / name).mkdir()
    (tmp_path / "room" / "rules.py").write_text("import math\n")
    (tmp_path / "room" / "others.py").touch()
    (tmp_path / "tests" / "test_rules.py").write_text("from room.rules import x\n")
    monkeypatch.setattr(needs, "CHECKOUT", tmp_path)
    monkeypatch.setattr(needs, "TESTS", tmp_path / "tests")
    monkeypatch.setattr(needs, "GREEN", tmp_path / "green")
    monkeypatch.setattr(needs, "NEEDS", (Need("rules", ("test_rules.py",)),))
    monkeypatch.setattr(needs, "commits", lambda: 1)  # the turn of the second need, which there is none
    monkeypatch.setattr(imports, "ROOTS", (tmp_path,))
    return tmp_path


def left_out() -> list[str]:
    imports.imports_of.cache_clear()
    imports.names_in.cache_clear()
    imports.files_of.cache_clear()
    return [need.name for need in needs.plan(is_wide=False).left_out]


def test_what_has_passed_is_left_out_until_something_it_imports_changes(checkout: Path) -> None:
    assert left_out() == []
    needs.keep(needs.plan(is_wide=False))
    assert left_out() == ["rules"]
    assert needs.plan(is_wide=True).left_out == ()

    (checkout / "room" / "others.py").write_text("y = 1\n")
    assert left_out() == ["rules"]
    (checkout / "room" / "rules.py").write_text("import cmath\n")
    assert left_out() == []


def test_what_was_left_out_has_its_turn(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.keep(needs.plan(is_wide=False))
    monkeypatch.setattr(needs, "commits", lambda: 5)
    assert left_out() == []


def test_what_changed_during_the_run_is_not_noted(checkout: Path) -> None:
    begun = needs.plan(is_wide=False)
    (checkout / "room" / "rules.py").write_text("import cmath\n")
    imports.imports_of.cache_clear()
    needs.keep(begun)
    assert left_out() == []
