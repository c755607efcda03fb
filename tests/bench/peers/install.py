"""Installs what package-lock.json here names."""

import shutil
from pathlib import Path

from portal.ops.assets import find_npm
from portal.ops.console import Say
from portal.ops.layout import CHECKOUT, content_hash, layout_of
from portal.ops.machine import download_environment, run_step

HOME = CHECKOUT / "var" / "bench" / "peers"
PACKAGE = [Path(__file__).with_name(name) for name in ("package.json", "package-lock.json")]


def configurable_http_proxy(log: Say) -> list[str]:
    """The command that runs JupyterHub's proxy. Raises PreflightFailed."""
    npm = find_npm(layout_of(None), log)
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
