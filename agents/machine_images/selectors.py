"""Select the machines that have an image, and those that are getting it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import Count

from agents.models import Agent, AgentImage, ImageTransfer
from agents.selectors import visible_agents
from common.actors import Actor
from images.models import ContainerImage


@dataclass(frozen=True, slots=True)
class MachineWithImage:
    """One machine and one image: `image` if the machine has it, `transfer` is the newest one there.

    `state` is there, coming, waiting, failed or absent.
    """

    agent: Agent
    image: AgentImage | None
    transfer: ImageTransfer | None

    @property
    def state(self) -> str:
        if self.transfer is not None and self.transfer.ended_at is None:
            return "coming" if self.transfer.started_at else "waiting"
        if self.image is not None:
            return "there"
        return "failed" if self.transfer is not None and self.transfer.error else "absent"

    @property
    def badge(self) -> str:
        """Return the state by the name of its style (common.pages.status_styles)."""
        return f"image-{self.state}"

    @property
    def error(self) -> str:
        """Return why the image did not arrive; "" unless the state is failed."""
        return self.transfer.error if self.transfer is not None and self.state == "failed" else ""


def image_holders(actor: Actor, references: Collection[str]) -> tuple[Mapping[str, int], int]:
    """Return {reference: number of agents in use that have the image and that the actor sees}, which
    omits images that none has, and the number of those agents. Two queries.
    """
    agents = visible_agents(actor).in_use()
    rows = AgentImage.objects.filter(agent__in=agents, reference__in=references)
    counts = dict(rows.order_by().values_list("reference").annotate(Count("pk")))
    return counts, agents.count()


def machines_of_image(actor: Actor, image: ContainerImage) -> list[MachineWithImage]:
    """Return the agents in use that the actor sees and that could run the image, by name. Three queries."""
    agents = visible_agents(actor).in_use().select_related("resource_group").order_by("name")
    if image.architecture:
        agents = agents.filter(architecture=image.architecture)
    rows = {row.agent_id: row for row in AgentImage.objects.filter(reference=image.reference)}
    newest: dict[int, ImageTransfer] = {}
    transfers = ImageTransfer.objects.filter(reference=image.reference).select_related("source")
    for transfer in transfers.order_by("agent_id", "-pk").distinct("agent_id"):
        newest[transfer.agent_id] = transfer
    return [MachineWithImage(agent, rows.get(agent.pk), newest.get(agent.pk)) for agent in agents]
