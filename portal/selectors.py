"""Reads of the portal as a whole."""

from collections.abc import Mapping, Sequence

from django.http import HttpRequest

from accounts.models import User
from accounts.roles import Role

SHOWN_HELPERS = 3


def helpers_of(request: HttpRequest) -> Sequence[Mapping[str, object]]:
    """Whom a person may ask who may not do a thing: admins of the own domain; superadmins where it has none. Nobody
    is told to ask themselves. At most two queries."""
    people = User.objects.filter(is_active=True).exclude(pk=request.user.pk or 0)
    domain_id = getattr(request.user, "domain_id", None)
    for role, there in ((Role.DOMAIN_ADMIN, {"domain_id": domain_id}), (Role.SUPERADMIN, {})):
        found = list(people.filter(role=role.value, **there).values("name", "email")[:SHOWN_HELPERS])
        if found:
            return found
    return []
