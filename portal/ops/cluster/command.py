"""bin/cluster up, down, status and faults: machines of a cluster on this machine."""

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable

from portal.ops.cluster import engine, machines, network
from portal.ops.cluster.images import share_image
from portal.ops.cluster.layout import HOMES, Cluster, ClusterMachine, Options, cluster_of
from portal.ops.console import Say, speaker
from portal.ops.errors import PreflightFailed
from portal.ops.locks import directory_lock
from portal.ops.paths import CHECKOUT, find_layout
from portal.ops.setup.env_file import read_env

FAULTS: dict[str, tuple[str, Callable[[ClusterMachine], None]]] = {
    "kill": ("kill the engine; its containers run on, as after a crash", machines.kill_engine),
    "stop": ("stop the engine in order", machines.stop_engine),
    "restart": (
        "stop the engine in order, if it runs, and start it; turns on what is off",
        machines.restart_machine,
    ),
    "pause": ("let the engine accept connections and answer nothing", machines.pause_engine),
    "unpause": ("let it go on", machines.unpause_engine),
    "slow": ("make the network cable slow, and let 15 % of packets vanish", network.slow_down),
    "heal": ("plug the network cable in again, and let all packets pass", network.plug_in),
    "power-off": ("let the whole machine die at once; restart turns it on", machines.power_off),
    "replace": ("put a new machine with an empty disk at its address", machines.replace_machine),
    "fill-disk": ("fill its disk to the last byte (up --disk-mb)", machines.fill_disk),
    "free-disk": ("free its disk again", machines.free_disk),
}


def main() -> int:
    options = command_line().parse_args()
    say = speaker("cluster")
    data = find_layout(os.environ.get("BERTH_DATA")).data
    try:
        options.act(options, cluster_of(data), say)
    except PreflightFailed as fault:
        say(f"{fault.message}\nfix: {fault.fix}")
        return 1
    return 0


def command_line() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="bin/cluster", description="Real engines that behave as machines, on this one. Needs root."
    )
    kinds = whole.add_subparsers(required=True, metavar="COMMAND")
    up = kinds.add_parser("up", help="bring up machines 1 to N")
    up.add_argument("count", type=int, metavar="N")
    up.add_argument("--register", action="store_true", help="register them with the running portal")
    up.add_argument("--disk-mb", type=int, default=0, metavar="M", help="give each a disk of its own")
    up.add_argument("--swarm", action="store_true", help="join them in a swarm, which excludes live-restore")
    up.add_argument("--swarm-free", action="store_false", dest="swarm", help="with live-restore (default)")
    up.set_defaults(act=bring_machines_up)
    kinds.add_parser("down", help="remove all machines and whatever they left").set_defaults(act=take_down)
    kinds.add_parser("status", help="show all machines").set_defaults(act=show_status)
    environment = kinds.add_parser("env", help="print variables for docker: eval $(bin/cluster env 1)")
    environment.set_defaults(act=print_environment)
    share = kinds.add_parser("share", help="copy an image of this machine's engine to machines")
    share.add_argument("image", metavar="IMAGE")
    share.add_argument("nodes", nargs="*", metavar="NODE", help="numbers of machines (all)")
    share.set_defaults(act=share_with)
    partition = kinds.add_parser("partition", help="pull the network cable out: packets vanish")
    partition.add_argument("--only", choices=sorted(network.DIRECTIONS), default="", help="one way alone")
    partition.set_defaults(act=cut)
    for name, (help_, _) in FAULTS.items():
        kinds.add_parser(name, help=help_).set_defaults(act=inject, fault=name)
    for name in ("env", "partition", *FAULTS):
        kinds.choices[name].add_argument("node", metavar="NODE", help="the number of a machine")
    return whole


def bring_machines_up(options: argparse.Namespace, cluster: Cluster, say: Say) -> None:
    began_at = time.monotonic()
    wanted = Options(disk_mib=options.disk_mb, has_swarm=options.swarm)
    made = machines.bring_up(cluster, options.count, wanted)
    say(f"{len(made)} machines are up after {time.monotonic() - began_at:.1f} s")
    for machine in made:
        say(f"{machine.name}  {machine.url}")
    say(f"certificates: {cluster.certificates}")
    if options.register:
        add_to_portal(made, say)


def add_to_portal(made: list[ClusterMachine], say: Say) -> None:
    """Register machines with the running portal. Raises PreflightFailed."""
    for machine in made:
        command = ("register_agent", machine.name, machine.url, "--tls", str(machine.cluster.certificates))
        done = subprocess.run(
            [str(CHECKOUT / "bin" / "manage"), *command], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise PreflightFailed(
                f"{machine.name} could not be registered: {done.stderr.strip()}", "bin/up starts a portal."
            )
        say(done.stdout.strip())


def take_down(options: argparse.Namespace, cluster: Cluster, say: Say) -> None:
    with contextlib.ExitStack() as locks:  # another bin/cluster of these data
        locks.enter_context(directory_lock(HOMES))
        if cluster.home.exists():
            locks.enter_context(directory_lock(cluster.home))
        machines.remove_cluster(cluster)
    left = machines.left_of(cluster)
    if left:
        raise PreflightFailed(f"Not removed: {', '.join(left)}", "Run bin/cluster down again.")
    say("nothing is left")


def show_status(options: argparse.Namespace, cluster: Cluster, say: Say) -> None:
    found = list(cluster.machines())
    for machine in found:
        say(f"{machine.name}  {machine.url}  {state_of(machine)}")
    if not found:
        say("No machines. bin/cluster up 3 brings three up.")


def state_of(machine: ClusterMachine) -> str:
    """Describe a machine in a few words, for people."""
    if not network.namespace_path(machine).exists():
        return "off"
    pid = engine.engine_pid(machine)
    if pid is None:
        text = "engine stopped"
    else:
        text = f"up (pid {pid})" if engine.answers(machine) else f"engine does not answer (pid {pid})"
    return text if network.is_connected(machine) else f"{text}, disconnected"


def print_environment(options: argparse.Namespace, cluster: Cluster, say: Say) -> None:
    machine = find_machine(cluster, options.node)
    values = {"DOCKER_HOST": machine.url, "DOCKER_TLS_VERIFY": 1, "DOCKER_CERT_PATH": cluster.certificates}
    print(*(f"export {name}={value}" for name, value in values.items()), sep="\n")


def share_with(options: argparse.Namespace, cluster: Cluster, say: Say) -> None:
    chosen = [find_machine(cluster, node) for node in options.nodes] or list(cluster.machines())
    if not chosen:
        raise PreflightFailed("There are no machines.", "bin/cluster up 3 brings three up.")
    address = read_env(find_layout(os.environ.get("BERTH_DATA")).env_file).get("BERTH_ENGINE", "")
    began_at = time.monotonic()
    share_image(options.image, chosen, engine=address)
    say(f"{options.image} is on {len(chosen)} machines after {time.monotonic() - began_at:.1f} s")


def cut(options: argparse.Namespace, cluster: Cluster, say: Say) -> None:
    machine = find_machine(cluster, options.node)
    network.pull_out(machine, options.only)
    say(f"{machine.name}: {state_of(machine)}")


def inject(options: argparse.Namespace, cluster: Cluster, say: Say) -> None:
    machine = find_machine(cluster, options.node)
    FAULTS[options.fault][1](machine)
    say(f"{machine.name}: {state_of(machine)}")


def find_machine(cluster: Cluster, node: str) -> ClusterMachine:
    """Return a machine by its number or name. Raises PreflightFailed."""
    for machine in cluster.machines():
        if node in (str(machine.number), machine.name):
            return machine
    raise PreflightFailed(f'There is no machine "{node}".', "bin/cluster status shows all.")


if __name__ == "__main__":
    sys.exit(main())
