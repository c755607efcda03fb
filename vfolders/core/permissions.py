"""Actions that users may take on a folder, by their relation to it. Pure."""

from collections.abc import Iterable
from enum import StrEnum


class Action(StrEnum):
    VIEW = "view"
    READ = "read"
    WRITE = "write"
    MOUNT_READONLY = "mount_readonly"
    MOUNT = "mount"
    DELETE = "delete"


class Relation(StrEnum):
    OWNER = "owner"  # of a personal folder; a project's folder has no owner
    MEMBER = "member"  # of the project that has the folder
    CREATOR = "creator"  # member who created the project's folder
    PROJECT_ADMIN = "project_admin"
    GOVERNOR = "governor"  # domain admin of the folder's domain, or superadmin
    MONITOR = "monitor"  # read-only counterpart of a governor


_WORK = frozenset({Action.VIEW, Action.READ, Action.WRITE, Action.MOUNT_READONLY, Action.MOUNT})

# Governors manage folders, but do not run their own sessions on other users' data. Monitors see
# that a folder exists and its size, but neither its content nor the names of its files.
ACTIONS_OF: dict[Relation, frozenset[Action]] = {
    Relation.OWNER: _WORK | {Action.DELETE},
    Relation.MEMBER: _WORK,
    Relation.CREATOR: _WORK | {Action.DELETE},
    Relation.PROJECT_ADMIN: _WORK | {Action.DELETE},
    Relation.GOVERNOR: frozenset({Action.VIEW, Action.READ, Action.WRITE, Action.DELETE}),
    Relation.MONITOR: frozenset({Action.VIEW}),
}


def allowed_actions(relations: Iterable[Relation]) -> frozenset[Action]:
    """Return all actions that any of the relations allows."""
    return frozenset().union(*(ACTIONS_OF[relation] for relation in relations))
