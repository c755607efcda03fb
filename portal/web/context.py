"""What every page of the frame needs."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from common import clock
from common.api import actor_of
from common.navigation import menu_for
from common.push import id_at
from portal.selectors import current_announcements, unread_notifications
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
    host, is_by_port = host_name(request.get_host()), opens_by_port(request)
    return {
        "app_name": "Berth",
        "menu": menu_for(user, request.path),
        # What happens from here on, while the page is being made and sent, the page hears from its stream.
        "unread_count": SimpleLazyObject(lambda: unread_notifications(actor).count()),
        "announcements": SimpleLazyObject(lambda: current_announcements(request.session.get(DISMISSED, []))),
        "news_after": id_at(getattr(request, "began_at", None) or clock.now()),
        "apps_available": knows_hosts(host) or is_by_port,
        "apps_by_address": host if is_by_port else "",
        "apps_domain": settings.BERTH_APPS_DOMAIN,
        "tunnel_line": tunnel_line(request),
    }
