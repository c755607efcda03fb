"""Page of one image: the machines that have it, and bringing it to others or removing it there."""

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import may_do_everything
from accounts.web.form_errors import errors_as_messages
from accounts.web.page_access import require_global_overseer
from agents.machine_images.removal import remove_image
from agents.machine_images.selectors import MachineWithImage, machines_of_image
from agents.machine_images.transfers import bring_image
from agents.models import Agent
from agents.web.groups import superadmin_or_404
from common.actors import Actor
from common.errors import Conflict, InvalidInput, NotFound, Unavailable
from common.pages.htmx import local_url, render_page_or_fragment
from images.models import ContainerImage
from images.selectors import access_image
from images.services import set_image_pinned

EVERYWHERE = "everywhere"


class BringForm(forms.Form):
    """Machines to which an image is brought: all, those of a group, or one."""

    target = forms.ChoiceField(
        label=gettext_lazy("Machines"),
        help_text=gettext_lazy("Those that have the image already are left as they are."),
    )

    def __init__(self, machines: list[MachineWithImage], data: Any = None) -> None:
        super().__init__(data)
        self._agents = [machine.agent for machine in machines]
        groups = sorted({agent.resource_group.name for agent in self._agents})
        self.fields["target"].choices = [  # type: ignore[attr-defined]
            (EVERYWHERE, _("All machines")),
            (_("Resource groups"), [(f"group:{name}", name) for name in groups]),
            (_("Machines"), [(f"agent:{agent.pk}", agent.name) for agent in self._agents]),
        ]

    def agents(self) -> list[Agent]:
        """Return the chosen machines of a valid form."""
        kind, _colon, value = self.cleaned_data["target"].partition(":")
        return [
            agent
            for agent in self._agents
            if kind == EVERYWHERE
            or (kind == "group" and agent.resource_group.name == value)
            or (kind == "agent" and str(agent.pk) == value)
        ]


@require_GET
@login_required
def image_page(request: HttpRequest, image_id: int) -> HttpResponse:
    """Show which machines have the image; the same view renders the fragment for live updates."""
    actor = require_global_overseer(request)
    image, machines = _image_on_machines(actor, image_id)
    context = {
        "image": image,
        "machines": machines,
        "having": sum(machine.image is not None for machine in machines),
        "is_coming": any(machine.state in ("coming", "waiting") for machine in machines),
        "form": BringForm(machines),
        "is_superadmin": may_do_everything(actor),
    }
    return render_page_or_fragment(request, "agents/image.html", "agents/_image.html", context)


@require_POST
@login_required
def bring(request: HttpRequest, image_id: int) -> HttpResponse:
    """Have the image brought to the chosen machines, and return to its page."""
    actor = superadmin_or_404(request)
    image, machines = _image_on_machines(actor, image_id)
    form = BringForm(machines, request.POST)
    with errors_as_messages(request, Conflict, InvalidInput):
        if not form.is_valid():
            raise InvalidInput(_("There is no such machine or resource group."))
        made = bring_image(actor=actor, image=image, agents=form.agents())
        sentence = ngettext(
            "The image is brought to {count} machine.",
            "The image is brought to {count} machines.",
            len(made),
        )
        messages.success(request, sentence.format(count=len(made)))
    return redirect("image", image_id)


@require_POST
@login_required
def pin(request: HttpRequest, image_id: int) -> HttpResponse:
    """Have machines keep the image, or no longer, and return to its page."""
    actor = superadmin_or_404(request)
    is_pinned = request.POST.get("pinned") == "yes"
    image = set_image_pinned(actor=actor, image_id=image_id, is_pinned=is_pinned)
    sentence = (
        _("Machines keep “{image}”, however long nobody uses it.")
        if is_pinned
        else _("Machines may remove “{image}” when nobody uses it.")
    )
    messages.success(request, sentence.format(image=image))
    return redirect("image", image_id)


@require_POST
@login_required
def remove(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Remove an image from a machine, and return to the page that asked."""
    actor = superadmin_or_404(request)
    reference = request.POST.get("reference", "")
    with errors_as_messages(request, Conflict, NotFound, Unavailable):
        remove_image(actor=actor, agent_id=agent_id, reference=reference)
        messages.success(request, _("“{image}” is removed from the machine.").format(image=reference))
    return redirect(local_url(request, request.POST.get("back", "")) or "agents")


def _image_on_machines(actor: Actor, image_id: int) -> tuple[ContainerImage, list[MachineWithImage]]:
    image = access_image(actor, image_id)
    return image, machines_of_image(actor, image)
