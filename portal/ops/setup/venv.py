"""Creates and updates the virtual environment of the checkout, with the pinned requirements."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from portal.ops.console import Say
from portal.ops.errors import PreflightFailed
from portal.ops.paths import CHECKOUT, Layout, content_hash
from portal.ops.services.supervisor import CHILD
from portal.ops.system import apt_install, can_apt_install, download_environment, run_step

REQUIREMENTS = ("requirements.txt", "requirements-embedded.txt")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SYSTEM_PYTHON = Path("/usr/bin/python3")
SUITABLE = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"


def ensure_venv(layout: Layout, log: Say) -> None:
    """Create .venv and install the pins if they changed. May use apt. Raises PreflightFailed."""
    if is_current(layout):
        return
    if not has_pip(layout.python):
        create_venv(layout.venv, log)
    log("installing the pinned Python packages")
    pip_install(layout, *(layout.checkout / name for name in REQUIREMENTS), log=log)
    stamp_file(layout).write_text(stamp(layout))


def is_current(layout: Layout) -> bool:
    file = stamp_file(layout)
    return file.exists() and file.read_text() == stamp(layout) and runs(layout.python)


def stamp_file(layout: Layout) -> Path:
    return layout.venv / "berth-requirements"


def stamp(layout: Layout) -> str:
    return content_hash(layout.checkout / name for name in REQUIREMENTS)


def create_venv(venv: Path, log: Say) -> None:
    python = first_suitable_python()
    if python is None:
        package = f"python{VERSION}-venv"
        if not can_apt_install():
            raise PreflightFailed(
                "This Python cannot make virtual environments (ensurepip is missing).",
                f"Run: sudo apt-get update && sudo apt-get install -y {package}",
            )
        apt_install(package, log=log)
        python = Path(sys.executable)
    if venv.exists():
        shutil.rmtree(venv)
    log(f"making a virtual environment with {python}")
    fix = "Remove .venv and run bin/up again."
    run_step([str(python), "-I", "-m", "venv", str(venv)], title="Making .venv", fix=fix, log=log)


def first_suitable_python() -> Path | None:
    """Return the first Python that is recent enough and can create virtual environments: that of
    the system, else the current one; None if neither.
    """
    candidates = (SYSTEM_PYTHON, Path(sys.executable))
    return next((python for python in candidates if runs(python, "-I", "-c", SUITABLE)), None)


def run_in_venv(layout: Layout, module: str, *arguments: str) -> None:
    """Run a module of ours in .venv, with the pinned packages. It dies with this process.

    It uses our output. Raises PreflightFailed with its stderr (see errors.exit_code_of).
    """
    command = [str(layout.python), "-P", "-m", module, *arguments]
    process = subprocess.run(
        [sys.executable, str(CHILD), str(int(signal.SIGTERM)), "-1", "-1", *command],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        message, _, fix = process.stderr.strip().rpartition("\n")
        raise PreflightFailed(message, fix)


def pip_install(layout: Layout, *requirements: Path, log: Say) -> None:
    """Install the pins of these files, by hash, from wheels only: a new machine has no compiler.
    Dependencies are not resolved: the pins are complete, and older pips take newer releases than
    pinned for requirements with extras.
    """
    files = [argument for path in requirements for argument in ("-r", str(path))]
    options = (
        "--no-deps",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--no-input",
        "--progress-bar",
        "off",
    )
    run_step(
        [
            str(layout.python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *options,
            *files,
        ],
        title="Installing the Python packages",
        fix="Check that this machine reaches PyPI (proxy, certificates, disk), then run bin/up again.",
        log=log,
        environment=download_environment(),
    )


def has_pip(python: Path) -> bool:
    return runs(python, "-m", "pip", "--version")


def runs(python: Path, *arguments: str) -> bool:
    """Return True if this interpreter works; a system upgrade can remove that of a venv."""
    command = [str(python), *(arguments or ("-V",))]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
