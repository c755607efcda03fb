"""What the gateway asks of the rest of the portal."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from accounts.logins.service import Login
from sessions_app.core.app_address import Door
from transport.proxy import Target


class AppState(StrEnum):
    OPEN = "open"  # the session runs and the app's address is known
    WAITING = "waiting"  # the session is on its way
    ENDED = "ended"
    UNKNOWN = "unknown"  # the session's image declares no such app


@dataclass(frozen=True, slots=True)
class Presence:
    """Somebody inside a session, by way of one sign-in or token. What is open for it is cut when it ends."""

    login: Login
    session_id: UUID
    action: str  # a selectors.Action: what must stay allowed


@dataclass(frozen=True, slots=True)
class Admission:
    """What a cookie opens, as of a moment."""

    presence: Presence
    state: AppState
    session_name: str
    title: str
    app: str = ""
    status: str = ""
    target: Target | None = None
    app_token: str = ""  # sent upstream instead of the client's own Authorization; empty: the app has none
    is_startable: bool = False
    known_apps: tuple[str, ...] = ()


class AccessUnknown(Exception):
    """The database does not answer: nobody can say now who may enter."""


class Authorizer(Protocol):
    """Decides; implemented on the models by `access.DjangoAuthorizer`. Each raises AccessUnknown."""

    async def admit(self, door: Door, secret: str, ip: str) -> Admission | None:
        """What the cookie or token opens at this door for a client at `ip`; None if it opens nothing (any more)."""

    async def redeem(self, door: Door, code: str, states: tuple[str, ...]) -> str | None:
        """A cookie for a one-time code that was issued for this door and one of these states; None for any other."""

    async def still_present(self, presences: frozenset[Presence]) -> frozenset[Presence]:
        """Those that may stay. A bounded number of queries, however many."""

    async def start_app(self, session_id: UUID, app: str) -> str:
        """Start an app that the image declares. "" or, for people, why it cannot be."""
