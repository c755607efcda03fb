"""What every page of the frame needs."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _

from accounts.chosen_project import chosen_project
from accounts.selectors import usable_projects
from common import clock
from common.api import actor_of
from common.navigation import Link, Menu, links_for, menu_of, sections_of
from common.push import id_at
from portal.selectors import current_announcements, unread_notifications
from portal.web.menu import KEYS
from portal.web.notifications import DISMISSED
from sessions_app.gateway.doors import knows_hosts, opens_by_port
from sessions_app.tickets import host_name


def tunnel_line(request: HttpRequest) -> str:
    """What makes `*.localhost` mean this portal on the reader's own computer."""
    port = urlsplit(settings.BERTH_URL).port or request.get_port()
    return f"ssh -L {port}:localhost:{port} {host_name(request.get_host())}"


def frame(request: HttpRequest) -> dict[str, Any]:
    """Menu and facts for base.html."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"app_name": "Berth", "menu": [], "apps_available": True}
    actor = actor_of(request)
    links = links_for(user, request.path)
    menu_kind = menu_of(links)
    host, is_by_port = host_name(request.get_host()), opens_by_port(request)
    return {
        "app_name": "Berth",
        "menu": sections_of(links, menu_kind),
        "menu_kind": menu_kind.value,
        "other_menu": other_menu(links, menu_kind),
        "key_links": [*(link for link in links if link.keys), *keys_beside_the_menu()],
        "project_choices": SimpleLazyObject(lambda: list(usable_projects(actor).order_by("name"))),
        "chosen_project": chosen_project(request),
        # What happens from here on, while the page is being made and sent, the page hears from its stream.
        "unread_count": SimpleLazyObject(lambda: unread_notifications(actor).count()),
        "announcements": SimpleLazyObject(lambda: current_announcements(request.session.get(DISMISSED, []))),
        "news_after": id_at(getattr(request, "began_at", None) or clock.now()),
        "apps_available": knows_hosts(host) or is_by_port,
        "apps_by_address": host if is_by_port else "",
        "apps_domain": settings.BERTH_APPS_DOMAIN,
        "tunnel_line": tunnel_line(request),
    }


def other_menu(links: list[Link], menu: Menu) -> dict[str, str] | None:
    """Where the switch of the menu leads; None for people with one menu."""
    if menu is Menu.ADMINISTRATION:
        return {"label": _("Back to work"), "url": reverse("start"), "icon": "arrow-left"}
    first = next((link for link in links if link.section.menu is Menu.ADMINISTRATION), None)
    return {"label": _("Administration"), "url": first.url, "icon": "shield-lock"} if first else None


def keys_beside_the_menu() -> list[dict[str, str]]:
    """Keys of pages that are in no menu."""
    return [
        {"label": _("Notifications"), "url": reverse("notifications"), "keys": KEYS["notifications"]},
        {"label": _("New session"), "url": reverse("session-new"), "keys": KEYS["session-new"]},
    ]
