"""Changes the priority of a waiting session: by its owner within policies, or by an administrator.

The owner may not raise it above a value that somebody else has set.
"""

from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.limits import ScopeIds, check_limits, read_scopes
from accounts.selectors import may_do_everything, overseen_domain_id
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, InvalidInput, LimitExceeded, PermissionDenied
from common.messaging.events import publish
from common.pages.status_styles import status_style
from sessions_app.core.queue_options import check_priority
from sessions_app.core.states import Status
from sessions_app.events import SessionReprioritized
from sessions_app.lifecycle import updates
from sessions_app.limits.policy_limits import exceeded_priority_limits
from sessions_app.models import ComputeSession, PriorityChange
from sessions_app.selectors import Action, access_session


@transaction.atomic
def change_priority(*, actor: Actor, session_id: UUID, priority: object) -> ComputeSession:
    """Set the priority of a waiting session, effective from the next tick.

    Raises NotFound, PermissionDenied, InvalidInput, Conflict (no longer waiting), LimitExceeded.
    """
    access_session(actor, session_id, Action.VIEW)
    session: ComputeSession = ComputeSession.objects.select_for_update(of=("self",)).get(pk=session_id)
    if not may_prioritize(actor, session, governed_domain_id(actor)):
        raise PermissionDenied(
            _("Only its owner and administrators of its domain change the priority of “{session}”.").format(
                session=session.name
            ),
            hint=_("Ask one of them."),
        )
    wanted = _parse_priority(priority)
    if session.status != Status.PENDING or session.stops_at is not None:
        raise Conflict(
            _("“{session}” does not wait any more: it is {status}.").format(
                session=session.name, status=status_style(session.status).label.lower()
            ),
            hint=_("Only sessions that wait have a place in the queue."),
        )
    if wanted == session.priority:
        return session
    if wanted > session.priority:
        _require_may_raise(actor, session, wanted)

    was, session.priority = session.priority, wanted
    session.save(update_fields=["priority"])
    is_by_owner = session.owner_id == actor.user_id
    PriorityChange.objects.create(
        session=session, was=was, priority=wanted, actor_label=actor.label, is_by_owner=is_by_owner
    )
    changes = {"priority": [was, wanted]}
    audit_log.record(actor=actor, action="sessions.change_priority", target=session, changes=changes)
    publish(SessionReprioritized(resource_group_id=session.resource_group_id))
    updates.push_session_change(session)
    return session


def governed_domain_id(actor: Actor) -> int | None:
    """Return the id of the domain that the actor administers, or None. One query at most."""
    return None if actor.is_read_only or may_do_everything(actor) else overseen_domain_id(actor)


def may_prioritize(actor: Actor, session: ComputeSession, governed_id: int | None) -> bool:
    """Return True for the owner, administrators of its domain and superadmins. No query."""
    is_governed = governed_id is not None and session.domain_id == governed_id
    return session.owner_id == actor.user_id or is_governed or may_do_everything(actor)


def last_priority_change(session: ComputeSession) -> PriorityChange | None:
    return PriorityChange.objects.filter(session=session).last()


def _parse_priority(priority: object) -> int:
    try:
        return check_priority(priority)
    except ValueError as error:
        raise InvalidInput(str(error), fields={"priority": [str(error)]}) from error


def _require_may_raise(actor: Actor, session: ComputeSession, wanted: int) -> None:
    """Raise LimitExceeded unless the policies of the session and of the actor's keypair allow it.

    The owner may also not exceed the last value that somebody else has set.
    """
    ids = ScopeIds(session.domain_id, session.project_id, session.owner_id, session.keypair_id)
    keys = {*ids.keys(), *ScopeIds(keypair=actor.keypair_id).keys()}
    check_limits(exceeded_priority_limits(actor, read_scopes(keys), wanted))
    if session.owner_id == actor.user_id and not may_do_everything(actor):
        by_others = PriorityChange.objects.filter(session=session, is_by_owner=False).last()
        if by_others is not None and wanted > by_others.priority:
            sentence = _(
                "{who} gave “{session}” the priority {priority}; you may lower it, but not raise it."
            )
            message = sentence.format(
                who=by_others.actor_label, session=session.name, priority=by_others.priority
            )
            raise LimitExceeded(message, hint=_("Ask them."), fields={"priority": [message]})
