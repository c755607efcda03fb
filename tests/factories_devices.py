"""Accelerators for machines of tests."""

from agents.machines.accelerators import simulate_devices
from agents.models import Agent, AgentDevice, AgentSlot
from common.values.resources import MILLI


def give_devices(agent: Agent, count: int = 2, model: str = "") -> list[AgentDevice]:
    """So many `gpu`, as the engine of a machine tells them and the machine itself names them."""
    AgentSlot.objects.create(agent=agent, slot_name="gpu", capacity=count * MILLI)
    simulate_devices([agent.pk], "gpu", count, model)
    return devices_of(agent)


def devices_of(agent: Agent) -> list[AgentDevice]:
    return list(AgentDevice.objects.filter(agent=agent).order_by("index"))


def occupied_devices(agent: Agent) -> list[int]:
    """What is held of each, by index."""
    return [device.occupied for device in devices_of(agent)]
