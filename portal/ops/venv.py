"""The virtual environment in the checkout, with exactly the pinned requirements."""

import importlib.util
import shutil
import subprocess
import sys
from math import inf
from pathlib import Path
from statistics import median

from portal.ops.console import Say
from portal.ops.errors import PreflightFailed
from portal.ops.layout import Layout, content_hash
from portal.ops.machine import (
    apt_install,
    can_apt_install,
    download_environment,
    run_step,
)

REQUIREMENTS = ("requirements.txt", "requirements-embedded.txt")
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
SYSTEM_PROGRAMS = Path("/usr/bin")
CLEARLY = 1.15
TURNS = 15
PATIENCE_S = 10
# What a portal does all day: small objects, their attributes, calls. Seconds; nothing from another version, or one that makes no environments.
_SPEED = f"""
import ensurepip, sys, timeit
if sys.version_info[:2] != {sys.version_info[:2]}:
    sys.exit("another version")
class Row:
    def __init__(self, number):
        self.number, self.text = number, str(number)
def work():
    rows = {{number: Row(number) for number in range(1000)}}
    return sum(len(getattr(row, "text")) for row in rows.values() if isinstance(row, Row))
print(min(timeit.repeat(work, number=1, repeat=50)))
"""


def prepare_venv(layout: Layout, log: Say) -> None:
    """A virtual environment with pip in .venv, still without packages. May use apt. Raises PreflightFailed."""
    if is_current(layout) or has_pip(layout.python):
        return
    create_venv(layout.venv, log)


def install_requirements(layout: Layout, log: Say) -> None:
    """Bring .venv to the pins; does nothing when they have not changed. Raises PreflightFailed."""
    if is_current(layout):
        return
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
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{VERSION}-venv"
        if not can_apt_install():
            raise PreflightFailed(
                "This Python cannot make virtual environments (ensurepip is missing).",
                f"Run: sudo apt-get update && sudo apt-get install -y {package}",
            )
        apt_install(package, log=log)
    if venv.exists():
        shutil.rmtree(venv)
    python = faster_python()
    log(f"making a virtual environment with Python {VERSION}, {python}")
    fix = "Remove .venv and run bin/up again."
    run_step([str(python), "-I", "-m", "venv", str(venv)], title="Making .venv", fix=fix, log=log)


def faster_python(programs: Path = SYSTEM_PROGRAMS) -> Path:
    """This Python, or the machine's own of the same version where that is clearly faster: distributions optimise theirs by profiles, who
    builds one himself mostly does not, and loses a quarter of all speed (ADR 51)."""
    ours, system = Path(sys.executable), programs / f"python{VERSION}"
    # Each by its neighbour in time: a machine that others use has half its speed for seconds, and the best of one Python may be from
    # another time than the best of the other.
    times_as_long = []
    for _ in range(TURNS):
        took_s = speed_s(ours), speed_s(system)
        if inf in took_s:
            return ours
        times_as_long.append(took_s[0] / took_s[1])
    return system if median(times_as_long) > CLEARLY else ours


def speed_s(python: Path) -> float:
    """Seconds that a small piece of work takes it; endless where it does not work, or is of another version than this."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _SPEED], capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        return float(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return inf


def pip_install(layout: Layout, *requirements: Path, log: Say) -> None:
    """Install what the files pin, by hash, from wheels only: a fresh machine has no compiler. The pins are all that is
    needed; pip is not asked for more, since older ones take newer releases than pinned for requirements with extras."""
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
    """Whether this interpreter still works; a system upgrade can take away the one a venv points to."""
    command = [str(python), *(arguments or ("-V",))]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
