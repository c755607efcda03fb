"""Checks the agent that a request names: the only one it may run on, or the preferred one."""

from django.db.models import Prefetch
from django.utils.translation import gettext as _

from agents.core.sandboxes import SANDBOX_NAMES
from agents.models import Agent, AgentSlot, ResourceGroup
from common.errors import LimitExceeded, NotFound
from common.values.resources import format_slots
from common.values.text import quoted
from images.models import ContainerImage
from sessions_app.core.device_request import api_version
from sessions_app.core.request import SessionRequest

MAX_NAMED = 10


def find_designated_agent(group: ResourceGroup, request: SessionRequest) -> Agent | None:
    """Return the active machine of `group` that the request names, with slots, or None.

    At most 3 queries. Raises NotFound.
    """
    if not request.designated_agent:
        return None
    machines = Agent.objects.in_use().filter(resource_group=group).order_by("name")
    agent = (
        machines.filter(name=request.designated_agent)
        .select_related("resource_group")
        .prefetch_related(Prefetch("slots", AgentSlot.objects.with_installed()))
        .first()
    )
    if agent is None:
        sentence = _("The resource group “{group}” has no machine {name}.").format(
            group=group.name, name=quoted(request.designated_agent)
        )
        names = ", ".join(machines.values_list("name", flat=True)[:MAX_NAMED])
        hint = _("It has {names}.").format(names=names) if names else ""
        raise NotFound(sentence, hint=hint, fields={"designated_agent": [sentence]})
    return agent


def check_designated_agent(agent: Agent, image: ContainerImage, request: SessionRequest) -> None:
    """Raise LimitExceeded if the session must run on this machine and would not fit an empty one, with the
    devices that are withheld now. No query.
    """
    if request.may_run_elsewhere:
        return
    requested, model, capacity = request.slots_at_once[0], request.device_model, agent.installed
    if agent.architecture != image.architecture:
        sentence = _("The machine “{agent}” is {has}, and the image {image} is for {wants}.").format(
            agent=agent.name, has=agent.architecture, image=image, wants=image.architecture
        )
    elif agent.missing_sandbox:
        sentence = _("The machine “{agent}” does not have {sandbox}, the sandbox of its group.").format(
            agent=agent.name, sandbox=SANDBOX_NAMES[agent.missing_sandbox]
        )
    elif model not in ("", agent.device_model):
        sentence = _("The machine “{agent}” does not have the accelerators {model}.").format(
            agent=agent.name, model=quoted(model)
        )
    elif agent.device_mem_bytes < request.device_mem or agent.device_api_version < api_version(
        request.device_api
    ):
        sentence = _(
            "The accelerators of the machine “{agent}” have too little memory or too old a driver."
        ).format(agent=agent.name)
    elif requested.fits_in(capacity):
        return
    else:
        sentence = _("The machine “{agent}” has only {room}.").format(
            agent=agent.name, room=format_slots({name: capacity[name] for name in requested})
        )
    hint = _("Choose another machine, or let it run elsewhere too.")
    raise LimitExceeded(sentence, hint=hint, fields={"designated_agent": [sentence]})
