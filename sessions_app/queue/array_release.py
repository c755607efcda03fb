"""Array throttle: holds elements of an array above its maximum, releases the next as others end.

`release_elements` runs after each end of an element and locks the array's row, so that concurrent
calls count each other's releases; the reconciler repeats it for missed ends. An element that is
retried has not ended and keeps its place.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Count, DateTimeField, DurationField, ExpressionWrapper, F, Q, Value

from accounts.models import Project
from common import clock
from common.actors import Actor
from common.messaging.events import publish
from sessions_app import ports
from sessions_app.core.array_spec import ArraySpec
from sessions_app.core.queue_options import Hold
from sessions_app.core.request import SessionRequest
from sessions_app.core.states import Status
from sessions_app.events import SessionsEnqueued
from sessions_app.lifecycle.updates import audience_of, push_sessions_changed
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionArray
from sessions_app.queue import holds

# Released elements. One that is held later, for a closed group or a missing image, keeps its place.
_RELEASED = (Hold.NOTHING.value, Hold.GROUP.value, Hold.IMAGE.value)


def elements_of(request: SessionRequest) -> list[SessionRequest]:
    """Return one request per element, by name; for a request without an array, the request itself."""
    if request.array is None:
        return [request]
    return [replace(request, name=name) for name in request.array.names(request.name)]


def insert_array(
    actor: Actor, project: Project, request: SessionRequest, now: datetime
) -> SessionArray | None:
    """Insert the array whose first element this is; return None without an array."""
    if request.array is None:
        return None
    return SessionArray.objects.create(
        name=request.name.removesuffix(f"-{request.array.indices[0]}"),
        owner_id=actor.user_id or 0,
        project=project,
        domain_id=project.domain_id,
        spec=request.array.text,
        count=len(request.array.indices),
        most_at_once=request.array.most_at_once,
        created_at=now,
    )


def element_hold_states(array: ArraySpec, first: ports.HoldState) -> list[ports.HoldState]:
    """Return the initial hold state of each element, by place.

    The first ones have the state `first`; those above the maximum are held.
    """
    most = array.most_at_once
    if most is None or first.hold.value not in _RELEASED:
        return [first] * len(array.indices)
    turn = holds.array_throttle_hold(most)
    return [first if place < most else turn for place in range(len(array.indices))]


@transaction.atomic
def release_elements(array_id: UUID) -> int:
    """Release as many held elements as the array allows, by index; return their number.

    At most 7 queries. May run twice, late or never.
    """
    array = SessionArray.objects.select_for_update(no_key=True).filter(pk=array_id).first()
    if array is None or array.most_at_once is None:
        return 0
    let_in = array.elements.filter(ended_at=None, held_for__in=_RELEASED).count()
    room = max(0, array.most_at_once - let_in)
    held = _held().filter(array=array).order_by("array_index").select_related("resource_group", "image")
    # A locked row is being ended, or is about to be: another element is released instead.
    free = held.select_for_update(skip_locked=True, no_key=True, of=("self",))
    chosen = list(free[:room]) if room else []
    _release(array, chosen)
    return len(chosen)


def _release(array: SessionArray, chosen: Sequence[ComputeSession]) -> None:
    if not chosen:
        return
    state = holds.group_hold_state(chosen[0])  # elements differ only in name and index
    # Elements were created a microsecond apart; this keeps their order in the queue.
    since_first = ExpressionWrapper(F("created_at") - Value(array.created_at), output_field=DurationField())
    ComputeSession.objects.filter(pk__in=[each.pk for each in chosen]).update(
        held_for=state.hold.value,
        eligible_at=ExpressionWrapper(Value(clock.now()) + since_first, output_field=DateTimeField()),
        status_reason=state.reason.value,
        status_message=state.message,
        deadline_at=holds.pending_deadline(state.hold, chosen[0].pending_timeout_s),
    )
    push_sessions_changed(map(audience_of, chosen), Status.PENDING)
    if not state.hold:
        publish(SessionsEnqueued(chosen[0].resource_group_id))


def release_all_arrays() -> None:
    """Release elements of all arrays with free places, for ends that were missed in a crash.

    One query if there is nothing to do.
    """
    waiting = _held().order_by().values("array")
    arrays = SessionArray.objects.filter(pk__in=waiting)
    let_in = Count("elements", filter=Q(elements__ended_at=None, elements__held_for__in=_RELEASED))
    due = arrays.annotate(let_in=let_in).filter(let_in__lt=F("most_at_once"))
    for array_id in list(due.order_by("pk").values_list("pk", flat=True)):
        release_elements(array_id)


def _held() -> ComputeSessionQuerySet:
    held: ComputeSessionQuerySet = ComputeSession.objects.filter(
        status=Status.PENDING, held_for=Hold.ARRAY_LIMIT.value, stops_at=None, ended_at=None
    )
    return held
