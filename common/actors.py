"""Actor of an operation: a user in a browser, a program with a keypair, or Berth itself."""

from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    USER = "user"
    TOKEN = "token"
    SYSTEM = "system"


class Via(StrEnum):
    """Interface through which an actor works."""

    PAGE = "page"
    REST = "rest"
    COMMAND = "cli"
    WEBSOCKET = "websocket"
    WEBDAV = "webdav"
    PORTAL = "portal"


@dataclass(frozen=True, slots=True)
class Actor:
    """Immutable first argument of services and selectors; holds no database object.

    `label` is for logs and the audit log (an e-mail address, or "system"); `keypair_id` is set for
    tokens. During impersonation, `impersonator_id` and `impersonator_label` identify the real user. Monitors
    see what superadmins (of all domains) or domain admins see, but cannot change it.
    """

    kind: ActorKind
    user_id: int | None
    label: str
    domain_id: int | None = None
    is_superadmin: bool = False
    is_monitor: bool = False
    is_domain_monitor: bool = False
    ip: str = ""
    request_id: str = ""
    keypair_id: int | None = None
    via: str = ""
    user_agent: str = ""
    impersonator_id: int | None = None
    impersonator_label: str = ""

    @property
    def is_system(self) -> bool:
        return self.kind is ActorKind.SYSTEM

    @property
    def is_read_only(self) -> bool:
        """True for monitors, which cannot change objects of others."""
        return self.is_monitor or self.is_domain_monitor

    @property
    def is_anonymous(self) -> bool:
        return self.user_id is None and not self.is_system


SYSTEM = Actor(kind=ActorKind.SYSTEM, user_id=None, label="system", via=Via.PORTAL)
ANONYMOUS = Actor(kind=ActorKind.USER, user_id=None, label="anonymous")
