"""The portal's half of opening an app."""

from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from common.api import actor_of
from common.errors import InvalidInput
from sessions_app.gateway.logins import issue_app_ticket
from sessions_app.gateway.sign_in import CALLBACK_PATH
from sessions_app.links import app_origin
from sessions_app.tickets import is_secret, local_path, parse_app_host


class SeeOther(HttpResponseRedirect):
    status_code = 303


@never_cache
@require_GET
@login_required
def authorize(request: HttpRequest) -> HttpResponse:
    """Send a person who may open the app back to its host with a one-time code. The address is built from our own
    settings; the query chooses no host, only a label below the apps' domain."""
    label, state = request.GET.get("host", ""), request.GET.get("state", "")
    host = parse_app_host(f"{label}.{settings.BERTH_APPS_DOMAIN}", settings.BERTH_APPS_DOMAIN)
    if host is None or not is_secret(state):
        raise InvalidInput("This link to an app is incomplete.", hint="Open the app from its session.")
    login_key = request.session.session_key or ""
    code = issue_app_ticket(actor=actor_of(request), login_key=login_key, host=host, state=state)
    query = urlencode({"code": code, "state": state, "next": local_path(request.GET.get("next", ""))})
    response = _send_to(request, f"{app_origin(host.session_label, host.app)}{CALLBACK_PATH}?{query}")
    response["Referrer-Policy"] = "no-referrer"
    return response


def _send_to(request: HttpRequest, location: str) -> HttpResponse:
    """A redirect; after a form of our own (signing in) a page that goes on by itself, since browsers hold the policy
    `form-action 'self'` against every redirect that follows a form."""
    if request.headers.get("Sec-Fetch-Site") != "same-origin":
        return SeeOther(location)
    links = [{"label": "Go on", "url": location}]
    context = {"title": "Opening the app", "location": location, "links": links, "nonce": request.csp_nonce}  # type: ignore[attr-defined]
    return render(request, "sessions_app/gateway/page.html", context)
