"""Portal views that open an app: assign its address and authorize the browser."""

from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from common.errors import InvalidInput, PermissionDenied
from common.pages.htmx import closed_during_impersonation
from common.rest.actor import actor_of
from sessions_app.app_services.urls import app_origin, app_url, check_app_name
from sessions_app.core.app_address import (
    AppEndpoint,
    AppHost,
    AppPort,
    host_name,
    is_hash,
    local_path,
    parse_app_host,
)
from sessions_app.gateway.auth.app_credentials import issue_app_code
from sessions_app.gateway.auth.app_sign_in import CALLBACK_PATH
from sessions_app.gateway.proxy import app_ports
from sessions_app.selectors import Action, access_session


class SeeOther(HttpResponseRedirect):
    status_code = 303


@closed_during_impersonation
@never_cache
@require_GET
@login_required
def open_app(request: HttpRequest, session_id: UUID, app: str) -> HttpResponse:
    """Redirect the user to an app of a session: to its host, or to a port if the browser cannot
    resolve hosts.
    """
    session = access_session(actor_of(request), session_id, Action.OPEN_APP)
    check_app_name(session, app)
    name = host_name(request.get_host())
    if app_ports.resolves_app_hosts(name):
        return _send_to(request, app_url(session, app))
    if not app_ports.may_assign_ports():
        raise PermissionDenied(
            _("Apps cannot be opened under this address."),
            hint=_("Open the portal under its name; its start page says which."),
        )
    return _send_to(request, f"http://{name}:{app_ports.assign_port(session, app).number}/", is_port=True)


@closed_during_impersonation
@never_cache
@require_GET
@login_required
def authorize(request: HttpRequest) -> HttpResponse:
    """Redirect a user who may open the app back to it with a one-time code. The target is built
    from the settings and the portal's host name; the query only selects an app host label or app
    port.
    """
    endpoint, state = _requested_endpoint(request), request.GET.get("state", "")
    if endpoint is None or not is_hash(state):
        raise InvalidInput(_("This link to an app is incomplete."), hint=_("Open the app from its session."))
    login_key = request.session.session_key or ""
    code = issue_app_code(actor=actor_of(request), login_key=login_key, endpoint=endpoint, state=state)
    query = urlencode({"code": code, "next": local_path(request.GET.get("next", ""))})
    location = f"{_endpoint_origin(request, endpoint)}{CALLBACK_PATH}?{query}"
    response = _send_to(request, location, is_port=isinstance(endpoint, AppPort))
    response["Referrer-Policy"] = "no-referrer"
    return response


def _requested_endpoint(request: HttpRequest) -> AppEndpoint | None:
    number = request.GET.get("door", "")
    if number.isascii() and number.isdigit():
        is_ours = int(number[:6]) in app_ports.listening_ports() and app_ports.opens_by_port(request)
        return AppPort(int(number)) if is_ours else None
    return parse_app_host(
        f"{request.GET.get('host', '')}.{settings.BERTH_APPS_DOMAIN}", settings.BERTH_APPS_DOMAIN
    )


def _endpoint_origin(request: HttpRequest, endpoint: AppEndpoint) -> str:
    if isinstance(endpoint, AppHost):
        return app_origin(endpoint.session_label, endpoint.app)
    return f"http://{host_name(request.get_host())}:{endpoint.number}"


def _send_to(request: HttpRequest, location: str, *, is_port: bool = False) -> HttpResponse:
    """Return a redirect; after a form of the portal (sign-in) a page that continues automatically,
    because browsers apply the policy `form-action 'self'` to all redirects after a form. On
    plain-http addresses browsers do not send what preceded the request, so the page is always used
    there.
    """
    if not is_port and request.headers.get("Sec-Fetch-Site") != "same-origin":
        return SeeOther(location)
    links = [{"label": _("Go on"), "url": location}]
    context = {
        "title": _("Opening the app"),
        "location": location,
        "links": links,
        "nonce": request.csp_nonce,  # type: ignore[attr-defined]
    }
    return render(request, "sessions_app/gateway/page.html", context)
