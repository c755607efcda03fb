"""Ports of folders, implemented by the apps above."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol
from uuid import UUID

from common.actors import Actor
from common.errors import Conflict
from common.i18n import gettext as _
from common.ports import Port, Ports


@dataclass(frozen=True, slots=True)
class FolderUse:
    """A use that keeps a folder: a live session that mounts it. `url` is its page."""

    id: str
    name: str
    url: str


class FolderDeletionGuard(Protocol):
    def __call__(self, folder_id: UUID) -> Sequence[FolderUse]:
        """Return the uses for which the folder must stay, the first ones if there are many; none if it
        may go.

        Runs in the transaction of the deletion, after the folder's row was locked FOR UPDATE. Code
        that is about to use a folder calls `services.lock_folders` first, so that use and deletion
        exclude each other.
        """


@dataclass(frozen=True, slots=True)
class MountingSession:
    """Live session that mounts a folder; `owner` is the e-mail address of `owner_id`."""

    id: UUID
    name: str
    owner_id: int
    owner: str
    is_readonly: bool
    status: str


class FolderSessions(Protocol):
    """Sessions that mount a folder."""

    def mounting(self, folder_id: UUID) -> Sequence[MountingSession]:
        """Return the live sessions that mount the folder, oldest first. One query."""

    def end(self, session_id: UUID, *, actor: Actor) -> None:
        """End the session because its owner has lost the right to a folder. Without access checks;
        an ended session is not changed.
        """


folder_sessions: Port[FolderSessions] = Port("vfolders.folder_sessions")
folder_deletion_guards: Ports[FolderDeletionGuard] = Ports("vfolders.folder_deletion_guards")


class FolderInUse(Conflict):
    """Live sessions mount the folder; `uses` are the first of them."""

    default_code = "folder_in_use"

    def __init__(self, folder_name: str, uses: Sequence[FolderUse]) -> None:
        names = ", ".join(f"“{use.name}”" for use in uses)
        super().__init__(
            _("The folder “{folder}” is mounted in {sessions}.").format(folder=folder_name, sessions=names),
            hint=_("Stop that first."),
        )
        self.uses = uses

    def to_json(self) -> dict[str, object]:
        return super().to_json() | {"sessions": [asdict(use) for use in self.uses]}


def check_unused(folder_id: UUID, folder_name: str) -> None:
    """Raise FolderInUse if a deletion guard objects."""
    if uses := [use for guard in folder_deletion_guards.get() for use in guard(folder_id)]:
        raise FolderInUse(folder_name, uses)
