"""Labels and choices for sharing templates and presets."""

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.models import Project
from common.actors import Actor
from sessions_app.core.template_rules import Sharing
from sessions_app.session_templates.sharing import SharedRow, writable_scopes

SHARING_WORDS = {
    Sharing.OWN: gettext_lazy("Only you"),
    Sharing.PROJECT: gettext_lazy("Project"),
    Sharing.DOMAIN: gettext_lazy("Domain"),
    Sharing.EVERYBODY: gettext_lazy("Everybody"),
}


def place_choices(actor: Actor) -> list[tuple[str, Any]]:
    """Return the options of a select, where the actor may create shared rows: "own",
    "project:uni/vision", "domain:uni", "everybody". 3 queries.
    """
    projects, domains, is_central = writable_scopes(actor)
    has_many = len({each.domain_id for each in projects}) > 1
    choices: list[tuple[str, Any]] = [(Sharing.OWN.value, SHARING_WORDS[Sharing.OWN])]
    choices += [
        (f"project:{each.domain.name}/{each.name}", _("Project {name}").format(name=_named(each, has_many)))
        for each in projects
    ]
    choices += [(f"domain:{each.name}", _("Domain {name}").format(name=each)) for each in domains]
    return choices + ([(Sharing.EVERYBODY.value, _("Everybody"))] if is_central else [])


def sharing_arguments(choice: str) -> dict[str, str]:
    """Convert an option into the arguments of the services."""
    sharing, _colon, place = choice.partition(":")
    return {"sharing": sharing, "place": place}


def owner_label(thing: SharedRow) -> str:
    """Return the name of the project or domain, or the label of the sharing."""
    place = thing.project or thing.domain
    return str(place or SHARING_WORDS[Sharing(thing.sharing)])


def _named(project: Project, has_many: bool) -> str:
    """Return the project's name, with its domain if projects of several domains are offered."""
    return f"{project} ({project.domain})" if has_many else str(project)
