"""States of a folder and the legal transitions between them.
Pure. DELETING ends with the removal of the row.
"""

from enum import StrEnum


class FolderState(StrEnum):
    READY = "ready"
    DELETING = "deleting"  # hidden from all users; the periodic purge removes the files, then the row


TRANSITIONS: dict[FolderState, frozenset[FolderState]] = {
    FolderState.READY: frozenset({FolderState.DELETING}),
    FolderState.DELETING: frozenset(),
}


def is_legal(current: FolderState, to: FolderState) -> bool:
    return to in TRANSITIONS[current]
