"""What the gateway itself answers on an app's host: one small page, or one line for what is not a page."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string
from django.urls import reverse

from common.proxy import Headers
from sessions_app.gateway.ports import Admission
from sessions_app.states import Status

REFRESH_S = 2
STAGES: Mapping[str, str] = {
    Status.PENDING: "waits for a machine with room",
    Status.SCHEDULED: "has its machine and starts soon",
    Status.PREPARING: "is being prepared: its machine gets the image, a network and the folders",
    Status.STARTING: "is starting its container",
}
_PLAIN = (b"content-type", b"text/plain; charset=utf-8")
_PRIVATE: Headers = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


@dataclass(frozen=True, slots=True)
class Page:
    """A calm answer. With `refresh_s` the browser asks again by itself until the app is there. Links are paths of the
    portal."""

    status: int
    title: str
    text: str
    hint: str = ""
    refresh_s: int = 0
    links: tuple[dict[str, str], ...] = ()

    def as_html(self, portal: str) -> tuple[Headers, bytes]:
        """`portal` is the address under which the reader finds the portal."""
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
    """A redirect that leaves no trace in caches and referrers."""
    headers = [(b"location", location.encode("ascii")), (b"content-length", b"0"), *_PRIVATE]
    return status, headers + [(b"set-cookie", cookie.encode("ascii")) for cookie in cookies]


def session_links(session_id: UUID) -> tuple[dict[str, str], ...]:
    return ({"label": "Back to the session", "url": reverse("session-detail", args=[session_id])},)


def portal_links() -> tuple[dict[str, str], ...]:
    return ({"label": "Go to the portal", "url": "/"},)


def waiting(admission: Admission) -> Page:
    return Page(
        503,
        f"{admission.title} opens as soon as it can",
        f"The session “{admission.session_name}” {STAGES.get(admission.status, 'is being prepared')}.",
        hint="This page turns into the app by itself.",
        refresh_s=REFRESH_S,
        links=session_links(admission.presence.session_id),
    )


def starting(admission: Admission, waited_s: float) -> Page:
    is_late = waited_s > 60
    return Page(
        503,
        f"{admission.title} is starting",
        f"It starts in the session “{admission.session_name}” and will appear here.",
        hint="This takes longer than usual. A terminal in the session shows its log under /tmp."
        if is_late
        else "",
        refresh_s=REFRESH_S,
        links=session_links(admission.presence.session_id),
    )


def not_started(admission: Admission, why: str) -> Page:
    links = session_links(admission.presence.session_id)
    return Page(
        502, f"{admission.title} did not start", why, hint="Reload this page to try again.", links=links
    )


def nothing_listens(admission: Admission) -> Page:
    port = admission.target.port if admission.target else 0
    return Page(
        502,
        f"Nothing listens on port {port}",
        f"Start a server on port {port} in the session “{admission.session_name}”; this page then turns into it.",
        hint="It must listen on 0.0.0.0, not only on 127.0.0.1.",
        refresh_s=REFRESH_S,
        links=session_links(admission.presence.session_id),
    )


def ended(admission: Admission) -> Page:
    return Page(
        410,
        "This session has ended",
        f"The session “{admission.session_name}” does not run any more; its folders are kept.",
        links=session_links(admission.presence.session_id),
    )


def unknown_app(admission: Admission) -> Page:
    known = ", ".join(admission.known_apps) or "none"
    return Page(
        404,
        f"There is no app called “{admission.app}” here",
        f"The image of “{admission.session_name}” has these apps: {known}.",
        hint="Any port of the session answers as p<number>, for example p8000.",
        links=session_links(admission.presence.session_id),
    )


def too_many(admission: Admission) -> Page:
    text = f"“{admission.session_name}” has as many connections open as it may. Close some of its tabs."
    return Page(503, "Too many connections", text, refresh_s=5)


def broken(admission: Admission, why: str, *, is_timeout: bool) -> Page:
    links = session_links(admission.presence.session_id)
    title = f"{admission.title} does not answer" if is_timeout else f"{admission.title} gave no usable answer"
    return Page(504 if is_timeout else 502, title, why, hint="Reload this page to try again.", links=links)


def no_such_place() -> Page:
    return Page(
        404,
        "There is nothing at this address",
        "The address names no app of a session.",
        links=portal_links(),
    )


def signed_out() -> Page:
    text = "Open the app from its session in the portal."
    return Page(401, "You are not signed in to this app", text, links=portal_links())


def from_elsewhere() -> Page:
    return Page(403, "This request came from another site", "Only pages of the app itself may send it.")


def sign_in_failed() -> Page:
    return Page(
        403,
        "The app could not be opened",
        "The browser did not bring back what it was given at the start, or too much time has passed.",
        hint="Open the app again from its session. If this stays, the browser does not keep the app's cookies: it may "
        "refuse them, and under a name other than localhost it keeps them on https alone.",
        links=portal_links(),
    )


def unclear_request(why: str) -> Page:
    return Page(400, "The request cannot be understood", why)


def unknown_access() -> Page:
    return Page(503, "The portal cannot check your access now", "It asks again by itself.", refresh_s=5)
