"""Queue holds: reasons that keep a waiting session out of the queue, and release into it.

Holds are dependencies (`dependencies.py`), a start time, the array throttle (`array_release.py`), a
closed group (`closed_groups.py`) and a missing image. An image without a registry was built or
loaded on a machine, and is copied from there; an engine that pulls it would run whatever is
published under that name. The scheduler reads only sessions without a hold.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from agents.models import ResourceGroup
from agents.selectors import count_agents_without_image
from common import clock
from common.errors import InvalidInput
from common.i18n import gettext_noop
from common.messaging.events import publish
from common.values.stored_message import StoredMessage
from images.models import ContainerImage
from sessions_app.core.queue_options import Hold
from sessions_app.core.request import SessionRequest
from sessions_app.core.states import DEADLINES_S, HELD_DEADLINE_S, REASON_SENTENCES, Reason, Status
from sessions_app.events import SessionEnqueued
from sessions_app.lifecycle.updates import AUDIENCE_COLUMNS, push_session_change, push_sessions_changed
from sessions_app.limits.group_rules import is_refused_by_group
from sessions_app.models import ComputeSession, ComputeSessionQuerySet
from sessions_app.ports import HoldState, hold_recorder

MAX_START_DELAY = timedelta(days=365)

BATCH_SIZE = 100

PAST_START_TOLERANCE = timedelta(minutes=1)  # for a start time that has just passed while it was typed

START_TIME_MESSAGE = gettext_noop("Waits for its start time, {time} UTC.")

IMAGE_REPORT_DELAY = timedelta(minutes=1)  # heartbeats may not have reported a newly built image yet

CLOSED_GROUP_TIMEOUT = timedelta(days=1)

CLOSED_GROUP_MESSAGE = gettext_noop(
    "The resource group “{group}” is not open to it any more. It starts there if an administrator allows it again before"
    " {time} UTC, and is cancelled then: start it in another group."
)

ARRAY_THROTTLE_MESSAGE = gettext_noop(
    "Waits until others of its array have ended: at most {most} of them may run at once."
)

MISSING_IMAGE_MESSAGE = gettext_noop(
    "No machine that answers has the image {image}, and no registry has it; {count} of resource group “{group}” could run it."
    " It starts when an administrator puts it on one of them; or start it with another image."
)

_HOLD_FIELDS = ("held_for", "eligible_at", "status_reason", "status_message", "deadline_at")


def check_start_time(request: SessionRequest) -> None:
    """Raise InvalidInput for a start time in the past or too far ahead."""
    if request.start_at is None:
        return
    ahead = request.start_at - clock.now()
    if ahead < -PAST_START_TOLERANCE:
        sentence = _(
            "{time} UTC is past. Give a time that is to come, or none to start as soon as there is room."
        )
    elif ahead > MAX_START_DELAY:
        sentence = _("{time} UTC is more than a year ahead. Give an earlier time.")
    else:
        return
    sentence = sentence.format(time=f"{request.start_at:%Y-%m-%d %H:%M}")
    raise InvalidInput(sentence, fields={"start_at": [sentence]})


def initial_hold_state(start_at: datetime | None, waits_for: StoredMessage | None = None) -> HoldState:
    """Return the hold state by dependencies and start time.

    `waits_for` is the message of unmet dependencies, or None.
    """
    if waits_for is not None:
        return HoldState(Hold.DEPENDENCY, Reason.DEPENDENCY, waits_for)
    if start_at is not None and start_at > clock.now():
        message = StoredMessage(START_TIME_MESSAGE, {"time": f"{start_at:%Y-%m-%d %H:%M}"})
        return HoldState(Hold.START_TIME, Reason.START_TIME, message)
    return HoldState(Hold.NOTHING, Reason.ENQUEUED, REASON_SENTENCES[Reason.ENQUEUED])


def closed_group_hold(group: ResourceGroup) -> HoldState:
    """Return the hold state of a session whose group no longer admits it."""
    until = clock.now() + CLOSED_GROUP_TIMEOUT
    message = StoredMessage(CLOSED_GROUP_MESSAGE, {"group": group.name, "time": f"{until:%Y-%m-%d %H:%M}"})
    return HoldState(Hold.GROUP, Reason.GROUP_CLOSED, message)


def array_throttle_hold(most_at_once: int) -> HoldState:
    """Return the hold state of an element under the array throttle."""
    message = StoredMessage(ARRAY_THROTTLE_MESSAGE, {"most": most_at_once})
    return HoldState(Hold.ARRAY_LIMIT, Reason.ARRAY_LIMIT, message)


def missing_image_hold(
    group: ResourceGroup, image: ContainerImage, count: int | None = None
) -> HoldState | None:
    """Return the hold state if no machine has the image or can pull it; else None.

    `count`: result of `count_agents_without_image`, if just read. Otherwise one query, none for an
    image with a registry.
    """
    if image.registry_id is not None or image.created_at > clock.now() - IMAGE_REPORT_DELAY:
        return None
    if count is None:
        count = count_agents_without_image(group, image.reference, image.architecture)
    message = StoredMessage(
        MISSING_IMAGE_MESSAGE, {"image": image.reference, "group": group.name, "count": count}
    )
    return HoldState(Hold.IMAGE, Reason.IMAGE_MISSING, message) if count else None


def group_hold_state(session: ComputeSession) -> HoldState:
    """Return the hold state by group access and image, for a session without any other hold.

    At most two queries if group and image were read.
    """
    group = session.resource_group
    if is_refused_by_group(session):
        return closed_group_hold(group)
    return missing_image_hold(group, session.image) or initial_hold_state(None)


def pending_deadline(hold: Hold, pending_timeout_s: int | None) -> datetime:
    """Return the deadline of PENDING; the pending timeout counts from the release into the queue."""
    if hold is Hold.GROUP:
        return clock.now() + CLOSED_GROUP_TIMEOUT
    usual_s = pending_timeout_s or DEADLINES_S[Status.PENDING]
    is_long = hold not in (Hold.NOTHING, Hold.IMAGE)
    return clock.now() + timedelta(seconds=HELD_DEADLINE_S if is_long else usual_s)


@transaction.atomic
def place_hold(sessions: ComputeSessionQuerySet, state: HoldState) -> None:
    """Hold these queued sessions for their group or image, skipping locked rows.

    It must not wait: the caller may have locked the group, and holders of a session's lock may wait
    for the group. The next round finds the skipped ones.
    """
    locked = sessions.order_by("pk").select_for_update(no_key=True, skip_locked=True, of=("self",))
    found = list(locked.values_list(*AUDIENCE_COLUMNS))
    if not found:
        return
    ids = [row[0] for row in found]
    changes: dict[str, Any] = {
        "held_for": state.hold.value,
        "status_reason": state.reason.value,
        "status_message": state.message,
        "queue_position": None,
    }
    if state.hold is Hold.GROUP:
        changes["deadline_at"] = pending_deadline(state.hold, None)
    ComputeSession.objects.filter(pk__in=ids).update(**changes)
    hold_recorder.get()(ids, state)
    push_sessions_changed(found, Status.PENDING)


def release_due_starts() -> None:
    """Release sessions whose start time has come."""
    due = ComputeSession.objects.waiting().filter(held_for=Hold.START_TIME.value, start_at__lte=clock.now())
    release_holds(due.order_by("start_at", "pk"))


def update_image_holds() -> None:
    """Hold sessions whose image has disappeared, and release those whose image is available.

    One query per image and group with waiting sessions. Safe if it runs twice, late or never.
    """
    for sessions, state in _by_group_and_image(Hold.NOTHING):
        if state is not None:
            place_hold(sessions, state)
    for sessions, state in _by_group_and_image(Hold.IMAGE):
        if state is None:
            release_holds(sessions)


def _by_group_and_image(hold: Hold) -> Iterator[tuple[ComputeSessionQuerySet, HoldState | None]]:
    """Yield the sessions under `hold` whose image has no registry, by group and image, and whether
    the image is missing there.
    """
    waiting = ComputeSession.objects.waiting().filter(held_for=hold.value, image__registry=None)
    pairs = list(waiting.order_by().values_list("resource_group_id", "image_id").distinct())
    groups = ResourceGroup.objects.in_bulk({group_id for group_id, _image in pairs})
    images = ContainerImage.objects.in_bulk({image_id for _group, image_id in pairs})
    for group_id, image_id in pairs:
        theirs = waiting.filter(resource_group=group_id, image=image_id)
        yield theirs, missing_image_hold(groups[group_id], images[image_id])


def release_holds(sessions: ComputeSessionQuerySet) -> None:
    """Release these sessions in their order, in batches of one transaction each."""
    ids = list(sessions.values_list("pk", flat=True))
    for first in range(0, len(ids), BATCH_SIZE):
        with transaction.atomic():
            batch = sessions.filter(pk__in=ids[first : first + BATCH_SIZE]).order_by("pk")
            batch = batch.select_related("resource_group", "image", "array")
            for session in batch.select_for_update(of=("self",), skip_locked=True):
                release_hold(session)


def release_hold(session: ComputeSession) -> None:
    """Release the locked session from its hold: into the queue, or to its next hold.

    The next hold may be its start time, the array throttle, its group or its image.
    """
    state, was_held_for = initial_hold_state(session.start_at), session.held_for
    most_at_once = session.array.most_at_once if session.array is not None else None
    # After a hold that administrators caused (group, image) a session keeps its place and does not
    # wait for the array throttle again.
    keeps_place = was_held_for in (Hold.GROUP, Hold.IMAGE)
    if not state.hold and most_at_once is not None and not keeps_place:
        state = array_throttle_hold(most_at_once)
    elif not state.hold:
        state = group_hold_state(session)
    session.held_for = state.hold.value
    session.status_reason = state.reason.value
    session.status_message = state.message
    if was_held_for != Hold.IMAGE or state.hold:  # time under an image hold counts towards the deadline
        session.deadline_at = pending_deadline(state.hold, session.pending_timeout_s)
    if state.hold != Hold.START_TIME and not keeps_place:
        session.eligible_at = clock.now()
    if not state.hold:
        publish(SessionEnqueued(session_id=session.pk, resource_group_id=session.resource_group_id))
    session.save(update_fields=_HOLD_FIELDS)
    if state.hold or keeps_place:  # otherwise the scheduler records it next
        hold_recorder.get()([session.pk], state)
    push_session_change(session)
