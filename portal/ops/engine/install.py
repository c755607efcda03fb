"""Finds the container engine of this machine, or installs and starts one. Runs in .venv."""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from docker.errors import DockerException

from portal.ops.console import speaker
from portal.ops.engine.objects import connect, mark_presence
from portal.ops.errors import PreflightFailed, exit_code_for
from portal.ops.paths import find_layout
from portal.ops.setup.env_file import read_env, write_env

SYSTEM_SOCKET = "unix:///var/run/docker.sock"
DAEMON_CONFIG = Path("/etc/docker/daemon.json")
DAEMON_LOG = Path("/var/log/berth-dockerd.log")
PACKAGES = ("docker.io", "iptables", "ca-certificates")
START_LIMIT_S = 60

Log = Callable[[str], None]


def ensure_engine(log: Log) -> str:
    """Return the address of an engine that answers and can enforce container limits.

    An existing engine takes precedence (DOCKER_HOST, then the system's socket, then the user's
    rootless one). Without one, root on Debian or Ubuntu gets an engine installed and started; it
    keeps running when bin/up ends. Otherwise raises PreflightFailed with the commands to run.
    """
    address = _answering_address()
    if address is None:
        _require_right_to_start()
        if shutil.which("dockerd") is None:
            _install_engine(log)
        address = _start_engine(log)
    _require_limits(address)
    return address


def _answering_address() -> str | None:
    chosen = os.environ.get("DOCKER_HOST")
    rootless = f"unix://{os.environ.get('XDG_RUNTIME_DIR', f'/run/user/{os.getuid()}')}/docker.sock"
    forbidden = False
    for address in [chosen] if chosen else [SYSTEM_SOCKET, rootless]:
        if _is_forbidden(address):
            forbidden = True
        elif _answers(address):
            return address
    if chosen:
        raise PreflightFailed(
            f"No container engine answers at DOCKER_HOST={chosen}.",
            "Start that engine, or unset DOCKER_HOST to use the one of this machine.",
        )
    if forbidden:
        user = pwd.getpwuid(os.getuid()).pw_name
        raise PreflightFailed(
            f'A container engine runs here, but the user "{user}" may not use it.',
            f"sudo usermod -aG docker {user}, then sign in again.",
        )
    return None


def _answers(address: str, timeout_s: int = 10) -> bool:
    try:
        connect(address, timeout_s=timeout_s).close()
    except DockerException:
        return False
    return True


def _is_forbidden(address: str) -> bool:
    """Return True if a socket exists that this user may not open."""
    place = urlsplit(address)
    return place.scheme == "unix" and os.path.exists(place.path) and not os.access(place.path, os.W_OK)


def _require_right_to_start() -> None:
    is_installed = shutil.which("dockerd") is not None
    start = (
        "sudo systemctl enable --now docker" if _has_systemd() else "sudo sh -c 'dockerd --live-restore &'"
    )
    install = "" if is_installed else f"sudo apt-get install -y {' '.join(PACKAGES)} && "
    if not is_installed and not _is_debian_family():
        raise PreflightFailed(
            "No container engine answers on this machine, and Berth installs one only on Debian and Ubuntu.",
            "Install and start Docker (https://docs.docker.com/engine/install/), then run bin/up again.",
        )
    if os.geteuid() != 0:
        user = pwd.getpwuid(os.getuid()).pw_name
        raise PreflightFailed(
            "No container engine answers on this machine, and only root may "
            + ("start the one that is installed." if is_installed else "install one."),
            f"{install}{start} && sudo usermod -aG docker {user}, then sign in again. Or run bin/up as root.",
        )
    if not _has_cgroups():
        raise PreflightFailed(
            "Control groups (cgroups) are not mounted: without them no container can be limited or started.",
            "mount -t cgroup2 none /sys/fs/cgroup, or start this machine with its control groups.",
        )


def _install_engine(log: Log) -> None:
    log(f"No container engine on this machine: installing the Debian packages {', '.join(PACKAGES)}.")
    if not DAEMON_CONFIG.exists():
        # live-restore: containers survive a restart of the engine. The package keeps an existing file.
        DAEMON_CONFIG.parent.mkdir(parents=True, exist_ok=True)
        DAEMON_CONFIG.write_text(json.dumps({"live-restore": True}, indent=2) + "\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ("apt-get", "update", "-q"),
        ("apt-get", "install", "-q", "-y", "--no-install-recommends", *PACKAGES),
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PreflightFailed(
                f'"{" ".join(command)}" failed: {_last_line(done.stderr or done.stdout)}',
                "Run it by hand to see why, or install Docker another way; then run bin/up again.",
            )


def _start_engine(log: Log) -> str:
    log("Starting the container engine; it keeps running when Berth stops.")
    if _has_systemd():
        _start_by_systemd()
        daemon = None
    elif _wait_for_engine(limit_s=3, daemon=None):  # the package may have started it without systemd
        return SYSTEM_SOCKET
    else:
        daemon = _start_by_hand()
    if not _wait_for_engine(limit_s=START_LIMIT_S, daemon=daemon):
        lines = DAEMON_LOG.read_text(errors="replace") if daemon else ""
        raise PreflightFailed(
            f"The container engine did not start within {START_LIMIT_S} s. {_last_line(lines)}".strip(),
            f"Look into {DAEMON_LOG}." if daemon else "Look at: journalctl -u docker -n 50",
        )
    return SYSTEM_SOCKET


def _start_by_systemd() -> None:
    done = subprocess.run(
        ("systemctl", "enable", "--now", "docker"), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PreflightFailed(
            f"systemd could not start the container engine: {_last_line(done.stderr)}",
            "Look at: journalctl -u docker -n 50",
        )


def _start_by_hand() -> subprocess.Popen[bytes]:
    command = ["dockerd"]
    if not _daemon_config_sets_live_restore():  # given twice, dockerd refuses to start
        command.append("--live-restore")
    _remove_stale_pidfile()
    with DAEMON_LOG.open("ab") as log_file:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            cwd="/",
            start_new_session=True,  # protects it from Ctrl-C in our terminal
        )


def _wait_for_engine(*, limit_s: float, daemon: subprocess.Popen[bytes] | None) -> bool:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if _answers(SYSTEM_SOCKET, timeout_s=2):
            return True
        if daemon is not None and daemon.poll() is not None:
            return False
        time.sleep(0.1)
    return False


def _require_limits(address: str) -> None:
    with contextlib.closing(connect(address, timeout_s=30)) as engine:
        info = engine.info()
    checks = {"MemoryLimit": "memory", "CpuCfsQuota": "cpu", "PidsLimit": "pids"}
    missing = [group for field, group in checks.items() if info.get(field) is False]
    if missing:
        raise PreflightFailed(
            f"The engine cannot limit containers: control groups (cgroups) lack {', '.join(missing)}.",
            "Enable them (kernel command line: cgroup_enable=memory; rootless: systemd delegation), then restart "
            "the engine.",
        )


def _has_cgroups() -> bool:
    mounts = Path("/proc/mounts").read_text()
    return any(line.split()[2] in ("cgroup", "cgroup2") for line in mounts.splitlines())


def _has_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def _is_debian_family() -> bool:
    try:
        release = Path("/etc/os-release").read_text()
    except FileNotFoundError:
        return False
    names = {line.partition("=")[2].strip('"') for line in release.splitlines() if line.startswith("ID")}
    words = {word for name in names for word in name.split()}
    return bool(words & {"debian", "ubuntu"}) and shutil.which("apt-get") is not None


def _daemon_config_sets_live_restore() -> bool:
    try:
        return "live-restore" in json.loads(DAEMON_CONFIG.read_text())
    except (FileNotFoundError, ValueError):
        return False


def _remove_stale_pidfile() -> None:
    """Remove a stale pid file: an engine does not start if the pid in it is in use again."""
    pidfile = Path("/var/run/docker.pid")
    try:
        name = Path(f"/proc/{pidfile.read_text().strip()}/comm").read_text().strip()
    except OSError:
        name = ""
    if name != "dockerd":
        pidfile.unlink(missing_ok=True)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def prepare_engine(data: Path) -> None:
    """Find the engine, write its address to the env file, and mark our presence on it."""
    env_file = find_layout(str(data)).env_file
    values = {**read_env(env_file), "BERTH_ENGINE": ensure_engine(speaker("up"))}
    write_env(env_file, values)
    with contextlib.closing(connect(values["BERTH_ENGINE"])) as engine:
        mark_presence(engine, values["BERTH_INSTALLATION"])


if __name__ == "__main__":
    sys.exit(exit_code_for(lambda: prepare_engine(Path(sys.argv[1]))))
