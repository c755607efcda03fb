"""Ports of folders: what the apps above provide."""

from typing import Protocol
from uuid import UUID

from common.ports import Ports


class FolderDeletionGuard(Protocol):
    def __call__(self, folder_id: UUID) -> str:
        """Return why the folder must stay, as a sentence for people; "" if it may be deleted.

        Runs in the transaction of the deletion, after the folder's row was locked FOR UPDATE. A writer that is
        about to use a folder calls `services.hold_folders` first, so that use and deletion cannot cross.
        """


folder_deletion_guards: Ports[FolderDeletionGuard] = Ports("vfolders.folder_deletion_guards")


def objection_to_deletion(folder_id: UUID) -> str:
    """Return the first objection, or ""."""
    return next((reason for guard in folder_deletion_guards.get() if (reason := guard(folder_id))), "")
