"""What people may do with a folder, by what they are to it. Pure."""

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
    OWNER = "owner"  # of a folder of one's own; a project's folder has none
    MEMBER = "member"  # of the project that has the folder
    CREATOR = "creator"  # member who made the project's folder
    PROJECT_ADMIN = "project_admin"
    GOVERNOR = "governor"  # domain admin of the folder's domain, or superadmin
    MONITOR = "monitor"  # the same, without a say


_WORK = frozenset({Action.VIEW, Action.READ, Action.WRITE, Action.MOUNT_READONLY, Action.MOUNT})

# Governors look after folders; they do not run their own sessions on other people's data. Monitors know that a folder is
# there and how large it is; what is in it, and how its files are called, is not for them.
ACTIONS_OF: dict[Relation, frozenset[Action]] = {
    Relation.OWNER: _WORK | {Action.DELETE},
    Relation.MEMBER: _WORK,
    Relation.CREATOR: _WORK | {Action.DELETE},
    Relation.PROJECT_ADMIN: _WORK | {Action.DELETE},
    Relation.GOVERNOR: frozenset({Action.VIEW, Action.READ, Action.WRITE, Action.DELETE}),
    Relation.MONITOR: frozenset({Action.VIEW}),
}


def allowed_actions(relations: Iterable[Relation]) -> frozenset[Action]:
    """All that any of the relations allows."""
    return frozenset().union(*(ACTIONS_OF[relation] for relation in relations))
