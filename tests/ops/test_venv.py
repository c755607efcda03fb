"""Choice of the Python for the virtual environment."""

import sys
from pathlib import Path

import pytest

from portal.ops.errors import PreflightFailed
from portal.ops.paths import find_layout
from portal.ops.setup import venv
from portal.ops.setup.env_file import write_env
from portal.ops.setup.venv import create_venv, first_suitable_python, run_in_venv

OURS = Path(sys.executable)


@pytest.fixture
def system_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path in place of /usr/bin/python3, where nothing is yet."""
    path = tmp_path / "python3"
    monkeypatch.setattr(venv, "SYSTEM_PYTHON", path)
    return path


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_the_python_of_the_system_is_preferred(system_python: Path) -> None:
    write_program(system_python, f'exec {OURS} "$@"')

    assert first_suitable_python() == system_python


def test_a_system_python_that_is_too_old_or_lacks_ensurepip_is_passed_over(system_python: Path) -> None:
    write_program(system_python, "exit 1")

    assert first_suitable_python() == OURS


def test_a_machine_without_a_system_python_uses_the_one_that_runs(system_python: Path) -> None:
    assert first_suitable_python() == OURS


def test_the_environment_is_made_with_the_suitable_python(system_python: Path, tmp_path: Path) -> None:
    write_program(system_python, f'echo "$@" > {tmp_path}/arguments')

    create_venv(tmp_path / "there", lambda _line: None)

    assert (tmp_path / "arguments").read_text() == f"-I -m venv {tmp_path}/there\n"


def test_a_failure_of_a_program_in_the_environment_comes_with_its_fix(tmp_path: Path) -> None:
    write_env(tmp_path / "env", {"BERTH_ENGINE": f"unix://{tmp_path}/gone.sock"})

    with pytest.raises(PreflightFailed, match="engine stopped answering") as caught:
        run_in_venv(find_layout(None), "portal.ops.engine.session_image", str(tmp_path))

    assert caught.value.fix == "Check the engine, then run bin/up again."
