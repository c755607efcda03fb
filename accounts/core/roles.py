"""Roles of users and the permissions of each role. Pure."""

from enum import StrEnum

from common.i18n import gettext_noop


class Role(StrEnum):
    """Role of a user in the own domain; MONITOR and SUPERADMIN apply to all domains."""

    USER = "user"
    DOMAIN_MONITOR = "domain_monitor"
    DOMAIN_ADMIN = "domain_admin"
    MONITOR = "monitor"
    SUPERADMIN = "superadmin"


class ProjectRole(StrEnum):
    """Role of a user in one project."""

    MEMBER = "member"
    ADMIN = "admin"


# Read-only: see what the administrator of the same reach sees, and change nothing.
MONITORS = (Role.DOMAIN_MONITOR, Role.MONITOR)
# Roles that see a whole domain, or all domains.
OVERSEERS_OF_DOMAIN = (Role.DOMAIN_MONITOR, Role.DOMAIN_ADMIN)
OVERSEERS_OF_ALL = (Role.MONITOR, Role.SUPERADMIN)

# Translated when displayed.
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

# Object permissions granted with guardian on a Project or Domain, bundled by role.
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
