"""Context processor of base.html: menus, projects, notifications, announcements."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _

from accounts.selectors import cached_projects
from accounts.web.chosen_project import chosen_project
from common import clock
from common.messaging.live_updates import id_at
from common.pages.navigation import Link, Menu, links_for, menu_of, menu_sections
from common.rest.actor import actor_of
from portal.notifications.selectors import current_announcements, unread_notifications
from portal.web.menu import KEYS
from portal.web.notifications import DISMISSED
from sessions_app.core.app_address import host_name
from sessions_app.gateway.proxy.app_ports import opens_by_port, resolves_app_hosts

MENUS = ("menu", "menu_kind", "other_menu", "key_links")


def tunnel_command(request: HttpRequest) -> str:
    """Return the SSH command that makes `*.localhost` reach this portal from elsewhere."""
    port = urlsplit(settings.BERTH_URL).port or request.get_port()
    return f"ssh -L {port}:localhost:{port} {host_name(request.get_host())}"


def frame(request: HttpRequest) -> dict[str, Any]:
    """Return the menus and facts for base.html."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"app_name": "Berth", "menu": [], "apps_available": True}
    actor = actor_of(request)
    menus = cache(lambda: menu_context(links_for(user, request.path)))
    host, is_by_port = host_name(request.get_host()), opens_by_port(request)
    return {
        "app_name": "Berth",
        **{name: SimpleLazyObject(partial(_part, menus, name)) for name in MENUS},
        "project_choices": SimpleLazyObject(lambda: cached_projects(user)),
        "chosen_project": chosen_project(request),
        # Changes from here on, while the page is rendered and sent, arrive by its event stream.
        "unread_count": SimpleLazyObject(lambda: unread_notifications(actor).count()),
        "announcements": SimpleLazyObject(lambda: current_announcements(request.session.get(DISMISSED, []))),
        "news_after": id_at(getattr(request, "began_at", None) or clock.now()),
        "apps_available": resolves_app_hosts(host) or is_by_port,
        "apps_by_address": host if is_by_port else "",
        "apps_domain": settings.BERTH_APPS_DOMAIN,
        "tunnel_line": tunnel_command(request),
    }


def _part(whole: Callable[[], dict[str, Any]], name: str) -> Any:
    return whole()[name]


def menu_context(links: list[Link]) -> dict[str, Any]:
    """Return the values named in MENUS; evaluated lazily, as fragments need no menu."""
    kind = menu_of(links)
    return {
        "menu": menu_sections(links, kind),
        "menu_kind": kind.value,
        "other_menu": other_menu(links, kind),
        "key_links": [*(link for link in links if link.keys), *keys_beside_the_menu()],
    }


def other_menu(links: list[Link], menu: Menu) -> dict[str, str] | None:
    """Return the link to the other menu; None for users with one menu."""
    if menu is Menu.ADMINISTRATION:
        return {"label": _("Back to work"), "url": reverse("start"), "icon": "arrow-left"}
    first = next((link for link in links if link.section.menu is Menu.ADMINISTRATION), None)
    return {"label": _("Administration"), "url": first.url, "icon": "shield-lock"} if first else None


def keys_beside_the_menu() -> list[dict[str, str]]:
    """Return keyboard shortcuts of pages that are in no menu."""
    return [
        {"label": _("Notifications"), "url": reverse("notifications"), "keys": KEYS["notifications"]},
        {"label": _("New session"), "url": reverse("session-new"), "keys": KEYS["session-new"]},
    ]
