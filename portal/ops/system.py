"""Runs set-up commands with the machine's proxy and certificates, and installs Debian packages."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.ops.console import Say
from portal.ops.errors import PreflightFailed

SYSTEM_CERTIFICATES = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))
TAIL_LINES = 15


def is_root() -> bool:
    return os.geteuid() == 0


def download_environment() -> dict[str, str]:
    """Return the environment for pip and npm, with the machine's certificates if none are named.

    Older pip and Node have their own lists without private certificate authorities.
    """
    environment = dict(os.environ)
    bundle = next((path for path in SYSTEM_CERTIFICATES if path.exists()), None)
    if bundle is None:
        return environment
    if not {"PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} & environment.keys():
        environment["PIP_CERT"] = str(bundle)
    environment.setdefault("NODE_EXTRA_CA_CERTS", str(bundle))
    return environment


def run_step(
    argv: Sequence[str],
    *,
    title: str,
    fix: str,
    log: Say,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> None:
    """Run a command quietly. On failure, show its last output and raise PreflightFailed."""
    process = subprocess.run(
        argv,
        env=environment,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if process.returncode != 0:
        log("\n".join(process.stdout.splitlines()[-TAIL_LINES:]))
        raise PreflightFailed(
            f"{title} failed (exit code {process.returncode}); its last lines stand above.", fix
        )


def can_apt_install() -> bool:
    return is_root() and shutil.which("apt-get") is not None


def apt_install(package: str, *, log: Say) -> None:
    """Install a Debian package as root. Raises PreflightFailed."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    fix = f"Run: apt-get update && apt-get install -y {package}"
    log(f"installing the Debian package {package}")
    run_step(["apt-get", "update", "-q"], title="apt-get update", fix=fix, log=log, environment=environment)
    run_step(
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", package],
        title=f"Installing {package}",
        fix=fix,
        log=log,
        environment=environment,
    )
