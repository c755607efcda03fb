"""Create accelerators of agents."""

from agents.machines.accelerators import simulate_devices
from agents.models import Agent, AgentDevice, AgentSlot
from common.values.resources import MILLI


def give_devices(agent: Agent, count: int = 2, model: str = "") -> list[AgentDevice]:
    """Give an agent `count` devices of the slot `gpu`, as reported by engine and discovery."""
    AgentSlot.objects.create(agent=agent, slot_name="gpu", capacity=count * MILLI)
    simulate_devices([agent.pk], "gpu", count, model)
    return devices_of(agent)


def devices_of(agent: Agent) -> list[AgentDevice]:
    return list(AgentDevice.objects.filter(agent=agent).order_by("index"))


def occupied_devices(agent: Agent) -> list[int]:
    """Return the allocated amount of each device, by index."""
    return [device.occupied for device in devices_of(agent)]
