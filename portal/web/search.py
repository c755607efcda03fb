"""Search over objects that a user may see, for the command palette and as a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import (
    access_usable_project,
    manageable_projects,
    oversees_people,
    oversees_projects,
    usable_projects,
    visible_users,
)
from accounts.web.chosen_project import choose_project
from common.actors import Actor
from common.pages.htmx import local_url, render_page_or_fragment
from common.pages.navigation import links_for
from common.pages.status_styles import status_style
from common.rest.actor import actor_of
from common.values.text import normalised
from images.selectors import visible_images
from sessions_app.selectors import own_sessions, visible_sessions
from vfolders.selectors import visible_folders

MOST = 6
LONGEST_QUESTION = 100
# The first word may be a command; the rest is the search text.
VERBS = {"stop": "stop", "new": "new", "start": "new", "switch": "switch", "project": "switch", "go": "go"}


@dataclass(frozen=True, slots=True)
class Hit:
    """Search result: a link, or a POST with `fields`."""

    label: str
    url: str
    icon: str
    note: str = ""
    keys: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    is_post: bool = False
    number: int = 0


@require_GET
@login_required
def search(request: HttpRequest) -> HttpResponse:
    """Show results for `q` in groups, as a page or as options of the palette. ≤ 10 queries."""
    question = normalised(request.GET.get("q", ""))[:LONGEST_QUESTION].strip()
    groups = numbered(find(actor_of(request), request.user, question))
    context = {"question": question, "groups": groups}
    return render_page_or_fragment(request, "portal/search.html", "includes/palette_options.html", context)


@require_POST
@login_required
def switch_project(request: HttpRequest) -> HttpResponse:
    """Select the project to work in; "" selects all."""
    name = request.POST.get("project", "")
    if name:
        access_usable_project(actor_of(request), name)
    choose_project(request, name)
    return redirect(local_url(request, request.POST.get("back", "")))


def find(actor: Actor, user: Any, question: str) -> list[tuple[str, list[Hit]]]:
    """Return groups of hits; a command restricts them to its own group."""
    verb, words = split(question)
    if verb == "stop":
        return [(_("Stop a session"), stops(actor, words))]
    if verb == "new":
        return [(_("Start a session"), [new_session(), *images(actor, words)])]
    if verb == "switch":
        return [(_("Work in project"), projects(actor, words))]
    if verb == "go" or not words:
        return [
            (_("Sessions"), running(actor)),
            (_("Pages"), pages(user, words)),
            (_("Actions"), [new_session()]),
        ]
    return [
        (_("Pages"), pages(user, words)),
        (_("Sessions"), sessions(actor, words)),
        (_("Folders"), folders(actor, words)),
        (_("People"), people(actor, words) if oversees_people(user) else []),
        (_("Projects"), managed_projects(actor, words) if oversees_projects(user) else []),
        (_("Start a session"), images(actor, words)),
        (_("Stop a session"), stops(actor, words)),
        (_("Work in project"), projects(actor, words)),
    ]


def split(question: str) -> tuple[str, str]:
    """Split a question into command, "" if none, and text: ("stop", "train")."""
    first, _space, rest = question.partition(" ")
    verb = {**VERBS, **verbs_of_the_reader()}.get(first.lower(), "")
    return (verb, rest.strip()) if verb else ("", question)


def verbs_of_the_reader() -> dict[str, str]:
    """Return the commands in the reader's language, besides the English ones."""
    return {
        pgettext("command", "stop"): "stop",
        pgettext("command", "new"): "new",
        pgettext("command", "switch"): "switch",
    }


def numbered(groups: Iterable[tuple[str, Sequence[Hit]]]) -> list[dict[str, Any]]:
    """Return the groups with hits, each hit with its number among all."""
    shown: list[dict[str, Any]] = []
    count = 0
    for label, hits in groups:
        if hits:
            shown.append(
                {"label": label, "hits": [replace(hit, number=count + n) for n, hit in enumerate(hits)]}
            )
            count += len(hits)
    return shown


def pages(user: Any, words: str) -> list[Hit]:
    found = [link for link in links_for(user) if words.lower() in f"{link.label} {link.purpose}".lower()]
    return [Hit(link.label, link.url, link.icon, note=link.purpose, keys=link.keys) for link in found[:MOST]]


def new_session() -> Hit:
    return Hit(_("New session"), reverse("session-new"), "plus", keys="n")


def running(actor: Actor) -> list[Hit]:
    return [session_hit(session) for session in own_sessions(actor).live()[:MOST]]


def sessions(actor: Actor, words: str) -> list[Hit]:
    """Return sessions whose name matches, live ones first."""
    found = visible_sessions(actor).filter(name__icontains=words)
    ordered = found.order_by(F("ended_at").desc(nulls_first=True), "-created_at")
    return [session_hit(session) for session in ordered[:MOST]]


def session_hit(session: Any) -> Hit:
    style = status_style(session.status)
    return Hit(session.name, reverse("session-detail", args=[session.pk]), "terminal-2", note=style.label)


def folders(actor: Actor, words: str) -> list[Hit]:
    found = visible_folders(actor).filter(name__icontains=words).order_by("name")[:MOST]
    return [
        Hit(
            folder.name,
            reverse("folder", args=[folder.pk]),
            "folder",
            note=str(folder.project) if folder.project else "",
        )
        for folder in found
    ]


def people(actor: Actor, words: str) -> list[Hit]:
    found = visible_users(actor).filter(Q(email__icontains=words) | Q(name__icontains=words))
    return [
        Hit(person.email, reverse("person", args=[person.pk]), "user", note=person.name)
        for person in found.order_by("email")[:MOST]
    ]


def managed_projects(actor: Actor, words: str) -> list[Hit]:
    found = manageable_projects(actor).filter(Q(name__icontains=words) | Q(title__icontains=words))
    return [
        Hit(project.name, reverse("project", args=[project.pk]), "folders", note=project.title)
        for project in found.order_by("name", "pk")[:MOST]
    ]


def images(actor: Actor, words: str) -> list[Hit]:
    found = visible_images(actor).filter(is_enabled=True, reference__icontains=words)[:MOST]
    return [
        Hit(
            _("New session with {image}").format(image=image.reference),
            f"{reverse('session-new')}?{urlencode({'image': image.reference})}",
            "rocket",
        )
        for image in found
    ]


def stops(actor: Actor, words: str) -> list[Hit]:
    found = own_sessions(actor).live().filter(name__icontains=words)[:MOST]
    return [
        Hit(
            _("Stop “{name}”").format(name=session.name),
            reverse("session-stop", args=[session.pk]),
            "player-stop",
            note=status_style(session.status).label,
            is_post=True,
        )
        for session in found
    ]


def projects(actor: Actor, words: str) -> list[Hit]:
    found = usable_projects(actor).filter(name__icontains=words).order_by("name")[:MOST]
    return [
        Hit(
            _("Switch to {project}").format(project=project.name),
            reverse("switch-project"),
            "switch-horizontal",
            fields={"project": project.name},
            is_post=True,
        )
        for project in found
    ]
