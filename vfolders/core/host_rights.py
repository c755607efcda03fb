"""Rights that domains, projects and policies have on storage hosts. Pure.

Rights are kept as a sum of bits. On a host without restriction everybody has all of them; on a
restricted one, a person has those that the folder's domain, its project and the person's own policy
were granted, together. Administrators of the domain and superadmins are not bound.
"""

from collections.abc import Iterable
from enum import IntFlag

from common.i18n import gettext_noop
from vfolders.core.permissions import Action


class HostRight(IntFlag):
    CREATE = 1  # folders
    MODIFY = 2  # rename, change, hand over
    DELETE = 4
    MOUNT = 8
    UPLOAD = 16  # write and delete files through the portal
    DOWNLOAD = 32  # read files through the portal
    INVITE = 64


ALL_RIGHTS = HostRight(127)
TITLES = {
    HostRight.CREATE: gettext_noop("create folders"),
    HostRight.MODIFY: gettext_noop("modify"),
    HostRight.DELETE: gettext_noop("delete"),
    HostRight.MOUNT: gettext_noop("mount"),
    HostRight.UPLOAD: gettext_noop("upload"),
    HostRight.DOWNLOAD: gettext_noop("download"),
    HostRight.INVITE: gettext_noop("invite"),
}
_RIGHT_OF = {
    Action.READ: HostRight.DOWNLOAD,
    Action.WRITE: HostRight.UPLOAD,
    Action.MOUNT_READONLY: HostRight.MOUNT,
    Action.MOUNT: HostRight.MOUNT,
    Action.DELETE: HostRight.DELETE,
    Action.SHARE: HostRight.INVITE,
    Action.MANAGE: HostRight.MODIFY,
}


def host_rights(*, is_restricted: bool, granted: Iterable[int]) -> HostRight:
    """Return the rights on a host, from the sums granted to the folder's domain and project and to the
    person's policy.
    """
    if not is_restricted:
        return ALL_RIGHTS
    found = HostRight(0)
    for each in granted:
        found |= HostRight(each & ALL_RIGHTS)
    return found


def permitted_actions(actions: Iterable[Action], rights: HostRight) -> frozenset[Action]:
    """Narrow the actions on a folder to those that the rights on its host permit; to view it needs none."""
    return frozenset(each for each in actions if each not in _RIGHT_OF or _RIGHT_OF[each] in rights)


def parse_rights(names: Iterable[str]) -> HostRight:
    """Return the rights of these names. Raises KeyError."""
    found = HostRight(0)
    for name in names:
        found |= HostRight[name.upper()]
    return found


def right_names(rights: int) -> list[str]:
    """Return names of the rights, in the order of HostRight."""
    return [str(each.name).lower() for each in HostRight if each & rights]
