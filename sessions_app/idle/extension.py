"""Extends a running session, as often and as far as its group and the policies allow."""

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import Conflict, LimitExceeded
from sessions_app.core.idle_rules import Cause, End, Extension, expected_ends, extended_end
from sessions_app.idle.facts import idle_facts, idle_row, is_own_limit, remaining_extension, scopes_by_key
from sessions_app.lifecycle import updates
from sessions_app.models import ComputeSession, SessionIdle
from sessions_app.selectors import Action, access_session, not_running


@transaction.atomic
def extend_session(*, actor: Actor, session_id: UUID) -> ComputeSession:
    """Postpone the end that would come next for a running session.

    Raises NotFound, PermissionDenied, Conflict (no limit ends it, or it is not running),
    LimitExceeded.
    """
    access_session(actor, session_id, Action.EXTEND)
    locked = ComputeSession.objects.select_for_update(of=("self",)).select_related("resource_group")
    session: ComputeSession = locked.get(pk=session_id)
    SessionIdle.objects.get_or_create(session=session)
    idle = SessionIdle.objects.select_for_update().get(session=session)
    end = _next_end(session, idle)
    extension = remaining_extension(session, idle, scopes_by_key([session]))
    _require_left(session, idle, extension)

    now = clock.now()
    ends_at = extended_end(end, now, extension.by_s)
    idle.extensions += 1
    if end.cause is Cause.LIFETIME:
        session.deadline_at = ends_at
        session.save(update_fields=["deadline_at"])
    else:
        idle.kept_until = ends_at
    idle.save(update_fields=["extensions", "kept_until"])
    audit_log.record(
        actor=actor,
        action="sessions.extend_session",
        target=session,
        changes={"cause": end.cause.value, "ends_at": [_text(end.at), _text(ends_at)]},
    )
    updates.push_session_change(session)
    return session


def session_extension(session: ComputeSession) -> Extension:
    """Return the remaining extensions of the session. Two queries at most."""
    return remaining_extension(session, idle_row(session), scopes_by_key([session]))


def _next_end(session: ComputeSession, idle: SessionIdle) -> End:
    if not session.is_running:
        raise not_running(session)
    found = list(expected_ends(idle_facts(session, idle)))
    if is_own_limit(session) and session.deadline_at is not None:
        found.append(End(session.deadline_at, Cause.LIFETIME, session.timeout_s or 0))
    if not found:
        raise Conflict(
            _("No limit ends “{session}”, so there is nothing to extend.").format(session=session.name)
        )
    return min(found, key=lambda end: end.at)


def _require_left(session: ComputeSession, idle: SessionIdle, extension: Extension) -> None:
    if extension.is_possible:
        return
    if idle.extensions:
        sentence = ngettext(
            "“{session}” was extended {count} time, which is all that its group and your policies allow.",
            "“{session}” was extended {count} times, which is all that its group and your policies allow.",
            idle.extensions,
        )
        message = sentence.format(session=session.name, count=idle.extensions)
    else:
        message = _("“{session}” cannot be extended: its group or a policy does not allow it.").format(
            session=session.name
        )
    raise LimitExceeded(message, hint=_("Save what you need into a folder, or ask an administrator."))


def _text(instant: datetime) -> str:
    return instant.isoformat(timespec="seconds")
