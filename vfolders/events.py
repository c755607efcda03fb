"""Events about shared folders, published after commit."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from common.messaging.events import Event


class ShareNews(StrEnum):
    """Kinds of changes of a share, each with the person who hears of it."""

    INVITED = "invited"  # the invited person
    OFFERED = "offered"  # who would become the owner
    ACCEPTED = "accepted"  # the inviter
    DECLINED = "declined"  # the inviter
    TAKEN = "taken"  # the former owner
    LEFT = "left"  # the owner
    CHANGED = "changed"  # the person with the share
    REVOKED = "revoked"  # the person who had the share


@dataclass(frozen=True, slots=True)
class SharingChanged(Event):
    """Something about a share that `person_id` should hear; `by` is the person who did it."""

    person_id: int
    news: ShareNews
    share_id: UUID
    folder: str
    by: str
