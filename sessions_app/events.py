"""Events of sessions, published after commit (see common.messaging.events)."""

from dataclasses import dataclass
from uuid import UUID

from common.messaging.events import Event


@dataclass(frozen=True, slots=True)
class SessionEnqueued(Event):
    """A session was queued in this resource group."""

    session_id: UUID
    resource_group_id: int


@dataclass(frozen=True, slots=True)
class SessionsEnqueued(Event):
    """Many sessions were queued in this resource group at the same instant."""

    resource_group_id: int


@dataclass(frozen=True, slots=True)
class SessionReprioritized(Event):
    """The priority of a waiting session in this resource group changed."""

    resource_group_id: int


@dataclass(frozen=True, slots=True)
class SessionsEnded(Event):
    """Sessions have reached a terminal status; their rows have the status and reason."""

    session_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class SessionEndsSoon(Event):
    """A limit will end a session: a SessionWarning exists whose owner must be notified."""

    session_id: UUID


@dataclass(frozen=True, slots=True)
class CapacityReleased(Event):
    """A session released resources in this resource group."""

    resource_group_id: int


@dataclass(frozen=True, slots=True)
class DeviceLimitsLost(Event):
    """The mechanism that limited these sessions on their device ended, and their programs with it."""

    session_ids: tuple[UUID, ...]
