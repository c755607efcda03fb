"""Who may object to the deletion of a folder: sessions live on a floor above and register a guard here."""

from collections.abc import Callable
from uuid import UUID

# The reason why this folder must stay, as a sentence for people; "" if it may go.
Guard = Callable[[UUID], str]

_guards: list[Guard] = []


def register(guard: Guard) -> None:
    """Ask `guard` before each deletion. Called from AppConfig.ready; registering twice is once.

    The guard runs in the transaction of the deletion, after the folder's row was locked FOR UPDATE. Whoever is
    about to use a folder calls `services.hold_folders` first, so that use and deletion cannot cross.
    """
    if guard not in _guards:
        _guards.append(guard)


def objection_to_deletion(folder_id: UUID) -> str:
    """The first objection, or ""."""
    return next((reason for guard in _guards if (reason := guard(folder_id))), "")
