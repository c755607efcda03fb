"""Exchange a portal sign-in for a cookie of one app, like the authorization code flow of OAuth 2.

The app's host sets a secret in a cookie and redirects to the portal with its hash. The portal
checks sign-in and permission and redirects back with a one-time code. Code and secret together are
exchanged for a cookie of this app alone. An observer of the URLs, e.g. a service worker of the app,
lacks the secret. The portal's own cookie never reaches an app.
"""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from django.urls import reverse

from accounts.core.token_secrets import hash_secret, new_secret
from sessions_app.core.app_address import AppEndpoint, AppHost, is_secret, local_path
from sessions_app.gateway.proxy import status_pages
from sessions_app.gateway.proxy.access_types import AccessUnknown, Authorizer
from sessions_app.gateway.proxy.request import APP_COOKIE, STATE_COOKIE, AppRequest

# Reserved for the gateway on every app host; never forwarded.
OWN_PREFIX = "/.berth/"
CALLBACK_PATH = "/.berth/callback"
_STATE_LIFETIME_S = 600
_EVERYWHERE = "; Path=/; HttpOnly; SameSite=Lax"


@dataclass(frozen=True, slots=True)
class CookieNames:
    """Cookie names of one app endpoint.

    On an app host the prefix `__Host-` binds cookies to the host. It requires `Secure`; browsers
    treat *.localhost as secure. Ports of one host share cookies, so names of ports contain the port
    number.
    """

    app: str
    state: str
    attributes: str


_OF_HOSTS = CookieNames(APP_COOKIE, STATE_COOKIE, f"; Secure{_EVERYWHERE}")


def cookie_names(endpoint: AppEndpoint) -> CookieNames:
    if isinstance(endpoint, AppHost):
        return _OF_HOSTS
    return CookieNames(f"berth-app-{endpoint.number}", f"berth-state-{endpoint.number}", _EVERYWHERE)


async def begin_sign_in(request: AppRequest, endpoint: AppEndpoint) -> None:
    """Redirect the browser to the portal. Tabs that are opened together share one secret."""
    names = cookie_names(endpoint)
    state = next((value for value in request.cookies(names.state) if is_secret(value)), None) or new_secret()
    place = {"host": endpoint.label} if isinstance(endpoint, AppHost) else {"door": str(endpoint.number)}
    query = urlencode({**place, "next": local_path(request.path_and_query), "state": hash_secret(state)})
    cookie = f"{names.state}={state}; Max-Age={_STATE_LIFETIME_S}{names.attributes}"
    await request.respond(
        *status_pages.redirect(302, f"{request.portal}{reverse('app-authorize')}?{query}", cookie)
    )


async def finish_sign_in(request: AppRequest, endpoint: AppEndpoint, authorizer: Authorizer) -> None:
    """Redeem the code in the redirect from the portal and set the app's cookie. Accepts only a
    navigation of the browser, no fetch by a script.
    """
    names = cookie_names(endpoint)
    query = parse_qs(request.scope["query_string"].decode("ascii", "replace"), max_num_fields=8)
    code, path = (query.get(name, [""])[0] for name in ("code", "next"))
    states = tuple(hash_secret(value) for value in request.cookies(names.state) if is_secret(value))
    is_complete = request.is_navigation and states and is_secret(code)
    try:
        cookie = await authorizer.redeem(endpoint, code, states) if is_complete else None
    except AccessUnknown:
        await request.answer(status_pages.unknown_access())
        return
    if cookie is None:
        await request.answer(status_pages.sign_in_failed())
        return
    await request.respond(
        *status_pages.redirect(303, local_path(path), f"{names.app}={cookie}{names.attributes}")
    )
