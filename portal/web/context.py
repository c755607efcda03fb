"""What every page of the frame needs."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

from common.navigation import menu_for


def apps_reachable(request: HttpRequest) -> bool:
    """Whether app hosts can be opened from where this page was opened.

    `*.localhost` names the browser's own machine, so they only work if the portal was opened as localhost.
    """
    host = request.get_host().partition(":")[0]
    is_local_domain = settings.BERTH_APPS_DOMAIN.endswith("localhost")
    return not is_local_domain or host == "localhost" or host.endswith(".localhost")


def local_url(request: HttpRequest) -> str:
    """The address under which apps open, for a browser on the portal's own machine; "" for any other."""
    host = request.get_host().rpartition(":")[0] or request.get_host()
    is_here = host in ("127.0.0.1", "[::1]")
    return f"http://localhost:{request.get_port()}{request.path}" if is_here else ""


def tunnel_line(request: HttpRequest) -> str:
    """What makes `*.localhost` mean this portal on the reader's own computer."""
    host = request.get_host().partition(":")[0]
    port = urlsplit(settings.BERTH_URL).port or request.get_port()
    return f"ssh -L {port}:localhost:{port} {host}"


def frame(request: HttpRequest) -> dict[str, Any]:
    """Menu and facts for base.html."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {"app_name": "Berth", "menu": [], "apps_available": True}
    return {
        "app_name": "Berth",
        "menu": menu_for(user, request.path),
        "apps_available": apps_reachable(request),
        "apps_domain": settings.BERTH_APPS_DOMAIN,
        "tunnel_line": tunnel_line(request),
        "local_url": local_url(request),
    }
