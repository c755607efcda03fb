"""News of sessions. Announced after commit; see common.messaging.events."""

from dataclasses import dataclass
from uuid import UUID

from common.messaging.events import Event


@dataclass(frozen=True, slots=True)
class SessionEnqueued(Event):
    """A session waits in this resource group."""

    session_id: UUID
    resource_group_id: int


@dataclass(frozen=True, slots=True)
class SessionsEnqueued(Event):
    """Many sessions wait in this resource group since the same instant."""

    resource_group_id: int


@dataclass(frozen=True, slots=True)
class SessionReprioritized(Event):
    """A session that waits in this resource group got another priority."""

    resource_group_id: int


@dataclass(frozen=True, slots=True)
class SessionsEnded(Event):
    """Sessions have reached a terminal status; their rows say which and why."""

    session_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class SessionEndsSoon(Event):
    """A limit will end a session: a SessionWarning is there that its owner is to be told."""

    session_id: UUID


@dataclass(frozen=True, slots=True)
class CapacityReleased(Event):
    """A session gave back what it held in this resource group."""

    resource_group_id: int
