"""Keeps a pool of ready networks on each agent, because creating one at launch is slow (ADR 20).

Creating a network takes a quarter of the time of starting a container. A pooled network
(`PooledNetwork`) is first a row, then a network, then ready. A session keeps its network to its
end; it is never reused. A row that is not ready was left by a crash: its network is removed and the
row deleted. So names and rows suffice for recovery at any point.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from agents.core.states import AgentState
from agents.models import Agent
from agents.runtime.port import ContainerRuntime, RuntimeFault, RuntimeUnavailable
from agents.selectors import runtime_of
from common import clock
from common.db.advisory_locks import try_exclusive
from common.resilience.keyed_pool import KeyedPool
from sessions_app.core import container_spec
from sessions_app.core.states import TERMINAL, Status
from sessions_app.models import Kernel, PooledNetwork

log = structlog.get_logger(__name__)

LAUNCH_WINDOW = timedelta(minutes=10)
MAX_NETWORKS = 32
THREADS = 16
ROUND_S = 10

_pool = KeyedPool["Changes"]("networks", THREADS)


class Changes(NamedTuple):
    """Networks of one machine that were removed, and that were created."""

    removed: list[PooledNetwork]
    created: list[PooledNetwork]


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
    """Run one round over all reachable agents: remove surplus networks, create missing ones. A machine that
    hangs delays no other, and is left out until its thread ends.

    Does nothing if another round is running.
    """
    with try_exclusive("moorings") as is_mine:
        if not is_mine:
            return
        reachable = Agent.objects.filter(Q(last_error="") | Q(state=AgentState.RETIRED))
        agents = {agent.pk: agent for agent in reachable if not _pool.is_busy(agent.pk)}
        wanted = wanted_networks(agents.values())
        free = Counter(_free().values_list("agent_id", flat=True))
        for agent_id in agents:
            _withdraw(agent_id, free[agent_id] - wanted[agent_id])
        unneeded = _unneeded(agents)
        quiet = agents.keys() - _busy_agents()
        missing = _missing({agent_id: wanted[agent_id] - free[agent_id] for agent_id in quiet})
        work = {
            agent_id: partial(_change, agents[agent_id], unneeded[agent_id], missing[agent_id])
            for agent_id in unneeded.keys() | missing.keys()
        }
        for _agent_id, done in _pool.results(work, timeout_s=ROUND_S):
            PooledNetwork.objects.filter(pk__in=[network.pk for network in done.removed]).delete()
            PooledNetwork.objects.filter(pk__in=[network.pk for network in done.created]).update(
                is_ready=True
            )


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


def _unneeded(agent_ids: Iterable[int]) -> defaultdict[int, list[PooledNetwork]]:
    """Return by agent the networks that are not ready or whose session has ended."""
    has_ended = Q(session__status__in=[status.value for status in TERMINAL])
    rows = PooledNetwork.objects.filter(Q(is_ready=False) | has_ended).filter(agent_id__in=agent_ids)
    return _by_agent(rows)


def _missing(counts: dict[int, int]) -> defaultdict[int, list[PooledNetwork]]:
    """Return by agent the rows, made now, of so many networks."""
    rows = [PooledNetwork(agent_id=agent_id) for agent_id, count in counts.items() for _ in range(count)]
    return _by_agent(PooledNetwork.objects.bulk_create(rows))


def _by_agent(rows: Iterable[PooledNetwork]) -> defaultdict[int, list[PooledNetwork]]:
    found: defaultdict[int, list[PooledNetwork]] = defaultdict(list)
    for row in rows:
        found[row.agent_id].append(row)
    return found


def _change(agent: Agent, unneeded: list[PooledNetwork], missing: list[PooledNetwork]) -> Changes:
    """Remove and create networks on one engine, until it does not answer; return those of which that was done.
    No query.
    """
    done, runtime = Changes([], []), runtime_of(agent)
    removals = [(network, done.removed, partial(_remove, runtime, network)) for network in unneeded]
    creations = [(network, done.created, partial(_create, runtime, network)) for network in missing]
    for network, of_kind, change in removals + creations:
        try:
            change()
        except RuntimeFault as error:
            log.warning("moorings.failed", mooring=str(network.pk), agent=agent.name, error=str(error))
            if isinstance(error, RuntimeUnavailable):
                break
        else:
            of_kind.append(network)
    # The engine of a retired agent is not called again.
    return Changes(unneeded, []) if agent.state == AgentState.RETIRED else done


def _remove(runtime: ContainerRuntime, network: PooledNetwork) -> None:
    runtime.remove_network(container_spec.pooled_network_name(network.pk))


def _create(runtime: ContainerRuntime, network: PooledNetwork) -> None:
    runtime.ensure_network(
        container_spec.build_pooled_network_spec(
            settings.BERTH_INSTALLATION, network.pk, settings.BERTH_SESSION_POOL
        )
    )
