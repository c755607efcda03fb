"""News of sessions. Announced after commit; see common.events."""

from dataclasses import dataclass
from uuid import UUID

from common.events import Event


@dataclass(frozen=True, slots=True)
class SessionEnqueued(Event):
    """A session waits in this resource group."""

    session_id: UUID
    resource_group_id: int


@dataclass(frozen=True, slots=True)
class SessionEnded(Event):
    """A session has reached a terminal status; its row says which and why."""

    session_id: UUID


@dataclass(frozen=True, slots=True)
class SessionEndsSoon(Event):
    """A limit will end a session: a SessionWarning is there that its owner is to be told."""

    session_id: UUID


@dataclass(frozen=True, slots=True)
class CapacityReleased(Event):
    """A session gave back what it held in this resource group."""

    resource_group_id: int
