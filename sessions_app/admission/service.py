"""Admits requests for sessions: loads and locks inputs, decides, inserts rows, publishes events."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext as _

from accounts.limits import write_within_limits
from common.actors import Actor
from common.db.connection import constraint_of
from common.errors import InvalidInput
from common.messaging.events import publish
from sessions_app.admission.decide import require_admissible
from sessions_app.admission.inputs import AdmissionInputs
from sessions_app.admission.insert import insert_sessions
from sessions_app.admission.load import check_mounted_directories, load_admission_inputs
from sessions_app.admission.names import name_conflict, used_names
from sessions_app.core.request import SessionRequest
from sessions_app.core.states import Status
from sessions_app.events import SessionEnqueued, SessionsEnqueued
from sessions_app.lifecycle import updates
from sessions_app.models import ComputeSession
from sessions_app.queue.array_release import elements_of
from sessions_app.queue.holds import check_start_time

OWN_FIELDS = ("name", "command", "environment")
"""Fields in which the requests of a batch may differ."""
_shared = attrgetter(*(each.name for each in fields(SessionRequest) if each.name not in OWN_FIELDS))


def enqueue_session(*, actor: Actor, request: SessionRequest) -> ComputeSession:
    """Insert a PENDING session of the actor and return it.

    For an array, inserts all elements or none and returns the first. Raises NotFound,
    PermissionDenied, InvalidInput, LimitExceeded, Conflict.
    """
    return _enqueue(actor, elements_of(request))[0]


def enqueue_batch(*, actor: Actor, requests: Sequence[SessionRequest]) -> list[UUID]:
    """Insert PENDING sessions of the actor, all or none, and return their ids in the order given.

    The requests may differ only in `OWN_FIELDS` and are decided together. Raises what
    `enqueue_session` raises.
    """
    _check_batch(requests)
    return [session.pk for session in _enqueue(actor, requests)]


def check_session(actor: Actor, requests: Sequence[SessionRequest]) -> AdmissionInputs:
    """Return the inputs by which these requests would be accepted now. Locks and writes nothing.

    The requests differ only in `OWN_FIELDS`. Raises what enqueueing them would raise.
    """
    return _admissible(actor, requests, is_locked=False)


def _enqueue(actor: Actor, requests: Sequence[SessionRequest]) -> list[ComputeSession]:
    def admit() -> list[ComputeSession]:
        sessions = insert_sessions(_admissible(actor, requests, is_locked=True))
        _announce(sessions)
        return sessions

    check_mounted_directories(actor, requests[0])
    try:
        return write_within_limits(admit)
    except IntegrityError as error:  # two requests at the same moment
        if constraint_of(error) != "live_session_name_of_owner":
            raise
        used = used_names(actor, requests)
        name = next((each.name for each in requests if each.name in used), requests[0].name)
        raise name_conflict(name) from error


def _admissible(actor: Actor, requests: Sequence[SessionRequest], *, is_locked: bool) -> AdmissionInputs:
    check_start_time(requests[0])
    inputs = load_admission_inputs(actor, requests, is_locked=is_locked)
    require_admissible(inputs)
    return inputs


def _announce(sessions: Sequence[ComputeSession]) -> None:
    """Wake the scheduler and update open pages once the transaction has committed."""
    first, is_alone = sessions[0], len(sessions) == 1
    if not first.held_for:  # first, because a session waits for it; page updates are not urgent
        group_id = first.resource_group_id
        publish(SessionEnqueued(first.pk, group_id) if is_alone else SessionsEnqueued(group_id))
    updates.push_sessions_changed(map(updates.audience_of, sessions), Status.PENDING)


def _check_batch(requests: Sequence[SessionRequest]) -> None:
    """Raise InvalidInput for a duplicate name; ValueError for an empty batch or differing fields."""
    if not requests:
        raise ValueError("No session was asked for.")
    if any(_shared(each) != _shared(requests[0]) for each in requests):
        raise ValueError(f"They may differ in {OWN_FIELDS} alone.")
    seen: set[str] = set()
    for each in requests:
        if each.name in seen:
            sentence = _("The name “{name}” comes twice. Give each session a name of its own.")
            sentence = sentence.format(name=each.name)
            raise InvalidInput(sentence, fields={"name": [sentence]})
        seen.add(each.name)
