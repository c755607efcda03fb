"""Checks the accelerator model that a request names."""

from collections.abc import Iterable, Sequence

from django.utils.translation import gettext as _

from agents.models import Agent, ResourceGroup
from common.errors import NotFound
from common.values.text import quoted
from sessions_app.core.request import SessionRequest


def device_models_in(groups: Iterable[ResourceGroup], architecture: str = "") -> list[str]:
    """Return accelerator models of active machines of these groups, by name. One query.

    `architecture` restricts the machines.
    """
    machines = Agent.objects.in_use().filter(resource_group__in=groups).exclude(device_model="")
    if architecture:
        machines = machines.filter(architecture=architecture)
    found = machines.order_by("device_model").values_list("device_model", flat=True)
    return list(found.distinct())


def check_device_model(group: ResourceGroup, request: SessionRequest, models: Sequence[str]) -> None:
    """Raise NotFound if the requested model is not in `models`, those of the group for its image."""
    wanted = request.device_model
    if wanted and wanted not in models:
        sentence = _("No machine of the resource group “{group}” has the accelerators {model}.").format(
            group=group.name, model=quoted(wanted)
        )
        hint = _("It has {names}.").format(names=", ".join(models)) if models else ""
        raise NotFound(sentence, hint=hint, fields={"device_model": [sentence]})
