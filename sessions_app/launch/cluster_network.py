"""Networks of sessions whose containers are on several machines: one subnet, a bridge on each machine,
and fixed addresses, by which each container knows the names of all others (ADR 68).
"""

import ipaddress
from collections.abc import Mapping, Sequence
from uuid import UUID
from zlib import crc32

from django.conf import settings
from django.db import transaction

from agents.machines.overlay import Overlay, join_overlay, leave_overlay, machine_addresses
from agents.models import Agent
from agents.runtime.port import OutOfCapacity
from common.db.advisory_locks import lock_exclusive
from sessions_app.core.container_spec import ClusterAddresses, network_name
from sessions_app.models import ClusterNetwork, ComputeSession, Kernel

PREFIX = 24
PORT = 4799
"""UDP port of VXLAN on all machines. Not 4789, which Docker's overlays use; the network isolation keeps
sessions from sending to it.
"""
FIRST_VNI = 4096
VNIS = 2**24 - FIRST_VNI


def is_across_machines(session: ComputeSession) -> bool:
    """Return True if the containers are placed on several machines. No query if they were loaded."""
    return len({kernel.agent_id for kernel in session.kernels.all()}) > 1


def cluster_addresses(session: ComputeSession) -> Mapping[UUID, ClusterAddresses]:
    """Return the network of each container by kernel id; {} if all are on one machine.

    Raises OutOfCapacity if the pool has no subnet left.
    """
    if not is_across_machines(session):
        return {}
    kernels: Sequence[Kernel] = list(session.kernels.all())
    subnet = _subnet(_take_number(session))
    hosts = {kernel.name: str(subnet[1 + kernel.rank]) for kernel in kernels}
    machines = sorted({kernel.agent_id for kernel in kernels if kernel.agent_id})
    return {
        kernel.pk: ClusterAddresses(
            subnet=str(subnet),
            gateway=str(subnet[-2 - machines.index(kernel.placed_agent.pk)]),
            mtu=settings.BERTH_CLUSTER_MTU,
            hosts=tuple(hosts.items()),
        )
        for kernel in kernels
    }


def join_machines(session: ComputeSession) -> None:
    """Join the bridges of the session, which exist on its machines. Raises RuntimeFault."""
    agents = list({kernel.agent_id: kernel.placed_agent for kernel in session.kernels.all()}.values())
    real = [agent for agent in agents if not agent.is_simulated]
    addresses = machine_addresses(real)
    vni = vni_of(session.cluster_network.pk)
    overlay = Overlay(network_name(session.pk), vni, PORT, settings.BERTH_CLUSTER_MTU)
    for agent in real:
        join_overlay(overlay, agent, addresses)


def vni_of(network_id: int) -> int:
    """Return the number on the wire of a network. Installations that share a machine begin at different ones,
    as its kernel refuses a second VXLAN with the same number.
    """
    return FIRST_VNI + (crc32(settings.BERTH_INSTALLATION.encode()) + network_id) % VNIS


def leave_machine(session_id: UUID, agent: Agent) -> None:
    """Remove what joins the session's bridge on this machine with others. Raises RuntimeFault."""
    leave_overlay(network_name(session_id), agent)


def release_network(session_id: UUID) -> None:
    """Give the session's subnet back, once its containers are gone."""
    ClusterNetwork.objects.filter(session=session_id).delete()


def _subnet(number: int) -> ipaddress.IPv4Network:
    first = ipaddress.IPv4Network(settings.BERTH_CLUSTER_POOL).network_address
    return ipaddress.IPv4Network((int(first) + (number << (32 - PREFIX)), PREFIX))


@transaction.atomic
def _take_number(session: ComputeSession) -> int:
    """Return the place of the session's subnet in the pool, taking a free one if it has none."""
    lock_exclusive("cluster-networks", wait_s=10)
    network = ClusterNetwork.objects.filter(session=session).first()
    if network is None:
        taken = set(ClusterNetwork.objects.values_list("number", flat=True))
        count = 2 ** (PREFIX - ipaddress.IPv4Network(settings.BERTH_CLUSTER_POOL).prefixlen)
        # From anywhere on: a machine that was lost may still have the network of a session that ended.
        first = session.pk.int % count
        free = next((n % count for n in range(first, first + count) if n % count not in taken), None)
        if free is None:
            raise OutOfCapacity(f"All {count} networks for sessions on several machines are in use.")
        network = ClusterNetwork.objects.create(session=session, number=free)
    session.cluster_network = network
    return network.number
