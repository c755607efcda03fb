"""Ports that higher apps implement: storage hosts, allocations, offboarding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from accounts.core.limits import Level
from common.actors import Actor
from common.ports import Port, Ports
from common.values.stored_message import StoredMessage

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import Domain, OffBoarding, Project, User


class StorageHostNames(Protocol):
    def __call__(self) -> Sequence[str]:
        """Return the names of the storage hosts on which folders may be created."""


class Allocations(Protocol):
    def __call__(self, level: Level, ids: Sequence[int]) -> "QuerySet[Any]":
        """Return current allocations of live sessions of these projects or users: rows with
        `owner_id`, `slot_name`, `amount` and `held_since`.
        """


@dataclass(frozen=True, slots=True)
class OwnedItem:
    """One resource of a user that offboarding resolves."""

    id: str
    name: str


class OffboardingHandler(Protocol):
    """One app's part in offboarding a user and in closing a project or domain. Implemented by a
    module.

    `NAME` is stored in rows. `LABEL` is the name of an item with the placeholder {name}, marked for
    translation.
    """

    NAME: str
    LABEL: str

    def items(self, user: "User") -> Sequence[OwnedItem]:
        """Return the user's resources that are to be resolved now."""

    def resolve_item(self, case: "OffBoarding", item_id: str, actor: Actor) -> StoredMessage | None:
        """Resolve one item as the offboarding states. Returns the sentence for its report, or None
        while it is still in progress. Idempotent. Raises BerthError for failures worth a retry.
        """

    def objection(self, owner: "Project | Domain") -> str:
        """Return the reason why a project or domain cannot be closed now, as a sentence, or ""."""

    def history(self, owner: "User | Project | Domain") -> str:
        """Return the reason why the row of an owner must be kept, or ""."""


storage_host_names: Port[StorageHostNames] = Port("accounts.storage_host_names")
allocations: Port[Allocations] = Port("accounts.allocations")
offboarding_handlers: Ports[OffboardingHandler] = Ports("accounts.offboarding_handlers")
