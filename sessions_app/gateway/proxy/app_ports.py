"""Assign ports of the portal's address to apps, for browsers that cannot resolve app hosts (ADR 12)."""

from collections.abc import Collection, Iterable
from datetime import timedelta
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
from sessions_app.core.app_address import AppPort, host_name
from sessions_app.models import AssignedPort, ComputeSession

# Time before a port is reused after its session ended: a tab of the earlier app has the same
# origin.
REUSE_AFTER_S = 3600
_TRIES = 5
_listening: dict[int, None] = {}  # ordered set


def set_listening_ports(ports: Iterable[int]) -> None:
    """Set the ports on which this process's server listens for apps."""
    global _listening
    _listening = dict.fromkeys(ports)


def listening_ports() -> Collection[int]:
    return _listening


def may_assign_ports() -> bool:
    """Return True if this process may assign ports: it listens on some, the administrator allows
    it, and the portal does not use TLS (then it has host names).
    """
    return bool(_listening) and settings.BERTH_APPS_BY_ADDRESS == "allowed" and not settings.IS_HTTPS


def resolves_app_hosts(name: str) -> bool:
    """Return True if a browser that opened the portal under this name can resolve app hosts.
    `*.localhost` is the browser's own computer; any other domain has DNS set up by an
    administrator.
    """
    if settings.BERTH_APPS_DOMAIN.endswith("localhost"):
        return name == "localhost" or name.endswith(".localhost")
    return True


def opens_by_port(request: HttpRequest) -> bool:
    """Return True if apps are opened by port for this browser."""
    return not resolves_app_hosts(host_name(request.get_host())) and may_assign_ports()


def app_link(request: HttpRequest, session: ComputeSession, app: str) -> str:
    """Return the URL of an app for links in a page requested by `request`."""
    if resolves_app_hosts(host_name(request.get_host())):
        return app_url(session, app)
    return reverse("app-open", args=[session.pk, app])


def is_app_port_host(host: str, port: int) -> bool:
    """Return True if a Host header has a name of the portal and this port. Any other name may be
    foreign DNS that points here.
    """
    name, given_port = split_domain_port(host)
    is_ours: bool = validate_host(name, settings.ALLOWED_HOSTS)
    return is_ours and given_port == str(port) and not resolves_app_hosts(name) and may_assign_ports()


def assigned_port(port: AppPort) -> AssignedPort | None:
    """Return the app endpoint assigned to the port with its session, or None. One query."""
    return AssignedPort.objects.select_related("session").filter(port=port.number).first()


def assign_port(session: ComputeSession, app: str) -> AppPort:
    """Return the app's port; assigns one if it has none that this process listens on. Raises
    LimitExceeded, Unavailable.
    """
    for _attempt in range(_TRIES):
        try:
            return _assign_port(session, app)
        except IntegrityError:
            continue  # another process took the same port concurrently
    raise Unavailable(_("No port for the app could be found."), hint=_("Try again."))


@transaction.atomic
def _assign_port(session: ComputeSession, app: str) -> AppPort:
    assignments = list(
        AssignedPort.objects.select_for_update(of=("self",)).select_related("session").order_by("port")
    )
    mine = next(
        (
            assignment
            for assignment in assignments
            if (assignment.session_id, assignment.app) == (session.pk, app)
        ),
        None,
    )
    if mine is not None and mine.port in _listening:
        return AppPort(mine.port)
    of_person = [
        assignment
        for assignment in assignments
        if assignment.session.is_live and assignment.session.owner_id == session.owner_id
    ]
    if len(of_person) - (mine is not None) >= max(1, len(_listening) // 2):
        raise LimitExceeded(
            ngettext(
                "You have {count} app open by address, which is as many as one person may.",
                "You have {count} apps open by address, which is as many as one person may.",
                len(of_person),
            ).format(count=len(of_person)),
            hint=_("Stop a session that you do not need, or open the portal by a name."),
        )

    port, rested = _choose_port(assignments)
    for assignment in (mine, rested):
        if assignment is not None:
            assignment.delete()
    AssignedPort.objects.create(port=port, session=session, app=app)
    return AppPort(port)


def _choose_port(assignments: list[AssignedPort]) -> tuple[int, AssignedPort | None]:
    """Return a port and its row: one never assigned (row None), else the one unused for the longest time."""
    lent = {assignment.port: assignment for assignment in assignments}
    fresh = next((port for port in _listening if port not in lent), None)
    if fresh is not None:
        return fresh, None
    now = clock.now()
    rested = [
        (ended_at, port)
        for port in _listening
        if (ended_at := lent[port].session.ended_at) and ended_at < now - timedelta(seconds=REUSE_AFTER_S)
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


def portal_url_at(name: str) -> str:
    """Return the portal's URL under the host name of an app port."""
    port = urlsplit(settings.BERTH_URL).port
    return f"http://{name}:{port}" if port else f"http://{name}"
