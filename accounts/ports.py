"""Ports of accounts: what the apps above provide."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from accounts.core.limits import Level
from common.actors import Actor
from common.ports import Port, Ports
from common.values.stored_message import KeptSentence

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import Domain, OffBoarding, Project, User


class StorageHostNames(Protocol):
    def __call__(self) -> Sequence[str]:
        """Return the names of the storage hosts on which folders may be made."""


class Allocations(Protocol):
    def __call__(self, level: Level, ids: Sequence[int]) -> "QuerySet[Any]":
        """Return what live sessions of these projects or people hold now: rows with `owner_id`, `slot_name`,
        `amount` and `held_since`."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of a person."""

    id: str
    name: str


class OffboardingHandler(Protocol):
    """The part that one app has when a person leaves, and when a project or a domain is closed. A module.

    `NAME` stands in rows. `LABEL` is the name of an item, with {name}, marked for translation.
    """

    NAME: str
    LABEL: str

    def items(self, user: "User") -> Sequence[Item]:
        """Return the items of a person that are to be settled now."""

    def settle(self, case: "OffBoarding", item_id: str, actor: Actor) -> KeptSentence | None:
        """Do with an item what the off-boarding says, and return the sentence of its report; None while it is
        under way. Repeating it changes nothing more. Raises BerthError for what can be tried again."""

    def objection(self, owner: "Project | Domain") -> str:
        """Return why a project or a domain cannot be closed now, as a sentence, or ""."""

    def history(self, owner: "User | Project | Domain") -> str:
        """Return why the row of an owner must stay, or ""."""


storage_host_names: Port[StorageHostNames] = Port("accounts.storage_host_names")
allocations: Port[Allocations] = Port("accounts.allocations")
offboarding_handlers: Ports[OffboardingHandler] = Ports("accounts.offboarding_handlers")
