"""Keeps a pool of ready networks on each agent, because creating one at launch is slow (ADR 20).

Creating a network takes a quarter of the time of starting a container. A pooled network
(`PooledNetwork`) is first a row, then a network, then ready. A session keeps its network to its
end; it is never reused. A row that is not ready was left by a crash: its network is removed and the
row deleted. So names and rows suffice for recovery at any point.
"""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from agents.core.states import AgentState
from agents.models import Agent
from agents.runtime.port import ContainerRuntime, RuntimeFault
from agents.selectors import runtime_of
from common import clock
from common.db.advisory_locks import try_exclusive
from sessions_app.core import container_spec
from sessions_app.core.states import TERMINAL, Status
from sessions_app.models import Kernel, PooledNetwork

log = structlog.get_logger(__name__)

LAUNCH_WINDOW = timedelta(minutes=10)
MAX_NETWORKS = 32
CREATORS = 4


@transaction.atomic
def assign_pooled_network(session_id: UUID, agent: Agent) -> UUID | None:
    """Assign a pooled network to the session on this agent and return its id.

    Returns the one it already has, if any; None if the pool is empty.
    """
    usable = PooledNetwork.objects.filter(Q(session=session_id) | Q(session=None, is_ready=True), agent=agent)
    usable = usable.order_by(F("session").asc(nulls_last=True), "made_at")
    network = usable.select_for_update(skip_locked=True).first()
    if network is None:
        return None
    PooledNetwork.objects.filter(pk=network.pk).update(session=session_id)
    return network.pk


def find_pooled_network(session_id: UUID, agent: Agent) -> UUID | None:
    """Return the id of the session's pooled network on this agent, or None."""
    return (
        PooledNetwork.objects.filter(session_id=session_id, agent=agent).values_list("pk", flat=True).first()
    )


def remove_session_network(session_id: UUID, agent: Agent, runtime: ContainerRuntime) -> None:
    """Remove the session's network, pooled or its own. Raises RuntimeFault."""
    pooled_network_id = find_pooled_network(session_id, agent)
    if pooled_network_id is None:
        runtime.remove_network(container_spec.network_name(session_id))
    else:
        runtime.remove_network(container_spec.pooled_network_name(pooled_network_id))
        PooledNetwork.objects.filter(pk=pooled_network_id).delete()


def maintain_network_pool() -> None:
    """Run one round over all reachable agents: remove surplus networks, create missing ones.

    Does nothing if another round is running.
    """
    with try_exclusive("moorings") as is_mine:
        if not is_mine:
            return
        reachable = Agent.objects.filter(Q(last_error="") | Q(state=AgentState.RETIRED))
        agents = {agent.pk: agent for agent in reachable}
        wanted = wanted_networks(agents.values())
        free = Counter(_free().values_list("agent_id", flat=True))
        for agent_id in agents:
            _withdraw(agent_id, free[agent_id] - wanted[agent_id])
        _remove_unneeded(agents)
        quiet = agents.keys() - _busy_agents()
        _create_missing(agents, {agent_id: wanted[agent_id] - free[agent_id] for agent_id in quiet})


def wanted_networks(agents: Iterable[Agent]) -> Counter[int]:
    """Return the wanted number of free networks per agent.

    It is the number of launches in the last minutes, within bounds; 0 for agents that start no
    sessions.
    """
    ahead = settings.BERTH_NETWORKS_AHEAD
    recent = Kernel.objects.filter(session__started_at__gte=clock.now() - LAUNCH_WINDOW)
    launched = Counter(recent.values_list("agent_id", flat=True))
    return Counter(
        {
            agent.pk: max(ahead, min(MAX_NETWORKS, launched[agent.pk]))
            for agent in agents
            if ahead and agent.state == AgentState.CONNECTED
        }
    )


def reap_pool(agent: Agent, networks: Iterable[str]) -> set[str]:
    """Delete rows of free networks that are gone from the machine; return networks without a row."""
    found = set(networks)
    rows = dict(PooledNetwork.objects.filter(agent=agent).values_list("pk", "session_id"))
    names = {container_spec.pooled_network_name(pk): pk for pk in rows}
    lost = [pk for name, pk in names.items() if name not in found and rows[pk] is None]
    PooledNetwork.objects.filter(pk__in=lost, session=None).delete()
    return found - names.keys()


def _free() -> QuerySet[PooledNetwork]:
    return PooledNetwork.objects.filter(session=None, is_ready=True)


def _busy_agents() -> set[int]:
    """Return ids of agents that are about to start containers, which creating networks would delay."""
    starting = Kernel.objects.filter(session__status__in=[Status.SCHEDULED.value, Status.STARTING.value])
    return set(starting.exclude(agent=None).values_list("agent_id", flat=True))


def _withdraw(agent_id: int, count: int) -> None:
    """Withdraw `count` free networks from the pool, so that no session takes them."""
    if count > 0:
        surplus = _free().filter(agent_id=agent_id).order_by("-made_at")[:count]
        _free().filter(pk__in=[network.pk for network in surplus]).update(is_ready=False)


def _remove_unneeded(agents: dict[int, Agent]) -> None:
    """Remove networks that are not ready or whose session has ended."""
    has_ended = Q(session__status__in=[status.value for status in TERMINAL])
    for network in PooledNetwork.objects.filter(Q(is_ready=False) | has_ended).filter(agent_id__in=agents):
        agent = agents[network.agent_id]
        try:
            runtime_of(agent).remove_network(container_spec.pooled_network_name(network.pk))
        except RuntimeFault as error:
            log.warning("moorings.not_removed", mooring=str(network.pk), agent=agent.name, error=str(error))
            if agent.state != AgentState.RETIRED:  # the engine of a retired agent is not called again
                continue
        network.delete()


def _create_missing(agents: dict[int, Agent], counts: dict[int, int]) -> None:
    """Create networks in parallel, because engines take long for each."""
    missing = [PooledNetwork(agent_id=agent_id) for agent_id, count in counts.items() for _ in range(count)]
    PooledNetwork.objects.bulk_create(missing)
    with ThreadPoolExecutor(CREATORS, thread_name_prefix="moorings") as pool:
        made = pool.map(lambda network: _create(network, agents[network.agent_id]), missing)
        for network, is_made in zip(missing, made, strict=True):
            if is_made:
                PooledNetwork.objects.filter(pk=network.pk).update(is_ready=True)


def _create(network: PooledNetwork, agent: Agent) -> bool:
    """Create the network on the engine; return False if it fails. No query."""
    spec = container_spec.build_pooled_network_spec(
        settings.BERTH_INSTALLATION, network.pk, settings.BERTH_SESSION_POOL
    )
    try:
        runtime_of(agent).ensure_network(spec)
    except RuntimeFault as error:
        log.warning("moorings.not_made", agent=agent.name, error=str(error))
        return False
    return True
