"""Accelerator models of resource groups."""

from collections.abc import Iterable

from agents.models import Agent, ResourceGroup


def device_models_in(groups: Iterable[ResourceGroup], architecture: str = "") -> list[str]:
    """Return accelerator models of active machines of these groups, by name. One query.

    `architecture` restricts the machines.
    """
    machines = Agent.objects.in_use().filter(resource_group__in=groups).exclude(device_model="")
    if architecture:
        machines = machines.filter(architecture=architecture)
    found = machines.order_by("device_model").values_list("device_model", flat=True)
    return list(found.distinct())
