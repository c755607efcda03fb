"""Names, host names and URLs of a session's apps."""

from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import NotFound
from sessions_app.core.app_address import is_app_name, port_named
from sessions_app.models import ComputeSession


def app_host(host_label: str, app: str) -> str:
    """Return the host name of an app, e.g. `jupyter-<label>.apps.localhost`, without port."""
    return f"{app}-{host_label}.{settings.BERTH_APPS_DOMAIN}"


def app_origin(host_label: str, app: str) -> str:
    """Return the origin of an app: scheme and port of the portal, host of the app."""
    portal = urlsplit(settings.BERTH_URL)
    port = f":{portal.port}" if portal.port else ""
    return f"{portal.scheme}://{app_host(host_label, app)}{port}"


def app_url(session: ComputeSession, app: str, path: str = "/") -> str:
    return f"{app_origin(session.host_label, app)}{path}"


def app_links(session: ComputeSession) -> list[dict[str, object]]:
    """Return the apps that the image declares as [{"name", "title", "url"}]; [] if the session is
    not running or not interactive.
    """
    if not session.is_running or session.type != "interactive":
        return []
    return [
        {"name": app.name, "title": app.title, "url": app_url(session, app.name)}
        for app in session.image.app_hints
    ]


def check_app_name(session: ComputeSession, app: str) -> None:
    """Raise NotFound unless the image declares the app, or its name is that of a port."""
    is_declared = any(declared["name"] == app for declared in session.image.apps)
    if not is_app_name(app) or not (is_declared or port_named(app)):
        sentence = _("The session “{session}” has no app of this name.")
        raise NotFound(sentence.format(session=session.name))
