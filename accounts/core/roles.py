"""Roles and what each may do: the whole permission table of people. Pure."""

from enum import StrEnum

from common.i18n import gettext_noop


class Role(StrEnum):
    """What a user is in the own domain; MONITOR and SUPERADMIN reach across domains."""

    USER = "user"
    DOMAIN_MONITOR = "domain_monitor"
    DOMAIN_ADMIN = "domain_admin"
    MONITOR = "monitor"
    SUPERADMIN = "superadmin"


class ProjectRole(StrEnum):
    """What a user is in one project."""

    MEMBER = "member"
    ADMIN = "admin"


# They see what the administrator of the same reach sees, and change nothing of it.
MONITORS = (Role.DOMAIN_MONITOR, Role.MONITOR)
# Who sees the whole domain, or all of them.
OVERSEERS_OF_DOMAIN = (Role.DOMAIN_MONITOR, Role.DOMAIN_ADMIN)
OVERSEERS_OF_ALL = (Role.MONITOR, Role.SUPERADMIN)

# Translated where they are shown.
ROLE_TITLES = {
    Role.USER: gettext_noop("User"),
    Role.DOMAIN_MONITOR: gettext_noop("Domain monitor"),
    Role.DOMAIN_ADMIN: gettext_noop("Domain admin"),
    Role.MONITOR: gettext_noop("Monitor"),
    Role.SUPERADMIN: gettext_noop("Superadmin"),
}
PROJECT_ROLE_TITLES = {
    ProjectRole.MEMBER: gettext_noop("Member"),
    ProjectRole.ADMIN: gettext_noop("Project admin"),
}

# Object permissions, granted with guardian on a Project or a Domain; the bundle of each role stands here once.
PROJECT_PERMISSIONS = {
    ProjectRole.MEMBER: ("use_project",),
    ProjectRole.ADMIN: ("use_project", "manage_project"),
}
DOMAIN_PERMISSIONS = {
    Role.USER: (),
    Role.DOMAIN_MONITOR: (),
    Role.DOMAIN_ADMIN: ("manage_domain",),
    Role.MONITOR: (),
    Role.SUPERADMIN: (),
}
