"""The rows of a new session: one statement for all that each session has."""

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from accounts.models import Domain, Project, User
from agents.models import ResourceGroup
from common import audit, clock
from common.actors import Actor
from common.errors import NotFound
from common.prepared import insert_together, prepared_cursor
from sessions_app import holds
from sessions_app.arrays import insert_array
from sessions_app.asked import ResolvedMount, ResolvedRequest
from sessions_app.callbacks import keep_callback
from sessions_app.copied import new_app_token, new_host_label
from sessions_app.dependencies import hold_awaited, hold_for
from sessions_app.limits import demand_room_in_folders
from sessions_app.models import ComputeSession, Kernel, SessionDependency, SessionMount, SessionTransition
from sessions_app.states import Status
from sessions_app.terms import STAND_BY
from vfolders.services import hold_folders

# Whoever closes the account waits for the first. The others have foreign keys from the session, which are looked at only when the
# transaction ends: so whoever closes the domain, archives the project or deletes the group waits for these, or is waited for.
_GROUND = f"""
    WITH owner AS MATERIALIZED (
        SELECT id FROM {User._meta.db_table} WHERE id = %(user)s AND is_active FOR NO KEY UPDATE
    )
    SELECT {STAND_BY},
           (SELECT id FROM {Domain._meta.db_table} WHERE id = %(domain)s FOR KEY SHARE),
           (SELECT id FROM {Project._meta.db_table} WHERE id = %(project)s FOR KEY SHARE),
           (SELECT id FROM {ResourceGroup._meta.db_table} WHERE id = %(group)s FOR KEY SHARE)
    FROM owner
"""


def insert_session(
    actor: Actor, resolved: ResolvedRequest, *, lifetime_s: int | None, action: str
) -> ComputeSession:
    """A PENDING session, with its first container, the first line of its history, and the line of the access log that tells of `action`.
    1 statement; more, in the present transaction, where the request is not `lone`. Raises NotFound, Conflict, InvalidInput, and IntegrityError
    by TERMS_STAND where anybody changed what the request was judged by."""
    request, ground = resolved.request, _ground_of(actor, resolved)
    if not resolved.is_lone:
        _hold(ground)  # before what follows, as everybody does
    hold_folders(mount.folder.pk for mount in resolved.mounts)
    after = hold_awaited(resolved.dependencies)
    standing = holds.standing_of(request.start_at, hold_for(after, resolved.project.pk))
    now = clock.now()
    array = insert_array(ground["user"], resolved.project, request, now)
    if not standing.hold:
        standing = resolved.standing_of_image or standing
    session = ComputeSession(
        name=request.name,
        type=request.type,
        owner_id=ground["user"],
        project=resolved.project,
        domain_id=resolved.project.domain_id,
        keypair_id=actor.keypair_id,
        resource_group=resolved.group,
        array=array,
        array_index=request.array.indices[0] if request.array else None,
        image=resolved.image,
        image_reference=resolved.image.reference,
        status_reason=standing.reason.value,
        status_message=standing.message,
        status_changed_at=now,
        deadline_at=holds.deadline_of(standing.hold, request.pending_timeout_s),
        held_for=standing.hold.value,
        start_at=request.start_at,
        pending_timeout_s=request.pending_timeout_s,
        requested_slots=request.slots.to_json(),
        shm_bytes=request.shm_bytes,
        environment=dict(request.environment),
        personal_files=request.personal_files,
        command=request.command,
        timeout_s=request.timeout_s,
        priority=request.priority,
        max_retries=request.max_retries,
        requeues=request.requeues,
        designated_agent=resolved.agent,
        may_run_elsewhere=request.may_run_elsewhere,
        device_model=request.device_model,
        placement_group=request.placement_group,
        placement_rule=request.placement_rule,
        lifetime_s=lifetime_s,
        host_label=new_host_label(),
        app_token=new_app_token(),
        created_at=now,
    )
    line = SessionTransition(
        session_id=session.pk,
        to_status=Status.PENDING.value,
        reason=standing.reason.value,
        message=standing.message,
        actor_label=actor.label,
        happened_at=now,
    )
    rows = session, Kernel(session_id=session.pk), line, audit.entry_of(actor, action, session)
    if not insert_together(*rows, given=_GROUND, named=ground):
        raise _no_account()
    demand_room_in_folders(resolved.writable_folders)
    keep_callback(session, request.callback_url)
    _insert_mounts(session, resolved.mounts)
    if after:
        SessionDependency.objects.bulk_create(each.row_of(session) for each in after)
    return session


def _insert_mounts(session: ComputeSession, mounts: Sequence[ResolvedMount]) -> None:
    if not mounts:  # as most sessions have none: even to say so takes Django its time
        return
    SessionMount.objects.bulk_create(
        SessionMount(
            session=session,
            folder=mount.folder,
            folder_name=mount.folder.name,
            path=mount.path,
            is_readonly=mount.is_readonly,
        )
        for mount in mounts
    )


def _ground_of(actor: Actor, resolved: ResolvedRequest) -> dict[str, Any]:
    """Who asks, all that the session will belong to, and by what the request was judged."""
    project, group = resolved.project, resolved.group
    its = {"user": actor.user_id or 0, "domain": project.domain_id, "project": project.pk, "group": group.pk}
    return {**its, "seen": resolved.asked.seen}


def _hold(ground: dict[str, Any]) -> None:
    with prepared_cursor() as cursor:
        cursor.execute(_GROUND, ground)
        if cursor.fetchone() is None:
            raise _no_account()


def _no_account() -> NotFound:
    return NotFound(_("This account does not exist any more."))
