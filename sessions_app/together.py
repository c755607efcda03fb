"""Engines that are asked together: simulated ones, which keep what they have in Redis. Thousands of them cost a round as
much as one engine of a machine; those that differ from the rows are then looked at one by one, as all others are."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from django.conf import settings

from agents.models import Agent
from agents.runtime.base import ContainerState, ContainerStatus
from agents.runtime.simulated import SimulatedRuntime
from agents.runtime.simulated_shelf import read_containers
from agents.selectors import runtime_of
from sessions_app import specs
from sessions_app.models import Kernel
from sessions_app.states import Status

OURS = {specs.INSTALLATION_LABEL: settings.BERTH_INSTALLATION}
_Known = Mapping[str, tuple[str, str | None]]
"""By container name: status of the session, address."""


def differing(agents: Sequence[Agent]) -> Iterator[int]:
    """Ids of those of these machines whose containers are not as the rows say. Two requests for all."""
    found = dict(list_containers(agents))
    known: dict[int, dict[str, tuple[str, str | None]]] = defaultdict(dict)
    # Read after the lists: a container that was made in between is in neither and waits for the next round.
    live = Kernel.objects.filter(agent_id__in=found, session__ended_at=None).order_by()
    rows = live.values_list("agent_id", "pk", "attempt", "session__status", "address")
    for agent_id, kernel_id, attempt, status, address in rows:
        known[agent_id][specs.container_name(kernel_id, attempt)] = (status, address)
    return (agent_id for agent_id, states in found.items() if _differ(states, known[agent_id]))


def list_containers(agents: Sequence[Agent]) -> Iterator[tuple[int, dict[str, ContainerState]]]:
    """Containers of ours by name, for each of these machines that answers."""
    runtimes: dict[int, SimulatedRuntime] = {}
    for agent in agents:
        runtime = runtime_of(agent)
        if isinstance(runtime, SimulatedRuntime) and runtime.answers:
            runtimes[agent.pk] = runtime
    shelves = [runtime.shelf for runtime in runtimes.values()]
    for (agent_id, runtime), containers in zip(runtimes.items(), read_containers(shelves), strict=True):
        yield agent_id, {state.name: state for state in runtime.states_in(containers, OURS)}


def _differ(found: Mapping[str, ContainerState], known: _Known) -> bool:
    if found.keys() - known.keys():
        return True
    for name, (status, address) in known.items():
        state = found.get(name)
        if status == Status.RUNNING and (
            state is None
            or state.status is not ContainerStatus.RUNNING
            or next(iter(state.addresses.values()), None) != address
        ):
            return True
    return False
