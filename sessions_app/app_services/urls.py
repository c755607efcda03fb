"""Addresses of a session's apps. Pure but for the settings."""

from urllib.parse import urlsplit

from django.conf import settings

from sessions_app.models import ComputeSession


def app_host(host_label: str, app: str) -> str:
    """`jupyter-<label>.apps.localhost`, without a port."""
    return f"{app}-{host_label}.{settings.BERTH_APPS_DOMAIN}"


def app_origin(host_label: str, app: str) -> str:
    """Scheme and port of the portal, a host of its own."""
    portal = urlsplit(settings.BERTH_URL)
    port = f":{portal.port}" if portal.port else ""
    return f"{portal.scheme}://{app_host(host_label, app)}{port}"


def app_url(session: ComputeSession, app: str, path: str = "/") -> str:
    """The address of an app of a session."""
    return f"{app_origin(session.host_label, app)}{path}"


def apps_of(session: ComputeSession) -> list[dict[str, object]]:
    """The apps that the image declares: [{"name", "title", "url"}]; none before the session runs or after."""
    if not session.is_running or session.type != "interactive":
        return []
    return [
        {"name": app.name, "title": app.title, "url": app_url(session, app.name)}
        for app in session.image.app_hints
    ]
