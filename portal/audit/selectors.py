"""Reads of the audit log."""

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.utils.translation import gettext as _

from accounts.core.roles import OVERSEERS_OF_ALL
from accounts.models import User
from accounts.selectors import overseen_domain_id, sees_everything
from accounts.sign_in.audit_events import account_sign_ins
from common.actors import Actor
from common.errors import NotFound
from common.models import AuditEntry


def own_entries(actor: Actor) -> QuerySet[AuditEntry]:
    """Lines of actions by the actor or in their name, and of attempts to sign in as them."""
    person = actor.user_id or 0
    is_own = Q(actor_id=person) | Q(acted_as_id=person) | account_sign_ins(actor)
    return AuditEntry.objects.filter(is_own)


def visible_entries(actor: Actor) -> QuerySet[AuditEntry]:
    """Lines visible to the actor: all for superadmins; those of the domain and the own ones for a
    domain's admin and monitor; the own ones for others. At most one extra query.
    """
    if sees_everything(actor):
        return AuditEntry.objects.all()
    domain_id = overseen_domain_id(actor)
    if domain_id is None:
        return own_entries(actor)
    return AuditEntry.objects.filter(Q(domain_id=domain_id) | Q(actor_id=actor.user_id))


def governs_others(actor: Actor) -> bool:
    """Return True if the actor sees more than the own lines. At most one query."""
    return sees_everything(actor) or overseen_domain_id(actor) is not None


def access_entry(actor: Actor, entry_id: int) -> AuditEntry:
    """Return the line with `shows_origin`. Raises NotFound."""
    for entries in (visible_entries(actor), own_entries(actor)):
        entry = with_origin(actor, entries).filter(pk=entry_id).first()
        if entry is not None:
            return entry
    raise NotFound(_("There is no such line in what you may see of the audit log."))


def with_origin(actor: Actor, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """Annotate `shows_origin`: True if the actor may see where the action came from.
    Hidden are the origins of superadmins and monitors, of users of other domains, and
    of impersonators of the actor.
    """
    if sees_everything(actor):
        return entries.annotate(shows_origin=Value(True))
    near = User.objects.filter(pk=OuterRef("actor_id"), domain_id=actor.domain_id or 0)
    near = near.exclude(role__in=OVERSEERS_OF_ALL)
    of_others = Exists(near) & ~Q(acted_as_id=actor.user_id or 0)
    return entries.annotate(shows_origin=Q(actor_id=None) | Q(actor_id=actor.user_id) | of_others)
