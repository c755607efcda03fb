"""Commands of the system that make machines."""

import subprocess

from portal.ops.errors import PreflightFailed

PACKAGES = {
    "dockerd": "docker.io",
    "containerd": "containerd",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "openssl": "openssl",
}
"""Programs that are needed, with their Debian packages."""
LIMIT_S = 60


def run(*command: object) -> str:
    """Return the output of a command. Raises PreflightFailed if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise PreflightFailed(
            f'"{" ".join(words)}" failed: {"".join(said)}', "bin/cluster down removes what was made so far."
        )
    return done.stdout


def succeeds(*command: object) -> bool:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, check=False, timeout=LIMIT_S).returncode == 0
