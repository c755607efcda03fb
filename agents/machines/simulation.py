"""Bulk creation and removal of simulated agents, for benchmarks and demonstrations."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db import transaction

from accounts.selectors import require_superadmin
from agents.capacity.overcommit import apply_overcommit
from agents.core.states import AgentState
from agents.core.usable_capacity import usable_capacity
from agents.machines import lifecycle
from agents.machines.accelerators import SIMULATED_MEM_BYTES, simulate_devices
from agents.machines.observation import Observation
from agents.machines.service import apply_observation
from agents.models import Agent, AgentSlot, ResourceGroup
from agents.runtime.addresses import SHARED, SIMULATED
from agents.runtime.registry import runtime_for
from agents.runtime.simulated.state import Behaviour
from common.actors import Actor
from common.audit import audit_log
from common.values.resources import MILLI

AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class MachineShape:
    """Size of a simulated machine, and behaviour of its containers."""

    cores: int = 64
    mem_gib: int = 512
    gpus: int = 8
    behaviour: Behaviour = field(default_factory=Behaviour)
    gpu_model: str = ""
    gpu_slot: str = "gpu"


@transaction.atomic
def add_simulated_agents(
    *, actor: Actor, group: ResourceGroup, count: int, shape: MachineShape
) -> Sequence[Agent]:
    """Add `count` simulated agents of this shape to the group, named `<group>-00001` and so on."""
    require_superadmin(actor)
    known = Agent.objects.filter(name__startswith=f"{group.name}-").values_list("name", flat=True)
    taken = set(known)
    candidates = (f"{group.name}-{number:05}" for number in itertools.count(1))
    names = list(itertools.islice((name for name in candidates if name not in taken), count))
    made = Agent.objects.bulk_create((_agent(name, group, shape) for name in names), batch_size=AT_ONCE)
    capacity = usable_capacity(
        shape.cores * MILLI, shape.mem_gib * 2**30, {shape.gpu_slot: shape.gpus * MILLI}
    )
    AgentSlot.objects.bulk_create(
        (
            AgentSlot(agent=agent, slot_name=name, capacity=amount)
            for agent in made
            for name, amount in capacity.items()
        ),
        batch_size=AT_ONCE,
    )
    apply_overcommit([agent.pk for agent in made])
    simulate_devices([agent.pk for agent in made], shape.gpu_slot, shape.gpus, shape.gpu_model)
    changes = {"count": count, "cores": shape.cores, "mem_gib": shape.mem_gib, "gpus": shape.gpus}
    audit_log.record(actor=actor, action="agents.add_simulated_agents", target=group, changes=changes)
    if made:
        lifecycle.push_agent_change(made[-1])
    return made


@transaction.atomic
def remove_simulated_agents(*, actor: Actor, group: ResourceGroup) -> tuple[int, int]:
    """Delete the simulated agents of the group, and the group if it is empty then. Agents that a
    session refers to, even one that has ended, are retired instead, and the group is paused. Return
    the numbers of deleted and retired agents.
    """
    require_superadmin(actor)
    agents = Agent.objects.filter(resource_group=group, address__startswith=SIMULATED)
    free = agents.filter(kernels__isnull=True, designating_sessions__isnull=True).values_list("pk", flat=True)
    deleted = Agent.objects.filter(pk__in=list(free))
    counts = deleted.count(), agents.count() - deleted.count()
    deleted.delete()
    for agent in agents.in_use():
        lifecycle.transition(agent.pk, to=AgentState.RETIRED, actor=actor)
    changes = {"deleted": counts[0], "retired": counts[1]}
    audit_log.record(actor=actor, action="agents.remove_simulated_agents", target=group, changes=changes)
    if group.agents.exists() or group.sessions.exists():
        ResourceGroup.objects.filter(pk=group.pk).update(is_active=False)
    else:
        group.delete()
    return counts


def simulated_address(name: str, shape: MachineShape) -> str:
    query: dict[str, object] = {"cpu": shape.cores, "mem_gib": shape.mem_gib, "gpu": shape.gpus}
    if shape.gpu_slot != "gpu":
        query["gpu_slot"] = shape.gpu_slot
    behaviour = shape.behaviour
    optional = {
        "start_s": behaviour.start_s, "run_s": behaviour.run_s, "fail": behaviour.fail_rate, "lose": behaviour.lose_rate
    }  # fmt: skip
    query |= {name: f"{value:g}" for name, value in optional.items() if value}
    return f"{SIMULATED}{name}?{SHARED}&{urlencode(query)}"


def _agent(name: str, group: ResourceGroup, shape: MachineShape) -> Agent:
    """Return an agent as its first heartbeat would record it."""
    address = simulated_address(name, shape)
    info = runtime_for(address).info()
    agent = Agent(name=name, address=address, resource_group=group, engine_id=info.engine_id)
    apply_observation(agent, Observation(info, ()))
    agent.device_model = shape.gpu_model
    agent.device_mem_bytes = SIMULATED_MEM_BYTES if shape.gpus else 0
    return agent
