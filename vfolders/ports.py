"""Ports of folders, implemented by the apps above."""

from typing import Protocol
from uuid import UUID

from common.ports import Ports


class FolderDeletionGuard(Protocol):
    def __call__(self, folder_id: UUID) -> str:
        """Return the reason why the folder must stay, as a sentence for users; "" if it may be
        deleted.

        Runs in the transaction of the deletion, after the folder's row was locked FOR UPDATE. Code
        that is about to use a folder calls `services.lock_folders` first, so that use and deletion
        exclude each other.
        """


folder_deletion_guards: Ports[FolderDeletionGuard] = Ports("vfolders.folder_deletion_guards")


def deletion_objection(folder_id: UUID) -> str:
    """Return the first objection of the deletion guards, or ""."""
    return next((reason for guard in folder_deletion_guards.get() if (reason := guard(folder_id))), "")
