"""States of a folder and the legal transitions between them.
Pure. DELETING ends with the removal of the row.
"""

from enum import StrEnum


class FolderState(StrEnum):
    CLONING = "cloning"  # its files are being copied from another folder; nobody may open or mount it
    READY = "ready"
    TRASHED = "trashed"  # can be restored until it expires; its files stay and count against limits
    DELETING = "deleting"  # hidden from all users; the periodic purge removes the files, then the row


TRANSITIONS: dict[FolderState, frozenset[FolderState]] = {
    FolderState.CLONING: frozenset({FolderState.READY, FolderState.DELETING}),
    FolderState.READY: frozenset({FolderState.TRASHED, FolderState.DELETING}),
    FolderState.TRASHED: frozenset({FolderState.READY, FolderState.DELETING}),
    FolderState.DELETING: frozenset(),
}

NAMED = frozenset({FolderState.CLONING, FolderState.READY})
"""States in which a folder keeps others of its owner from having its name."""


def is_legal(current: FolderState, to: FolderState) -> bool:
    return to in TRANSITIONS[current]
