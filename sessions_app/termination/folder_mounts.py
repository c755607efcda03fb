"""Sessions that mount a folder, for the sharing of folders (the port `vfolders.ports.folder_sessions`)."""

from collections.abc import Sequence
from uuid import UUID

from django.contrib.postgres.aggregates import BoolAnd
from django.db import transaction

from common.actors import Actor
from common.audit import audit_log
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from sessions_app.termination.service import begin_termination
from vfolders.ports import MountingSession


def mounting(folder_id: UUID) -> Sequence[MountingSession]:
    sessions = ComputeSession.objects.live().filter(mounts__folder_id=folder_id)
    # Of several mounts by one session, the one for writing decides.
    rows = sessions.annotate(reads_only=BoolAnd("mounts__is_readonly")).select_related("owner")
    return [
        MountingSession(
            id=session.pk,
            name=session.name,
            owner_id=session.owner_id,
            owner=session.owner.email,
            is_readonly=session.reads_only,
            status=session.status,
        )
        for session in rows.order_by("created_at", "id")
    ]


@transaction.atomic
def end(session_id: UUID, *, actor: Actor) -> None:
    session = ComputeSession.objects.select_for_update().get(pk=session_id)
    status = Status(session.status)
    if status.is_terminal or status is Status.TERMINATING:
        return
    audit_log.record(actor=actor, action="sessions.terminate_session", target=session)
    if status is Status.PENDING:
        transitions.transition(session.pk, to=Status.CANCELLED, reason=Reason.FOLDER_REVOKED, actor=actor)
    else:
        begin_termination(session.pk, reason=Reason.FOLDER_REVOKED, actor=actor)
