"""Apps by a port of the portal's own address, for browsers that cannot look up a host for each app (ADR 12)."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.http.request import split_domain_port, validate_host
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common import clock
from common.errors import LimitExceeded, Unavailable
from sessions_app.app_services.urls import app_url
from sessions_app.core.app_address import AppHost, AppPort, host_name
from sessions_app.models import AppDoor, ComputeSession

# After the end of its session a port rests: a tab that the earlier app left open is of the same origin as the next.
REST_S = 3600
_TRIES = 5
_listening: dict[int, None] = {}  # in order


def open_ports(ports: Iterable[int]) -> None:
    """Tell this process which ports of apps its server listens on."""
    global _listening
    _listening = dict.fromkeys(ports)


def listening_ports() -> Collection[int]:
    return _listening


def are_allowed() -> bool:
    """Whether this process gives out ports at all: an administrator may forbid it, and a portal behind TLS has names."""
    return bool(_listening) and settings.BERTH_APPS_BY_ADDRESS == "allowed" and not settings.IS_HTTPS


def knows_hosts(name: str) -> bool:
    """Whether a browser that opened the portal by this name can look up the hosts of apps. `*.localhost` means the
    browser's own computer; any other domain was set up by an administrator, with DNS."""
    if settings.BERTH_APPS_DOMAIN.endswith("localhost"):
        return name == "localhost" or name.endswith(".localhost")
    return True


def opens_by_port(request: HttpRequest) -> bool:
    """Whether apps get a port for this browser."""
    return not knows_hosts(host_name(request.get_host())) and are_allowed()


def app_link(request: HttpRequest, session: ComputeSession, app: str) -> str:
    """Where a page that was asked for by `request` lets people open an app of a session."""
    if knows_hosts(host_name(request.get_host())):
        return app_url(session, app)
    return reverse("app-open", args=[session.pk, app])


def may_knock(host: str, port: int) -> bool:
    """Whether a Host header is this portal's by name and names the door's own port. Any other name may have been made
    to point here by somebody else's DNS."""
    name, given_port = split_domain_port(host)
    is_ours: bool = validate_host(name, settings.ALLOWED_HOSTS)
    return is_ours and given_port == str(port) and not knows_hosts(name) and are_allowed()


def door_of(port: AppPort) -> AppDoor | None:
    """What the port is lent to, with its session. One query."""
    return AppDoor.objects.select_related("session").filter(port=port.number).first()


def lend_port(session: ComputeSession, app: str) -> AppPort:
    """The app's port; one is lent if it has none that we listen on. Raises LimitExceeded, Unavailable."""
    for _attempt in range(_TRIES):
        try:
            return _lend_port(session, app)
        except IntegrityError:
            continue  # another process took the same port at the same moment
    raise Unavailable(_("No port for the app could be found."), hint=_("Try again."))


@transaction.atomic
def _lend_port(session: ComputeSession, app: str) -> AppPort:
    doors = list(AppDoor.objects.select_for_update(of=("self",)).select_related("session").order_by("port"))
    mine = next((door for door in doors if (door.session_id, door.app) == (session.pk, app)), None)
    if mine is not None and mine.port in _listening:
        return AppPort(mine.port)
    of_person = [door for door in doors if door.session.is_live and door.session.owner_id == session.owner_id]
    if len(of_person) - (mine is not None) >= max(1, len(_listening) // 2):
        raise LimitExceeded(
            ngettext(
                "You have {count} app open by address, which is as many as one person may.",
                "You have {count} apps open by address, which is as many as one person may.",
                len(of_person),
            ).format(count=len(of_person)),
            hint=_("Stop a session that you do not need, or open the portal by a name."),
        )

    port, rested = _choose(doors)
    for door in (mine, rested):
        if door is not None:
            door.delete()
    AppDoor.objects.create(port=port, session=session, app=app)
    return AppPort(port)


def _choose(doors: list[AppDoor]) -> tuple[int, AppDoor | None]:
    """A port and the row that holds it: one never lent, else the one that has rested for the longest."""
    lent = {door.port: door for door in doors}
    fresh = next((port for port in _listening if port not in lent), None)
    if fresh is not None:
        return fresh, None
    now = clock.now()
    rested = [
        (ended_at, port)
        for port in _listening
        if (ended_at := _ended_at(lent[port])) and ended_at < now - timedelta(seconds=REST_S)
    ]
    if not rested:
        raise Unavailable(
            ngettext(
                "The only port for apps is lent or rests.",
                "All {count} ports for apps are lent or rest.",
                len(_listening),
            ).format(count=len(_listening)),
            hint=_(
                "Try again in an hour, open the portal by a name, or ask an administrator for more "
                "BERTH_APPS_PORTS."
            ),
        )
    port = min(rested)[1]
    return port, lent[port]


def _ended_at(door: AppDoor) -> datetime | None:
    return door.session.ended_at


def portal_at(name: str) -> str:
    """The portal's address under the host name of a door."""
    port = urlsplit(settings.BERTH_URL).port
    return f"http://{name}:{port}" if port else f"http://{name}"


def place_of(door: AppDoor) -> AppHost:
    """The app as its host would name it."""
    return AppHost(door.app, door.session.host_label)
