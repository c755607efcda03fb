"""Row locks for changes of users."""

from django.db.models import Q

from accounts.core.roles import Role
from accounts.models import User
from common.actors import Actor


def lock_users(actor: Actor, *user_ids: int) -> dict[int, User]:
    """Lock the actor, these users and all superadmins until the transaction ends. Locks in order of
    primary key, so that concurrent changes do not deadlock. Returns the current rows as {id: User}.
    """
    wanted = Q(role=Role.SUPERADMIN) | Q(pk=actor.user_id or 0)
    for user_id in user_ids:
        wanted |= Q(pk=user_id)
    people = User.objects.select_for_update(of=("self",), no_key=True).select_related("domain")
    return {user.pk: user for user in people.filter(wanted).order_by("pk")}
