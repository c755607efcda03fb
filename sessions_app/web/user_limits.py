"""Page that explains why a user cannot start a session: the user's limits in a project, who sets
each, and the result of a hypothetical request.
"""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from accounts.budgets.selectors import Owner, budget_states
from accounts.core.authorization import Action
from accounts.core.limits import Level
from accounts.limits import user_scopes
from accounts.models import Project, User
from accounts.selectors import access_user, shared_projects
from accounts.web.budgets.budgets import budget_rows
from accounts.web.policies.limits import limit_rows, list_rows
from agents.selectors import usable_resource_groups, with_agent_counts
from common.actors import Actor, ActorKind
from common.errors import BerthError, LimitExceeded
from common.pages.form_fields import UncheckedChoice, UncheckedField
from common.rest.actor import actor_of
from images.selectors import visible_images
from sessions_app.admission.forecast import forecast_session
from sessions_app.admission.names import suggest_name
from sessions_app.core.request import parse_request
from sessions_app.limits.group_rules import group_label


class HypotheticalRequestForm(forms.Form):
    """Form of a hypothetical request; unbound until submitted, all values are in the URL."""

    image = UncheckedChoice(label=gettext_lazy("Environment"))
    resource_group = UncheckedChoice(required=False, label=gettext_lazy("Resource group"))
    cpu = UncheckedField(max_length=12, label=gettext_lazy("CPU cores"))
    mem = UncheckedField(max_length=12, label=gettext_lazy("Memory"))
    devices = UncheckedField(
        max_length=100,
        required=False,
        label=gettext_lazy("Accelerators"),
        help_text=gettext_lazy("Like cuda=1."),
    )

    def __init__(self, data: Mapping[str, Any] | None, *, actor: Actor) -> None:
        super().__init__(data, initial={"cpu": "1", "mem": "2g"})  # type: ignore[arg-type]
        images = [(image.reference, image.title or image.reference) for image in visible_images(actor)]
        groups = with_agent_counts(usable_resource_groups(actor)).order_by("name")
        self._choose("image", images)
        self._choose(
            "resource_group", [("", _("Default")), *((each.name, group_label(each)) for each in groups)]
        )

    def raw_request(self, *, name: str, project: str) -> dict[str, Any]:
        """Return the input as the body of a REST request."""
        typed = self.cleaned_data
        devices = (pair.partition("=") for pair in typed["devices"].replace(",", " ").split())
        return {
            "name": name,
            "project": project,
            "image": typed["image"],
            "resource_group": typed["resource_group"],
            "resources": {
                "cpu": typed["cpu"],
                "mem": typed["mem"],
                **{slot: n for slot, _equals, n in devices},
            },
        }

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices


@require_GET
@login_required
def person_limits(request: HttpRequest, user_id: int) -> HttpResponse:
    """Show the limits of the reader, or of a user whom the reader administers. Changes nothing."""
    actor = actor_of(request)
    person = access_user(actor, user_id, Action.VIEW)
    projects = list(shared_projects(actor, person))
    wanted = request.GET.get("project", "")
    project = next((each for each in projects if each.name == wanted), projects[0] if projects else None)
    hypothetical_actor, scopes = _forecast_actor(person), user_scopes(person, project)
    form = HypotheticalRequestForm(request.GET if "image" in request.GET else None, actor=hypothetical_actor)
    context = {
        "person": person,
        "is_oneself": person.pk == actor.user_id,
        "projects": projects,
        "project": project,
        "rows": limit_rows(scopes),
        "lists": list_rows(scopes),
        "budgets": budget_rows(budget_states(_owners(person, project))),
        "form": form,
        "verdict": _verdict(hypothetical_actor, project, form) if form.is_bound and project else None,
    }
    return render(request, "sessions_app/person_limits.html", context)


def _verdict(
    hypothetical_actor: Actor, project: Project, form: HypotheticalRequestForm
) -> dict[str, Any] | None:
    """Return {"word": now|wait|no, "sentences": […]}; None if the form is invalid."""
    if not form.is_valid():
        return None
    try:
        raw = form.raw_request(name=suggest_name(hypothetical_actor, "check"), project=project.name)
        forecast = forecast_session(hypothetical_actor, parse_request(raw))
    except BerthError as refusal:
        limits = refusal.sentences if isinstance(refusal, LimitExceeded) else []
        at_fields = [sentence for sentences in refusal.fields.values() for sentence in sentences]
        return {"word": "no", "sentences": limits or at_fields or [refusal.message], "hint": refusal.hint}
    word = "now" if forecast.outlook.starts_now else "wait"
    return {"word": word, "sentences": [str(forecast.outlook.sentence)]}


def _owners(person: User, project: Project | None) -> list[Owner]:
    return [(Level.USER, person.pk), *([(Level.PROJECT, project.pk)] if project else [])]


def _forecast_actor(person: User) -> Actor:
    """Return an actor for the user, for reading forecasts only, never for writing."""
    return Actor(
        kind=ActorKind.USER,
        user_id=person.pk,
        label=person.email,
        domain_id=person.domain_id,
        is_superadmin=person.is_superuser,
    )
