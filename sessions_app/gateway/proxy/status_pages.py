"""Build the gateway's own responses on app hosts: a small page, or one line of text."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from sessions_app.core.states import Status
from sessions_app.gateway.proxy.access_types import AppAccess
from transport.proxy import Headers

REFRESH_S = 2
STAGES: Mapping[str, str] = {
    Status.PENDING: gettext_noop("The session “{session}” waits for a machine with room."),
    Status.SCHEDULED: gettext_noop("The session “{session}” has its machine and starts soon."),
    Status.PREPARING: gettext_noop(
        "The session “{session}” is being prepared: its machine gets the image, a network and the folders."
    ),
    Status.STARTING: gettext_noop("The session “{session}” is starting its container."),
}
OTHER_STAGE = gettext_noop("The session “{session}” is being prepared.")
_PLAIN = (b"content-type", b"text/plain; charset=utf-8")
_PRIVATE: Headers = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@dataclass(frozen=True, slots=True)
class Page:
    """Status page. With `refresh_s` the browser reloads it until the app is available. Links are
    paths of the portal.
    """

    status: int
    title: str
    text: str
    hint: str = ""
    refresh_s: int = 0
    links: tuple[dict[str, str], ...] = ()

    def as_html(self, portal: str) -> tuple[Headers, bytes]:
        """Return headers and body; `portal` is the URL of the portal for this client."""
        nonce = secrets.token_urlsafe(16)
        context: dict[str, Any] = {
            name: getattr(self, name) for name in ("title", "text", "hint", "refresh_s")
        }
        context["links"] = [{**link, "url": portal + link["url"]} for link in self.links]
        body = render_to_string("sessions_app/gateway/page.html", {**context, "nonce": nonce}).encode()
        policy = f"default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", policy.encode()),
            *self._common(),
        ]
        return headers, body

    def as_text(self) -> tuple[Headers, bytes]:
        return [_PLAIN, *self._common()], f"{self.title} {self.text} {self.hint}".strip().encode()

    def _common(self) -> Headers:
        retry = [(b"retry-after", b"%d" % self.refresh_s)] if self.refresh_s else []
        return [*_PRIVATE, *retry]


def redirect(status: int, location: str, *cookies: str) -> tuple[int, Headers]:
    """Return a redirect that is neither cached nor sent as referrer."""
    headers = [(b"location", location.encode("ascii")), (b"content-length", b"0"), *_PRIVATE]
    return status, headers + [(b"set-cookie", cookie.encode("ascii")) for cookie in cookies]


def session_links(session_id: UUID) -> tuple[dict[str, str], ...]:
    return ({"label": _("Back to the session"), "url": reverse("session-detail", args=[session_id])},)


def portal_links() -> tuple[dict[str, str], ...]:
    return ({"label": _("Go to the portal"), "url": "/"},)


def waiting(access: AppAccess) -> Page:
    return Page(
        503,
        _("{app} opens as soon as it can").format(app=access.title),
        _(STAGES.get(access.status, OTHER_STAGE)).format(session=access.session_name),
        hint=_("This page turns into the app by itself."),
        refresh_s=REFRESH_S,
        links=session_links(access.presence.session_id),
    )


def starting(access: AppAccess, waited_s: float) -> Page:
    is_late = waited_s > 60
    return Page(
        503,
        _("{app} is starting").format(app=access.title),
        _("It starts in the session “{session}” and will appear here.").format(session=access.session_name),
        hint=_("This takes longer than usual. A terminal in the session shows its log under /tmp.")
        if is_late
        else "",
        refresh_s=REFRESH_S,
        links=session_links(access.presence.session_id),
    )


def not_started(access: AppAccess, why: str) -> Page:
    title = _("{app} did not start").format(app=access.title)
    return _to_reload(502, title, why, access)


def nothing_listens(access: AppAccess) -> Page:
    port = access.target.port if access.target else 0
    return Page(
        502,
        _("Nothing listens on port {port}").format(port=port),
        _("Start a server on port {port} in the session “{session}”; this page then turns into it.").format(
            port=port, session=access.session_name
        ),
        hint=_("It must listen on 0.0.0.0, not only on 127.0.0.1."),
        refresh_s=REFRESH_S,
        links=session_links(access.presence.session_id),
    )


def ended(access: AppAccess) -> Page:
    return Page(
        410,
        _("This session has ended"),
        _("The session “{session}” does not run any more; its folders are kept.").format(
            session=access.session_name
        ),
        links=session_links(access.presence.session_id),
    )


def unknown_app(access: AppAccess) -> Page:
    apps = ", ".join(access.known_apps)
    sentence = (
        _("The image of “{session}” has these apps: {apps}.")
        if apps
        else _("The image of “{session}” has no apps.")
    )
    return Page(
        404,
        _("There is no app called “{app}” here").format(app=access.app),
        sentence.format(session=access.session_name, apps=apps),
        hint=_("Any port of the session answers as p<number>, for example p8000."),
        links=session_links(access.presence.session_id),
    )


def too_many(access: AppAccess) -> Page:
    text = _("“{session}” has as many connections open as it may. Close some of its tabs.")
    return Page(503, _("Too many connections"), text.format(session=access.session_name), refresh_s=5)


def broken(access: AppAccess, why: str, *, is_timeout: bool) -> Page:
    title = _("{app} does not answer") if is_timeout else _("{app} gave no usable answer")
    return _to_reload(504 if is_timeout else 502, title.format(app=access.title), why, access)


def _to_reload(status: int, title: str, why: str, access: AppAccess) -> Page:
    links = session_links(access.presence.session_id)
    return Page(status, title, why, hint=_("Reload this page to try again."), links=links)


def no_such_address() -> Page:
    return Page(
        404,
        _("There is nothing at this address"),
        _("The address names no app of a session."),
        links=portal_links(),
    )


def signed_out() -> Page:
    text = _("Open the app from its session in the portal.")
    return Page(401, _("You are not signed in to this app"), text, links=portal_links())


def foreign_origin() -> Page:
    return Page(403, _("This request came from another site"), _("Only pages of the app itself may send it."))


def sign_in_failed() -> Page:
    return Page(
        403,
        _("The app could not be opened"),
        _("The browser did not bring back what it was given at the start, or too much time has passed."),
        hint=_(
            "Open the app again from its session. If this stays, the browser does not keep the app's cookies: it may "
            "refuse them, and under a name other than localhost it keeps them on https alone."
        ),
        links=portal_links(),
    )


def unclear_request(why: str) -> Page:
    return Page(400, _("The request cannot be understood"), why)


def unknown_access() -> Page:
    return Page(503, _("The portal cannot check your access now"), _("It asks again by itself."), refresh_s=5)
