"""Install the peer programs pinned in package-lock.json and backend-ai.txt."""

import shutil
import subprocess
import sys
from pathlib import Path

from portal.ops.console import Say
from portal.ops.errors import PreflightFailed
from portal.ops.paths import CHECKOUT, content_hash, find_layout
from portal.ops.setup.assets import find_npm
from portal.ops.system import download_environment, run_step

HOME = CHECKOUT / "var" / "bench" / "peers"
MANAGER = CHECKOUT / "var" / "bench" / "backend-ai"
MANAGER_PINS = Path(__file__).with_name("backend-ai.txt")
PACKAGE = [Path(__file__).with_name(name) for name in ("package.json", "package-lock.json")]


def configurable_http_proxy(log: Say) -> list[str]:
    """Install JupyterHub's proxy. Returns its command. Raises PreflightFailed."""
    npm = find_npm(find_layout(None), log)
    directory = Path(npm[0]).parent
    stamp = HOME / ".berth-lock"
    wanted = content_hash(PACKAGE)
    if not stamp.exists() or stamp.read_text() != wanted:
        HOME.mkdir(parents=True, exist_ok=True)
        for file in PACKAGE:
            shutil.copy(file, HOME)
        log("installing configurable-http-proxy from npm")
        environment = download_environment()
        run_step(
            [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
            title="npm ci",
            fix="Check that this machine reaches the npm registry (proxy, certificates).",
            log=log,
            environment={**environment, "PATH": f"{directory}:{environment.get('PATH', '')}"},
            directory=HOME,
        )
        stamp.write_text(wanted)
    program = HOME / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy"
    return [str(directory / "node"), str(program)]


def backend_ai_manager(log: Say) -> Path:
    """Install Backend.AI's manager from PyPI with pinned requirements. Returns its Python.

    Uses Berth's own Python if that is a 3.11. Raises PreflightFailed.
    """
    ours = _python_3_11()
    says = "import sys; print(sys.base_prefix, sys.version.replace(chr(10), ' '))"
    build = subprocess.run([ours, "-c", says], capture_output=True, text=True, check=True).stdout.strip()
    stamp, wanted = MANAGER / ".berth-lock", f"{content_hash([MANAGER_PINS])} {build}"
    python = MANAGER / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    log("installing Backend.AI's manager from PyPI")
    fix = "Check that this machine reaches PyPI (proxy, certificates, disk)."
    run_step([ours, "-m", "venv", "--clear", str(MANAGER)], title="venv", fix=fix, log=log)
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes", "--no-deps")
    run_step(
        [str(python), "-m", "pip", "install", *options, "-r", str(MANAGER_PINS)],
        title="pip install",
        fix=fix,
        log=log,
        environment=download_environment(),
    )
    stamp.write_text(wanted)
    return python


def _python_3_11() -> str:
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    if found := shutil.which("python3.11"):
        return found
    raise PreflightFailed("Backend.AI's manager runs on Python 3.11 alone.", "Install it: python3.11.")
