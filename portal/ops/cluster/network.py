"""Network of a cluster: a bridge on this machine, and a cable from it to each machine's namespace."""

import json
import shlex
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

from portal.ops.cluster.layout import Cluster, ClusterMachine, all_clusters
from portal.ops.cluster.shell import run, succeeds
from portal.ops.errors import PreflightFailed

RANGE = IPv4Network("10.88.0.0/16")
INTERFACES = Path("/sys/class/net")
NAMESPACES = Path("/run/netns")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
DIRECTIONS = {"in": ("INPUT", "-i"), "out": ("OUTPUT", "-o")}
SLOW_RATE = "256kbit"
LOSS = ("INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability", "0.15", "-j", "DROP")


def namespace_path(machine: ClusterMachine) -> Path:
    return NAMESPACES / machine.namespace


def choose_subnet() -> IPv4Network:
    """Return a network of 256 addresses to which no route leads and that no other cluster uses.

    The caller holds the lock of `HOMES`. Raises PreflightFailed.
    """
    routes = run("ip", "-4", "route", "show", "table", "all").split()
    taken = [cluster.subnet for cluster in all_clusters() if cluster.options_file.exists()]
    taken += [network for word in routes if (network := as_network(word)) and network.prefixlen]
    for subnet in RANGE.subnets(new_prefix=24):
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise PreflightFailed(f"No network is free in {RANGE}.", "Remove clusters: bin/cluster down")


def as_network(word: str) -> IPv4Network | None:
    try:
        return IPv4Network(word, strict=False)
    except ValueError:
        return None


def ensure_bridge(cluster: Cluster) -> None:
    """Create the bridge, and let its machines reach each other and the internet."""
    bridge, subnet = cluster.bridge, cluster.subnet
    if not (INTERFACES / bridge).exists():
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "addr", "add", f"{subnet[1]}/{subnet.prefixlen}", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
    if FORWARDING.read_text().strip() != "1":
        FORWARDING.write_text("1")
    for table, chain, *match in forwarding_rules(cluster):
        rule = (chain, *match, "-m", "comment", "--comment", cluster.bridge)
        target = ("-j", "MASQUERADE" if table == "nat" else "ACCEPT")
        if not succeeds("iptables", "-w", "-t", table, "-C", *rule, *target):
            run("iptables", "-w", "-t", table, "-I", *rule, *target)


def forwarding_rules(cluster: Cluster) -> Iterator[tuple[str, ...]]:
    """Yield rules as (table, chain, match …): an engine on this machine drops what it forwards."""
    yield ("filter", "FORWARD", "-i", cluster.bridge)
    answers = ("-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED")
    yield ("filter", "FORWARD", "-o", cluster.bridge, *answers)
    yield ("nat", "POSTROUTING", "-s", str(cluster.subnet), "!", "-o", cluster.bridge)


def ensure_namespace(machine: ClusterMachine) -> None:
    """Create the network namespace of a machine, with a cable to the bridge."""
    name, cluster = machine.namespace, machine.cluster
    if not namespace_path(machine).exists():
        run("ip", "netns", "add", name)
    if not (INTERFACES / machine.cable).exists():
        other_end = ("peer", "name", "eth0", "netns", name)
        run("ip", "link", "add", machine.cable, "type", "veth", *other_end)
        run("ip", "link", "set", machine.cable, "master", cluster.bridge, "up")
        own = f"{machine.address}/{cluster.subnet.prefixlen}"
        run("ip", "-n", name, "addr", "replace", own, "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
    plug_in(machine)


def plug_in(machine: ClusterMachine) -> None:
    """Plug the cable in, and let all packets pass in both directions, at full speed."""
    run("ip", "link", "set", machine.cable, "up")
    gateway = machine.cluster.subnet[1]
    run("ip", "-n", machine.namespace, "route", "replace", "default", "via", gateway)
    drops = [(chain, device, "eth0", "-j", "DROP") for chain, device in DIRECTIONS.values()]
    for rule in (*drops, LOSS):
        while succeeds(*inside(machine), "iptables", "-w", "-D", *rule):
            pass
    for end in ends_of_cable(machine):
        succeeds("tc", *end[:-1], "qdisc", "del", "dev", end[-1], "root")


def pull_out(machine: ClusterMachine, direction: str = "") -> None:
    """Pull the cable out: no answer, no refusal. With a direction, drop packets only on their way
    `in` to the machine or `out` of it.
    """
    if direction:
        chain, device = DIRECTIONS[direction]
        run(*inside(machine), "iptables", "-w", "-I", chain, device, "eth0", "-j", "DROP")
    else:
        run("ip", "link", "set", machine.cable, "down")


def slow_down(machine: ClusterMachine) -> None:
    """Make the cable slow, SLOW_RATE in each direction, and let 15 % of the packets to the machine vanish."""
    shape = ("root", "tbf", "rate", SLOW_RATE, "burst", "8kb", "latency", "1s")
    for end in ends_of_cable(machine):
        run("tc", *end[:-1], "qdisc", "replace", "dev", end[-1], *shape)
    run(*inside(machine), "iptables", "-w", "-I", *LOSS)


def ends_of_cable(machine: ClusterMachine) -> tuple[tuple[str, ...], ...]:
    """Return the options of `tc` for both ends of a machine's cable, each with its device last."""
    return ((machine.cable,), ("-n", machine.namespace, "eth0"))


def inside(machine: ClusterMachine) -> tuple[str, ...]:
    """Return the words before a command that make it run in the machine's network.

    Not `ip netns exec`, which mounts a new /sys without control groups: no engine starts there.
    """
    return ("nsenter", f"--net={namespace_path(machine)}")


def is_connected(machine: ClusterMachine) -> bool:
    shown = json.loads(run("ip", "-j", "link", "show", machine.cable) or "[]")
    return any("UP" in link["flags"] for link in shown)


def remove_namespace(machine: ClusterMachine) -> None:
    """Remove the network of a machine with all its bridges and rules; the cable goes with it."""
    succeeds("ip", "link", "del", machine.cable)
    succeeds("ip", "netns", "del", machine.namespace)


def remove_network(cluster: Cluster) -> None:
    """Remove everything that bears the name of the cluster."""
    for path in NAMESPACES.glob(f"*-{cluster.id}-*"):
        succeeds("ip", "netns", "del", path.name)
    for path in INTERFACES.glob(f"{cluster.bridge}*"):
        succeeds("ip", "link", "del", path.name)
    for table in ("filter", "nat"):
        for line in run("iptables", "-w", "-t", table, "-S").splitlines():
            words = shlex.split(line)
            if cluster.bridge in words and words[0] == "-A":
                succeeds("iptables", "-w", "-t", table, "-D", *words[1:])


def left_of_network(cluster: Cluster) -> list[str]:
    """Return what still bears the name of the cluster, in words."""
    rules = [
        line
        for table in ("filter", "nat")
        for line in run("iptables", "-w", "-t", table, "-S").splitlines()
        if cluster.bridge in shlex.split(line)
    ]
    return [
        *(f"network namespace {path.name}" for path in NAMESPACES.glob(f"*-{cluster.id}-*")),
        *(f"interface {path.name}" for path in INTERFACES.glob(f"{cluster.bridge}*")),
        *(f"rule {line}" for line in rules),
    ]
