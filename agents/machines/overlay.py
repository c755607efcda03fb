"""Networks of sessions on several machines: a bridge on each, joined by a VXLAN (ADR 68).

`overlay.sh` runs in a helper container, as the network isolation does. Nothing of it needs the engine
afterwards, so the network outlives a restart of the engine. Frames are not encrypted.
"""

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from agents.machines.helper_containers import NO_IMAGE, helper_image, one_off_labels
from agents.models import Agent
from agents.runtime.docker.encoding import bridge_name
from agents.runtime.port import HelperSpec, RuntimeFault
from agents.selectors import runtime_of
from images.selectors import built_image_ids

LINK_LENGTH = 15


class OverlayFailed(RuntimeFault):
    """The network of a session cannot be joined between its machines."""

    code = "overlay_failed"


@dataclass(frozen=True, slots=True)
class Overlay:
    """Network of one session. `network`: its name on each engine; `vni`: number on the wire, unique in
    the installation; `port`: UDP port of all machines.
    """

    network: str
    vni: int
    port: int
    mtu: int

    @property
    def link(self) -> str:
        """Name of the VXLAN's interface, the same on every machine."""
        return link_name(self.network)


def link_name(network: str) -> str:
    return ("btx" + sha256(network.encode()).hexdigest())[:LINK_LENGTH]


def machine_addresses(agents: Sequence[Agent]) -> dict[int, str]:
    """Return the IPv4 address of each machine, by which the others reach it: that of its engine; for an
    engine without one, that of the route to the first other machine. Raises OverlayFailed, RuntimeFault.
    """
    found = {agent.pk: address for agent in agents if (address := _engine_address(agent))}
    for agent in agents:
        if agent.pk not in found:
            other = next((address for pk, address in found.items() if pk != agent.pk), None)
            if other is None:
                raise OverlayFailed(f"Berth does not know by which address {agent.name} is reached.")
            found[agent.pk] = _source_address(agent, other)
    return found


def _engine_address(agent: Agent) -> str:
    host = urlsplit(agent.address).hostname
    if agent.is_simulated or agent.address.startswith("unix:") or not host:
        return ""
    try:
        return socket.getaddrinfo(host, None, socket.AF_INET)[0][4][0]  # type: ignore[return-value]
    except OSError as error:
        raise OverlayFailed(f"{host}, the address of {agent.name}, has no IPv4 address: {error}.") from error


def _source_address(agent: Agent, other: str) -> str:
    output = _run(agent, f"ip -4 -o route get {ipaddress.IPv4Address(other)}", {})
    words = output.split()
    if "src" not in words[:-1]:
        raise OverlayFailed(f"{agent.name} has no route to {other}: {output[:200]}")
    return str(ipaddress.IPv4Address(words[words.index("src") + 1]))


def join_overlay(overlay: Overlay, agent: Agent, addresses: dict[int, str]) -> None:
    """Join the machine's bridge of the network with those of the other machines. May be repeated.

    Raises OverlayFailed, RuntimeFault.
    """
    if agent.is_simulated:
        return
    peers = [address for pk, address in sorted(addresses.items()) if pk != agent.pk]
    environment = {
        "LINK": overlay.link,
        "BRIDGE": bridge_name(overlay.network),
        "VNI": str(overlay.vni),
        "PORT": str(overlay.port),
        "MTU": str(overlay.mtu),
        "LOCAL": addresses[agent.pk],
        "PEERS": " ".join(peers),
    }
    _run(agent, _script(), environment)


def leave_overlay(network: str, agent: Agent) -> None:
    """Remove the VXLAN of the network from the machine, if it is there. Raises RuntimeFault."""
    if agent.is_simulated:
        return
    line = 'ip link del "$LINK" 2>/dev/null; nft delete table inet "$LINK" 2>/dev/null; true'
    _run(agent, line, {"LINK": link_name(network)})


def _run(agent: Agent, script: str, environment: dict[str, str]) -> str:
    runtime = runtime_of(agent)
    image_id = helper_image(runtime, built_image_ids())
    if image_id is None:
        raise OverlayFailed(f"No network across machines on {agent.name}: {NO_IMAGE}.")
    done = runtime.run_helper(
        HelperSpec(
            name=f"berth-overlay-{uuid4().hex[:12]}",
            image=image_id,
            labels=one_off_labels("overlay"),
            command=("sh", "-c", script),
            environment=environment,
            capabilities=("NET_ADMIN",),
            has_network=True,
        )
    )
    output = " ".join(done.output.decode(errors="replace").split())
    if done.exit_code:
        raise OverlayFailed(f"No network across machines on {agent.name} ({done.exit_code}): {output[:300]}")
    return output


@cache
def _script() -> str:
    return Path(__file__).with_suffix(".sh").read_text()
