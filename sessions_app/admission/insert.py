"""Inserts the rows of accepted sessions."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from common import clock
from common.audit import audit_log
from sessions_app import ports
from sessions_app.admission.inputs import AdmissionInputs
from sessions_app.admission.names import new_app_token, new_host_label
from sessions_app.callbacks.delivery import insert_callbacks
from sessions_app.core.device_request import api_version
from sessions_app.core.placement import Gang
from sessions_app.core.request import SessionRequest
from sessions_app.core.states import Status
from sessions_app.limits.policy_limits import max_lifetime_s
from sessions_app.models import ComputeSession, Kernel, SessionDependency, SessionMount, SessionTransition
from sessions_app.queue import holds
from sessions_app.queue.array_release import element_hold_states, insert_array
from sessions_app.queue.dependencies import dependency_message

REQUEST_COLUMNS = [
    column.name
    for column in ComputeSession._meta.concrete_fields
    if not column.is_relation and column.name in SessionRequest.fields()
]
"""Columns of a session that hold the field of the request that has the same name."""
STEP = timedelta(microseconds=1)
"""Offset between the `created_at` of two sessions of a batch, which keeps their order in the queue.
"""


def insert_sessions(inputs: AdmissionInputs) -> list[ComputeSession]:
    """Insert and return a PENDING session for each request.

    Also inserts the containers, mounts, dependencies, callback, first transition and audit
    entry of each. At most 9 queries, any number of sessions.
    """
    now = clock.now()
    shared, states = _shared_values(inputs, now), _hold_states(inputs)
    timeout_s = inputs.request.pending_timeout_s
    deadlines = {hold: holds.pending_deadline(hold, timeout_s) for hold in {each.hold for each in states}}
    indices: Sequence[int | None] = inputs.request.array.indices if inputs.request.array else ()
    sessions = [
        ComputeSession(
            **shared,
            **{name: getattr(request, name) for name in REQUEST_COLUMNS if name != "environment"},
            environment=dict(request.environment),
            array_index=indices[number] if indices else None,
            status_reason=state.reason.value,
            status_message=state.message,
            held_for=state.hold.value,
            deadline_at=deadlines[state.hold],
            host_label=new_host_label(),
            app_token=new_app_token(),
            created_at=now + number * STEP,
        )
        for number, (request, state) in enumerate(zip(inputs.requests, states, strict=True))
    ]
    ComputeSession.objects.bulk_create(sessions)
    Kernel.objects.bulk_create(
        Kernel(session=session, **values) for session in sessions for values in _kernel_values(inputs.request)
    )
    SessionTransition.objects.bulk_create(_first_transition(inputs, session, now) for session in sessions)
    _insert_parts(inputs, sessions)
    done: list[tuple[ComputeSession, dict[str, Any]]] = [(session, {}) for session in sessions]
    audit_log.record_many(actor=inputs.actor, action="sessions.enqueue_session", targets=done)
    return sessions


def _kernel_values(request: SessionRequest) -> list[dict[str, Any]]:
    """Return the columns of each container of a session, main1 first."""
    values: list[dict[str, Any]] = [{}]
    for role in request.cluster_roles:
        values += [
            {
                "role": role.name,
                "index": index,
                "requested_slots": role.slots.to_json() if role.slots else None,
                "shm_bytes": role.shm_bytes,
                "command": role.command,
                "is_tolerated": role.is_tolerated,
            }
            for index in range(1, role.count + 1)
        ]
    return [{**each, "rank": rank} for rank, each in enumerate(values)]


def _hold_states(inputs: AdmissionInputs) -> list[ports.HoldState]:
    """Return the hold state for each request: in the queue, or the reason why it is held."""
    request = inputs.request
    first = holds.initial_hold_state(
        request.start_at, dependency_message(inputs.dependencies, inputs.project.pk)
    )
    if not first.hold:
        first = inputs.image_hold or first
    if request.array is None:
        return [first] * len(inputs.requests)
    return element_hold_states(request.array, first)


def _shared_values(inputs: AdmissionInputs, now: datetime) -> dict[str, Any]:
    """Return the columns that are equal in all sessions, except for REQUEST_COLUMNS.

    Inserts the array's row if they form an array.
    """
    request, part = inputs.request, inputs.request.resources.part
    return {
        "owner_id": inputs.actor.user_id,
        "project": inputs.project,
        "domain_id": inputs.project.domain_id,
        "keypair_id": inputs.actor.keypair_id,
        "resource_group": inputs.group,
        "array": insert_array(inputs.actor, inputs.project, request, now),
        "image": inputs.image,
        "image_reference": inputs.image.reference,
        "status_changed_at": now,
        "requested_slots": request.slots.to_json(),
        "shm_bytes": request.shm_bytes,
        "kernel_count": request.cluster_size,
        "total_slots": request.total_slots.to_json()
        if any(each.resources for each in request.roles)
        else None,
        "gang": request.cluster_mode if request.cluster_size > 1 else Gang.ANYWHERE.value,
        "cluster_roles": [role.to_json() for role in request.roles],
        "device_mem_bytes": request.device_mem,
        "device_api_version": api_version(request.device_api),
        "device_share_mem_bytes": part.mem_bytes if part else 0,
        "device_share_cores": part.cores if part else 0,
        "storage_hosts": inputs.storage_hosts,
        "designated_agent": inputs.agent,
        "lifetime_s": max_lifetime_s(inputs.scopes, inputs.group),
    }


def _first_transition(inputs: AdmissionInputs, session: ComputeSession, now: datetime) -> SessionTransition:
    return SessionTransition(
        session=session,
        to_status=Status.PENDING.value,
        reason=session.status_reason,
        message=session.status_message,
        actor_label=inputs.actor.label,
        happened_at=now,
    )


def _insert_parts(inputs: AdmissionInputs, sessions: Sequence[ComputeSession]) -> None:
    if inputs.mounts:
        SessionMount.objects.bulk_create(
            SessionMount(
                session=session,
                folder=mount.folder,
                folder_name=mount.folder.name,
                subpath=mount.subpath,
                path=mount.path,
                is_readonly=mount.is_readonly,
                is_automatic=mount.is_automatic,
            )
            for session in sessions
            for mount in inputs.mounts
        )
    if inputs.dependencies:
        SessionDependency.objects.bulk_create(
            each.row_of(session) for session in sessions for each in inputs.dependencies
        )
    insert_callbacks(sessions, inputs.request.callback_url)
