"""The client builds, installs and starts without the checkout."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CLIENT = Path(__file__).resolve().parents[2] / "client"
PIP_OPTIONS = (
    "--quiet",
    "--disable-pip-version-check",
    "--no-input",
    "--no-index",
    "--no-deps",
    "--no-cache-dir",
)

# How each shell asks for what `berth us` may become.
COMPLETIONS = {
    "bash": {"COMP_WORDS": "berth us", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "berth us"},
    "fish": {"_TYPER_COMPLETE_ARGS": "berth us", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}

pytestmark = pytest.mark.timeout(180)


def call(*argv: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "pip", "wheel", *PIP_OPTIONS, "--no-build-isolation", "-w", target, CLIENT)
    (built,) = target.glob("berth-*.whl")
    return built


def test_the_wheel_holds_the_client_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"berth", f"berth-{version('berth')}.dist-info"}
    assert "berth/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_it_works_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "venv"
    call(sys.executable, "-m", "venv", "--without-pip", elsewhere)
    python = elsewhere / "bin" / "python"
    call(sys.executable, "-m", "pip", "--python", python, "install", *PIP_OPTIONS, wheel)
    (site,) = elsewhere.glob("lib/python*/site-packages")
    # What the client needs is taken from here; a path alone brings no other editable project along.
    packages = Path(sys.executable).parents[1].glob("lib/python*/site-packages")
    (site / "needed.pth").write_text("\n".join(map(str, packages)))
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "LANG": "C"}

    assert (
        call(elsewhere / "bin" / "berth", "--version", environment=environment)
        == f"berth {version('berth')}\n"
    )
    place = call(python, "-c", "import berth; print(berth.__file__)", environment=environment)
    assert Path(place.strip()).is_relative_to(elsewhere)
    berth = elsewhere / "bin" / "berth"
    assert "folder" in call(berth, "--help", environment=environment)
    for shell, asked in COMPLETIONS.items():
        assert "_BERTH_COMPLETE" in call(berth, "completion", shell, environment=environment)
        told = {"_BERTH_COMPLETE": f"complete_{shell}", **asked}
        assert "user" in call(berth, environment={**environment, **told}), shell


def test_the_pins_of_the_checkout_are_within_what_the_client_asks_for() -> None:
    needed = [Requirement(text) for text in requires("berth") or ()]
    assert {one.name for one in needed} == {"typer", "httpx", "rich", "websockets", "platformdirs", "pyyaml"}
    assert [str(one) for one in needed if not one.specifier.contains(version(one.name))] == []
    assert [str(one) for one in needed if len(one.specifier) != 2] == []  # from and below
