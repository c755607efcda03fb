"""The engine of one machine: its containerd and dockerd, and requests over its socket.

They are started separately, as systemd does. A containerd that dockerd has started itself blocks
the next start after `kill -9 dockerd`.
"""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from uuid import uuid4

from portal.ops.cluster.layout import MARK, PORT, ClusterMachine
from portal.ops.cluster.network import inside
from portal.ops.cluster.processes import processes_of
from portal.ops.cluster.shell import run
from portal.ops.errors import PreflightFailed

START_LIMIT_S = 60
NEW_IDENTITY = 23  # engines before this version keep their identity in /etc unless told otherwise


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def answers(machine: ClusterMachine, timeout_s: float = 3) -> bool:
    connection = SocketConnection(machine.socket, timeout_s)
    try:
        connection.request("GET", "/_ping")
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def engine_pid(machine: ClusterMachine) -> int | None:
    """Return the process id of dockerd, also while it is paused; None if there is none."""
    return next(iter(processes_of(machine, "dockerd")), None)


def begin_start(machine: ClusterMachine) -> None:
    """Start what does not run of containerd and dockerd, without waiting for an answer."""
    ensure_disk(machine)
    if not processes_of(machine, "containerd"):
        write_containerd_configuration(machine)
        (machine.home / "containerd.sock").unlink(missing_ok=True)
        spawn(machine, "containerd", "--config", str(machine.home / "containerd.toml"))
    if engine_pid(machine) is None:
        # With the pid file of a killed one, dockerd refuses to start if the pid is in use again.
        (machine.home / "engine.pid").unlink(missing_ok=True)
        write_engine_configuration(machine)
        spawn(machine, "dockerd", *engine_options(machine))


def wait_until_answering(machine: ClusterMachine, limit_s: float = START_LIMIT_S) -> None:
    """Wait for the engine. Raises PreflightFailed with the end of its log."""
    give_up_at = time.monotonic() + limit_s
    while not answers(machine):
        if time.monotonic() > give_up_at or engine_pid(machine) is None:
            log = machine.home / "dockerd.log"
            tail = log.read_text(errors="replace").splitlines()[-5:]
            raise PreflightFailed(
                f"The engine of {machine.name} does not answer:\n" + "\n".join(tail), f"Look into {log}."
            )
        time.sleep(0.05)


def ensure_disk(machine: ClusterMachine) -> None:
    """Mount the small disk of a machine, if the cluster has those."""
    machine.data.mkdir(exist_ok=True)
    size_mib = machine.cluster.options.disk_mib
    if not size_mib or machine.data.is_mount():
        return
    image = machine.home / "disk.img"
    if not image.exists():
        run("truncate", "-s", f"{size_mib}M", image)
        run("mkfs.ext4", "-q", "-F", image)
    run("mount", "-o", "loop", image, machine.data)


def spawn(machine: ClusterMachine, program: str, *options: str) -> None:
    """Start a program in the network of the machine; it outlives this process."""
    path = shutil.which(program) or program
    # Requests to the engine's own sockets must not pass a proxy of this machine, images may.
    environment = {**os.environ, MARK: str(machine.home), "TMPDIR": str(machine.home)}
    with (machine.home / f"{program}.log").open("ab") as log:
        subprocess.Popen(
            [*inside(machine), path, *options],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def write_containerd_configuration(machine: ClusterMachine) -> None:
    home = machine.home
    (machine.data / "containerd").mkdir(exist_ok=True)
    lines = (
        "version = 2",
        f'root = "{machine.data}/containerd"',
        f'state = "{home}/run/containerd"',
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]',
        "[grpc]",
        f'address = "{home}/containerd.sock"',
    )
    (home / "containerd.toml").write_text("\n".join(lines) + "\n")


def write_engine_configuration(machine: ClusterMachine) -> None:
    """Write a configuration that hides the one in /etc, and give the engine an identity of its own:
    old engines keep it in /etc, newer ones begin with the one in /etc.
    """
    told = {"deprecated-key-path": str(machine.data / "key.json")} if engine_version() < NEW_IDENTITY else {}
    (machine.home / "daemon.json").write_text(json.dumps(told))
    identity = machine.data / "docker" / "engine-id"
    if not identity.exists():
        identity.parent.mkdir(exist_ok=True)
        identity.write_text(str(uuid4()))


def engine_version() -> int:
    said = run("dockerd", "--version")
    found = re.search(r"version (\d+)", said)
    return int(found[1]) if found else NEW_IDENTITY


def engine_options(machine: ClusterMachine) -> list[str]:
    home, cluster = machine.home, machine.cluster
    given = {
        "config-file": home / "daemon.json",
        "tlscacert": cluster.certificates / "ca.pem",
        "tlscert": home / "cert.pem",
        "tlskey": home / "key.pem",
        "containerd": home / "containerd.sock",
        "data-root": machine.data / "docker",
        "exec-root": home / "run" / "docker",
        "pidfile": home / "engine.pid",
        "cgroup-parent": f"/{machine.namespace}",
        "exec-opt": "native.cgroupdriver=cgroupfs",
        "insecure-registry": cluster.subnet,
        "live-restore": "false" if cluster.options.has_swarm else "true",
        "shutdown-timeout": "5",
    }
    hosts = (f"--host=unix://{machine.socket}", f"--host=tcp://{machine.address}:{PORT}")
    return [*hosts, "--tlsverify=true", *(f"--{name}={value}" for name, value in given.items())]
