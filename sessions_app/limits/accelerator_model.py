"""Which accelerators a request wants, by the name of their model."""

from collections.abc import Iterable, Sequence

from django.utils.translation import gettext as _

from agents.models import Agent, ResourceGroup
from common.errors import NotFound
from common.values.text import quoted
from sessions_app.core.request import SessionRequest


def device_models_in(groups: Iterable[ResourceGroup], architecture: str = "") -> list[str]:
    """Models of the machines in use of these groups, of that architecture if one is given, by name. One query."""
    machines = Agent.objects.in_use().filter(resource_group__in=groups).exclude(device_model="")
    if architecture:
        machines = machines.filter(architecture=architecture)
    found = machines.order_by("device_model").values_list("device_model", flat=True)
    return list(found.distinct())


def check_device_model(group: ResourceGroup, request: SessionRequest, models: Sequence[str]) -> None:
    """Raises NotFound where the request names a model that is not among `models`, those of the group for its image."""
    wanted = request.device_model
    if wanted and wanted not in models:
        sentence = _("No machine of the resource group “{group}” has the accelerators {model}.").format(
            group=group.name, model=quoted(wanted)
        )
        hint = _("It has {names}.").format(names=", ".join(models)) if models else ""
        raise NotFound(sentence, hint=hint, fields={"device_model": [sentence]})
