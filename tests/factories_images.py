"""Create machines with engines in memory for tests of images."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from agents.machine_images import runner
from agents.machines import service as agent_services
from agents.models import Agent, ImageTransfer, ResourceGroup
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common.actors import SYSTEM
from tests.factories_sessions import Place

_numbers = count(1)


def make_machine(
    images: Sequence[str] = (),
    *,
    group: ResourceGroup | None = None,
    kind: type[SimulatedRuntime] = SimulatedRuntime,
    address: str = "simulated://{}",
    **options: Any,
) -> tuple[Agent, Any]:
    """Register a machine with these images; return the agent and its engine."""
    name = f"imaged-{next(_numbers)}"
    engine = kind(name=name, images=images, **options)
    adopt_runtime(address.format(name), engine)
    group = group or ResourceGroup.objects.create(name=name)
    agent = agent_services.register_agent(
        actor=SYSTEM, name=name, address=address.format(name), resource_group=group
    )
    return agent, engine


def lose_image(place: Place) -> None:
    """Remove the place's image from its machine, which a heartbeat notices."""
    place.runtime.forget_image(place.image.reference)
    place.agent.images.all().delete()


def carry_all() -> None:
    """Carry out all transfers that wait, as worker threads do."""
    for agent_id in set(ImageTransfer.objects.active().values_list("agent", flat=True)):
        runner.carry_out(agent_id)
