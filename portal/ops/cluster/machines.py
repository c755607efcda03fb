"""Making, breaking and removing machines: what bin/cluster and tests call."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from portal.ops.cluster import engine, network, processes
from portal.ops.cluster.certificates import ensure_authority, ensure_machine_certificate
from portal.ops.cluster.layout import HOMES, MOST_MACHINES, Cluster, ClusterMachine, Options
from portal.ops.cluster.shell import PACKAGES, run
from portal.ops.cluster.swarm import ensure_swarm
from portal.ops.errors import PreflightFailed
from portal.ops.locks import directory_lock

STOP_LIMIT_S = 30
CHUNK_BYTES = 2**20


def bring_up(cluster: Cluster, count: int, options: Options = Options()) -> list[ClusterMachine]:  # noqa: B008 -- frozen
    """Bring up machines 1 to `count`, and return all of the cluster when their engines answer.

    Machines that run are left as they are. Options count for a new cluster only. Raises
    PreflightFailed without root, or if a program is missing or fails.
    """
    check_requirements(count)
    with directory_lock(HOMES):
        if not (network.INTERFACES / cluster.bridge).exists():
            remove_cluster(cluster)  # what a killed one left, or a restart of this machine
            cluster.home.mkdir(mode=0o711)
            cluster.write_options(network.choose_subnet(), options)
        ensure_authority(cluster)
        network.ensure_bridge(cluster)
    with directory_lock(cluster.home):  # another bring_up of the same cluster
        for number in range(1, count + 1):
            cluster.machine(number).home.mkdir(exist_ok=True)
        made = list(cluster.machines())
        for machine in made:
            ensure_machine_certificate(machine)
            network.ensure_namespace(machine)
            engine.begin_start(machine)
        for machine in made:
            engine.wait_until_answering(machine)
        if cluster.options.has_swarm:
            ensure_swarm(made)
    return made


def check_requirements(count: int) -> None:
    """Raise PreflightFailed if machines cannot be made here."""
    if not 1 <= count <= MOST_MACHINES:
        raise PreflightFailed(
            f"A cluster has 1 to {MOST_MACHINES} machines, not {count}.", "Name such a number."
        )
    if os.geteuid() != 0:
        raise PreflightFailed("Only root may make networks and start engines.", "Run it with sudo.")
    missing = [program for program in PACKAGES if shutil.which(program) is None]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGES[program] for program in missing))
        raise PreflightFailed(
            f"Not on this machine: {', '.join(missing)}.", f"Run: apt-get install -y {packages}"
        )


def start_machine(machine: ClusterMachine) -> None:
    """Start a machine that is off, or what does not run of it, and wait for its engine."""
    network.ensure_namespace(machine)
    engine.begin_start(machine)
    engine.wait_until_answering(machine)


def stop_engine(machine: ClusterMachine) -> None:
    """Stop the engine in order. With live-restore its containers run on."""
    pid = engine.engine_pid(machine)
    if pid is None:
        return
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGTERM)
    give_up_at = time.monotonic() + STOP_LIMIT_S
    while engine.engine_pid(machine) is not None:
        if time.monotonic() > give_up_at:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def restart_machine(machine: ClusterMachine) -> None:
    stop_engine(machine)
    start_machine(machine)


def signal_engine(machine: ClusterMachine, number: signal.Signals) -> None:
    """Send a signal to dockerd alone. Raises PreflightFailed if it does not run."""
    pid = engine.engine_pid(machine)
    if pid is None:
        raise PreflightFailed(
            f"The engine of {machine.name} does not run.", f"bin/cluster restart {machine.number}"
        )
    os.kill(pid, number)


def kill_engine(machine: ClusterMachine) -> None:
    """Kill dockerd; containerd and containers run on, as after a crash."""
    signal_engine(machine, signal.SIGKILL)


def pause_engine(machine: ClusterMachine) -> None:
    """Stop the engine's clock: connections are accepted, nothing is answered."""
    signal_engine(machine, signal.SIGSTOP)


def unpause_engine(machine: ClusterMachine) -> None:
    signal_engine(machine, signal.SIGCONT)


def power_off(machine: ClusterMachine) -> None:
    """Let the whole machine die at once, with all that only its memory had: networks, rules, mounts."""
    if (network.INTERFACES / machine.cable).exists():
        network.pull_out(machine)
    processes.kill_everything(machine)
    network.remove_namespace(machine)
    unmount_below(machine.home, keep=machine.data)
    shutil.rmtree(machine.home / "run", ignore_errors=True)


def replace_machine(machine: ClusterMachine) -> None:
    """Put a new machine with an empty disk in the place of this one, at its address."""
    power_off(machine)
    unmount_below(machine.home)
    shutil.rmtree(machine.data, ignore_errors=True)
    (machine.home / "disk.img").unlink(missing_ok=True)
    start_machine(machine)


def fill_disk(machine: ClusterMachine) -> None:
    """Fill the disk of a machine to the last byte. Raises PreflightFailed if it has none."""
    if not machine.data.is_mount():
        raise PreflightFailed(
            f"{machine.name} has no disk of its own.", "bin/cluster down, then bin/cluster up N --disk-mb 900"
        )
    filler = os.open(machine.data / "filler", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    piece = bytes(CHUNK_BYTES)
    try:
        while piece:
            try:
                os.write(filler, piece)
            except OSError:
                piece = piece[: len(piece) // 2]
    finally:
        os.close(filler)


def free_disk(machine: ClusterMachine) -> None:
    (machine.data / "filler").unlink(missing_ok=True)


def remove_cluster(cluster: Cluster) -> None:
    """Remove all machines and whatever bears the name of the cluster. Right also after any crash."""
    processes.kill_everything(cluster)
    unmount_below(cluster.home)
    network.remove_network(cluster)
    shutil.rmtree(cluster.home, ignore_errors=True)


def left_of(cluster: Cluster) -> list[str]:
    """Return what is still there of a cluster, in words; nothing after `remove_cluster`."""
    return [
        *(f"process {pid}" for pid in processes.marked_processes(cluster)),
        *(f"control group {group}" for group in processes.control_groups(cluster)),
        *(f"mount {point}" for point in mounts_below(cluster.home)),
        *network.left_of_network(cluster),
        *([str(cluster.home)] if cluster.home.exists() else []),
    ]


def mounts_below(home: Path) -> Iterator[Path]:
    """Yield mount points, the deepest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = (line.split()[4].replace("\\040", " ") for line in lines)
    yield from (Path(point) for point in sorted(points, reverse=True) if point.startswith(f"{home}/"))


def unmount_below(home: Path, keep: Path | None = None) -> None:
    for point in mounts_below(home):
        if point != keep:
            with contextlib.suppress(PreflightFailed):
                run("umount", "--lazy", point)
