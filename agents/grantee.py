"""Those to whom groups are granted and for whom machines are reserved."""

from accounts.models import Domain, Project, User

Grantee = Domain | Project | User


def level_of(grantee: Grantee) -> str:
    """domain, project or user."""
    return str(grantee._meta.model_name)


def name_of(grantee: Grantee) -> str:
    """Of a person the e-mail."""
    return grantee.email if isinstance(grantee, User) else grantee.name
