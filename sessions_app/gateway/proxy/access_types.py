"""Define the gateway's interface to the rest of the portal: access decisions and their types."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from accounts.logins.service import Login
from sessions_app.core.app_address import AppEndpoint
from transport.proxy import Target


class AppState(StrEnum):
    OPEN = "open"  # session runs and the app's address is known
    WAITING = "waiting"  # session is starting
    ENDED = "ended"
    UNKNOWN = "unknown"  # the image declares no such app


@dataclass(frozen=True, slots=True)
class Presence:
    """Use of a session by one sign-in or token. Its connections are cut when the access ends."""

    login: Login
    session_id: UUID
    action: str  # selectors.Action that must stay permitted


@dataclass(frozen=True, slots=True)
class AppAccess:
    """Access granted by a cookie or token at one moment, with the app's state and address."""

    presence: Presence
    state: AppState
    session_name: str
    title: str
    app: str = ""
    status: str = ""
    target: Target | None = None
    app_token: str = ""  # replaces the client's Authorization header upstream; empty: the app has none
    is_startable: bool = False
    known_apps: tuple[str, ...] = ()


class AccessUnknown(Exception):
    """The database does not answer, so access cannot be checked."""


class Authorizer(Protocol):
    """Access decisions; implemented on the database by authorizer.DjangoAuthorizer. All methods
    raise AccessUnknown.
    """

    async def admit(self, endpoint: AppEndpoint, secret: str, ip: str) -> AppAccess | None:
        """Return the access that a cookie or token grants at this endpoint to a client at `ip`, or None."""

    async def redeem(self, endpoint: AppEndpoint, code: str, states: tuple[str, ...]) -> str | None:
        """Exchange a one-time code for a cookie; None unless it was issued for this endpoint and
        one of these states.
        """

    async def still_present(self, presences: frozenset[Presence]) -> frozenset[Presence]:
        """Return the presences whose access is still valid. Constant number of queries."""

    async def start_app(self, session_id: UUID, app: str) -> str:
        """Start an app that the image declares. Returns "" or a sentence for users why it cannot start."""
