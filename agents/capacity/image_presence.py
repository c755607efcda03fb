"""Presence on agents of an image that no registry has."""

from django.db.models import Count, Exists, OuterRef

from agents.core.states import AgentState
from agents.models import Agent, AgentImage, ResourceGroup


def machines_without(group: ResourceGroup, reference: str, architecture: str) -> int:
    """Number of connected agents of this architecture in the group, if none of them has the image;
    0 if any has it. Agents that have not reported images yet count as having it. One query.
    """
    images = AgentImage.objects.filter(agent=OuterRef("pk"))
    may_have_it = Exists(images.filter(reference=reference)) | ~Exists(images)
    agents = Agent.objects.filter(resource_group=group, architecture=architecture)
    counts = agents.in_state(AgentState.CONNECTED).aggregate(
        total=Count("pk"), having=Count("pk", filter=may_have_it)
    )
    return 0 if counts["having"] else int(counts["total"])
