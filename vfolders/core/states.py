"""States of a folder, and the ways between them. Pure. The end of DELETING is that the row is gone."""

from enum import StrEnum


class FolderState(StrEnum):
    READY = "ready"
    DELETING = "deleting"  # nobody sees it any more; the periodic purge removes files, then the row


TRANSITIONS: dict[FolderState, frozenset[FolderState]] = {
    FolderState.READY: frozenset({FolderState.DELETING}),
    FolderState.DELETING: frozenset(),
}


def is_legal(current: FolderState, to: FolderState) -> bool:
    return to in TRANSITIONS[current]
