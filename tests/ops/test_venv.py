"""Which Python the virtual environment is made with."""

import sys
from math import inf
from pathlib import Path

import pytest

from portal.ops import venv
from portal.ops.venv import faster_python

NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"
OURS = Path(sys.executable)


@pytest.mark.parametrize(
    ("says", "is_taken"),
    [
        pytest.param("echo 0.000000001", True, id="faster"),
        pytest.param("echo 1000", False, id="slower"),
        pytest.param("exit 1", False, id="cannot make environments"),
        pytest.param("echo broken", False, id="says nothing of use"),
        pytest.param(f'exec {OURS} "$@"', False, id="the same"),
    ],
)
def test_the_machines_own_python_is_taken_where_it_is_clearly_faster(
    tmp_path: Path, says: str, is_taken: bool
) -> None:
    system = tmp_path / NAME
    system.write_text(f"#!/bin/sh\n{says}\n")
    system.chmod(0o755)
    assert faster_python(tmp_path) == (system if is_taken else OURS)


def test_a_machine_without_one_of_this_version_keeps_ours(tmp_path: Path) -> None:
    assert faster_python(tmp_path) == OURS


def test_what_cannot_be_measured_is_not_called_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venv, "speed_s", lambda python: inf if python == OURS else 99.0)
    assert faster_python(tmp_path) == OURS


def test_what_seems_faster_while_the_machine_is_busy_is_not_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_turns = iter([1.5] * (venv.TURNS // 2))
    monkeypatch.setattr(venv, "speed_s", lambda python: next(slow_turns, 1.0) if python == OURS else 1.0)
    assert faster_python(tmp_path) == OURS


def test_what_is_faster_is_found_on_a_machine_that_was_faster_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of the slower one, in that moment, is as good as the best of the other in all that follow."""
    speeds = iter([0.5, 1.0] * 2 + [1.4, 1.0] * venv.TURNS)
    monkeypatch.setattr(venv, "speed_s", lambda _python: next(speeds))
    assert faster_python(tmp_path) == tmp_path / NAME


def test_the_environment_is_made_with_the_faster_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    python.chmod(0o755)
    monkeypatch.setattr(venv, "faster_python", lambda: python)
    venv.create_venv(tmp_path / "there", lambda _line: None)
    assert (tmp_path / "asked").read_text() == f"-I -m venv {tmp_path}/there\n"
