"""Create accelerators of agents."""

from agents.machines.accelerators import SIMULATED_MEM_BYTES, simulate_devices
from agents.models import Agent, AgentDevice, AgentSlot
from common.values.resources import MIG, MILLI


def give_devices(
    agent: Agent,
    count: int = 2,
    model: str = "",
    *,
    slot: str = "gpu",
    mem_bytes: int = SIMULATED_MEM_BYTES,
    api_version: int = 0,
) -> list[AgentDevice]:
    """Give an agent `count` devices of one slot, as reported by engine and discovery."""
    AgentSlot.objects.create(agent=agent, slot_name=slot, capacity=count * MILLI)
    simulate_devices([agent.pk], slot, count, model)
    AgentDevice.objects.filter(agent=agent, slot_name=slot).update(
        mem_bytes=mem_bytes, api_version=api_version
    )
    if not slot.startswith(MIG):
        Agent.objects.filter(pk=agent.pk).update(
            device_model=model, device_mem_bytes=mem_bytes, device_api_version=api_version
        )
    return devices_of(agent)


def devices_of(agent: Agent) -> list[AgentDevice]:
    return list(AgentDevice.objects.filter(agent=agent).order_by("index"))


def occupied_devices(agent: Agent) -> list[int]:
    """Return the allocated amount of each device, by index."""
    return [device.occupied for device in devices_of(agent)]
