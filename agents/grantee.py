"""Grantees (domain, project or user) of resource groups and reservations."""

from accounts.models import Domain, Project, User

Grantee = Domain | Project | User


def grantee_level(grantee: Grantee) -> str:
    """Return "domain", "project" or "user"."""
    return str(grantee._meta.model_name)


def grantee_name(grantee: Grantee) -> str:
    """Return the grantee's name; for a user, the e-mail address."""
    return grantee.email if isinstance(grantee, User) else grantee.name
