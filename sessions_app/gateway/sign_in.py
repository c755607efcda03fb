"""How a portal sign-in becomes a cookie of an app's host, as in OAuth's code flow.

app host: a state in a cookie, redirect → portal: signed in? allowed? a one-time code, redirect → app host: code and
state against a cookie of this host alone. The portal's own cookie never reaches an app's host.
"""

from urllib.parse import parse_qs, urlencode

from django.conf import settings
from django.urls import reverse

from accounts.tokens import new_secret
from sessions_app.gateway import pages
from sessions_app.gateway.call import APP_COOKIE, STATE_COOKIE, Call
from sessions_app.gateway.ports import AccessUnknown, Authorizer
from sessions_app.tickets import AppHost, is_secret, local_path

# The gateway's own part of every app host; never forwarded.
OWN_PREFIX = "/.berth/"
CALLBACK_PATH = "/.berth/callback"
_STATE_LIFETIME_S = 600
# Secure on plain http too: browsers treat *.localhost as secure, and nothing else may go without TLS.
_COOKIE = "; Path=/; Secure; HttpOnly; SameSite=Lax"


async def begin(call: Call, host: AppHost) -> None:
    """Send the browser to the portal. Tabs that open at the same moment share one state."""
    state = call.cookie(STATE_COOKIE)
    if not is_secret(state):
        state = new_secret()
    query = urlencode({"host": host.label, "next": local_path(call.path_and_query), "state": state})
    cookie = f"{STATE_COOKIE}={state}; Max-Age={_STATE_LIFETIME_S}{_COOKIE}"
    await call.respond(
        *pages.redirect(302, f"{settings.BERTH_URL}{reverse('app-authorize')}?{query}", cookie)
    )


async def finish(call: Call, host: AppHost, authorizer: Authorizer) -> None:
    """Take the code that the portal sent the browser back with."""
    query = parse_qs(call.scope["query_string"].decode("ascii", "replace"), max_num_fields=8)
    code, state, path = (query.get(name, [""])[0] for name in ("code", "state", "next"))
    is_own_state = is_secret(state) and call.cookie(STATE_COOKIE) == state
    try:
        cookie = await authorizer.redeem(host, code, state) if is_own_state and is_secret(code) else None
    except AccessUnknown:
        await call.answer(pages.unknown_access())
        return
    if cookie is None:
        await call.answer(pages.sign_in_failed())
        return
    await call.respond(*pages.redirect(303, local_path(path), f"{APP_COOKIE}={cookie}{_COOKIE}"))
