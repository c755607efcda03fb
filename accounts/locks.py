"""Row locks that changes of users take."""

from django.db.models import Q

from accounts.core.roles import Role
from accounts.models import User
from common.actors import Actor


def lock_people(actor: Actor, *user_ids: int) -> dict[int, User]:
    """The actor, these people and all superadmins, so that nobody else changes one of them until the transaction ends; all
    in one order, so that nobody waits for each other. By id, as they are now."""
    wanted = Q(role=Role.SUPERADMIN) | Q(pk=actor.user_id or 0)
    for user_id in user_ids:
        wanted |= Q(pk=user_id)
    people = User.objects.select_for_update(of=("self",), no_key=True).select_related("domain")
    return {user.pk: user for user in people.filter(wanted).order_by("pk")}
