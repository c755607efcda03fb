"""Links from the audit log to pages of its objects, for readers who may see them."""

from collections.abc import Callable
from uuid import UUID

from django.urls import reverse

from accounts.selectors import overseen_projects, sees_everything, visible_domains, visible_users
from agents.selectors import visible_agents, visible_resource_groups
from common.actors import Actor
from images.selectors import visible_images
from portal.audit.selectors import governs_others
from sessions_app.selectors import visible_sessions
from vfolders.core.permissions import Action
from vfolders.selectors import actions_on, visible_folders


def object_url(actor: Actor, kind: str, key: str) -> str:
    """Return the URL of the object's page; "" if deleted, hidden or without page. ≤ 3 queries."""
    find = _FINDERS.get(kind)
    try:
        return find(actor, key) if find is not None else ""
    except ValueError:  # malformed key
        return ""


def _user(actor: Actor, key: str) -> str:
    is_there = visible_users(actor).filter(pk=int(key)).exists() and governs_others(actor)
    return reverse("person", args=[key]) if is_there else ""


def _project(actor: Actor, key: str) -> str:
    is_there = overseen_projects(actor).filter(pk=int(key)).exists()
    return reverse("project", args=[key]) if is_there else ""


def _domain(actor: Actor, key: str) -> str:
    is_there = sees_everything(actor) and visible_domains(actor).filter(pk=int(key)).exists()
    return reverse("domain", args=[key]) if is_there else ""


def _session(actor: Actor, key: str) -> str:
    is_there = visible_sessions(actor).filter(pk=UUID(key)).exists()
    return reverse("session-detail", args=[key]) if is_there else ""


def _folder(actor: Actor, key: str) -> str:
    folder = visible_folders(actor).filter(pk=UUID(key)).first()
    can_open = folder is not None and Action.READ in actions_on(actor, folder)
    return reverse("folder", args=[key]) if can_open else ""


def _agent(actor: Actor, key: str) -> str:
    name = visible_agents(actor).filter(pk=int(key)).values_list("name", flat=True).first()
    return reverse("agents", query={"q": name}) if name else ""


def _resource_group(actor: Actor, key: str) -> str:
    is_there = sees_everything(actor) and visible_resource_groups(actor).filter(pk=int(key)).exists()
    return reverse("resource-group", args=[key]) if is_there else ""


def _image(actor: Actor, key: str) -> str:
    reference = visible_images(actor).filter(pk=int(key)).values_list("reference", flat=True).first()
    return reverse("images", query={"q": reference}) if reference else ""


_FINDERS: dict[str, Callable[[Actor, str], str]] = {
    "accounts.user": _user,
    "accounts.project": _project,
    "accounts.domain": _domain,
    "sessions_app.computesession": _session,
    "vfolders.vfolder": _folder,
    "agents.agent": _agent,
    "agents.resourcegroup": _resource_group,
    "images.containerimage": _image,
}
