"""Actions that users may take on a folder, by their relation to it. Pure."""

from collections.abc import Iterable
from enum import StrEnum

from common.i18n import gettext_noop


class Action(StrEnum):
    VIEW = "view"
    READ = "read"
    WRITE = "write"
    MOUNT_READONLY = "mount_readonly"
    MOUNT = "mount"
    DELETE = "delete"  # put into the trash, restore, purge
    SHARE = "share"  # invite people, change and revoke their rights, make public links
    MANAGE = "manage"  # rename, change the mode, hand over


class Right(StrEnum):
    """Right that a share gives, from the least to the most."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"


RIGHT_TITLES = {
    Right.READ: gettext_noop("Read"),
    Right.WRITE: gettext_noop("Read and write"),
    Right.DELETE: gettext_noop("Read, write and delete the folder"),
}
OWNERSHIP = "owner"  # in an invitation: who accepts becomes the owner


class Relation(StrEnum):
    OWNER = "owner"  # of a personal folder; a project's folder has no owner
    MEMBER = "member"  # of the project that has the folder
    CREATOR = "creator"  # member who created the project's folder
    PROJECT_ADMIN = "project_admin"
    SHARED_READ = "shared_read"  # with the user, or with a project of the user
    SHARED_WRITE = "shared_write"
    SHARED_DELETE = "shared_delete"
    GOVERNOR = "governor"  # domain admin of the folder's domain, or superadmin
    MONITOR = "monitor"  # read-only counterpart of a governor


_LOOK = frozenset({Action.VIEW, Action.READ, Action.MOUNT_READONLY})
_WORK = _LOOK | {Action.WRITE, Action.MOUNT}
_KEEP = frozenset({Action.DELETE, Action.SHARE, Action.MANAGE})

# Governors manage folders, but do not run their own sessions on other users' data. Monitors see
# that a folder exists and its size, but neither its content nor the names of its files.
ACTIONS_OF: dict[Relation, frozenset[Action]] = {
    Relation.OWNER: _WORK | _KEEP,
    Relation.MEMBER: _WORK,
    Relation.CREATOR: _WORK | _KEEP,
    Relation.PROJECT_ADMIN: _WORK | _KEEP,
    Relation.SHARED_READ: _LOOK,
    Relation.SHARED_WRITE: _WORK,
    Relation.SHARED_DELETE: _WORK | {Action.DELETE},
    Relation.GOVERNOR: frozenset({Action.VIEW, Action.READ, Action.WRITE}) | _KEEP,
    Relation.MONITOR: frozenset({Action.VIEW}),
}

RELATION_OF = {
    Right.READ: Relation.SHARED_READ,
    Right.WRITE: Relation.SHARED_WRITE,
    Right.DELETE: Relation.SHARED_DELETE,
}
SHARED = frozenset(RELATION_OF.values())


def allowed_actions(relations: Iterable[Relation]) -> frozenset[Action]:
    """Return all actions that any of the relations allows."""
    return frozenset().union(*(ACTIONS_OF[relation] for relation in relations))
