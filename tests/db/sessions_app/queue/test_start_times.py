"""Sessions with a start time, and with a maximum wait."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from common import clock
from common.clock import ClockJump
from common.errors import InvalidInput
from portal.models import Notification
from portal.notifications.service import notify_of_deadlines
from scheduler.snapshot.reader import groups_with_pending_sessions
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from sessions_app.core.states import Status
from sessions_app.events import SessionEnqueued
from sessions_app.models import ComputeSession
from sessions_app.queue.holds import release_due_starts
from sessions_app.queue.listing import visible_queues
from sessions_app.reconciler import loop
from tests.factories import actor_for
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def in_an_hour() -> datetime:
    return clock.now() + HOUR


def test_session_with_start_time_is_held_and_not_scheduled(place: Place) -> None:
    session = place.enqueue(start_at=in_an_hour().isoformat())
    run_tick(place.group.pk)

    waiting = place.fresh(session)
    assert (waiting.status, waiting.status_reason) == (Status.PENDING, "start_time")
    assert str(waiting.status_message) == f"Waits for its start time, {waiting.start_at:%Y-%m-%d %H:%M} UTC."
    assert waiting.queue_position is None
    assert groups_with_pending_sessions() == []
    assert visible_queues(actor_for(place.owner)) == {}


def test_when_its_time_comes_it_queues_behind_those_that_waited(
    place: Place, django_capture_on_commit_callbacks: object
) -> None:
    place.agent.slots.filter(slot_name="cpu").update(capacity=1000)
    later = place.enqueue(start_at=in_an_hour().isoformat(), pending_timeout_s=60)
    earlier = place.enqueue()
    release_due_starts()
    assert place.fresh(later).held_for == "start_time"

    with clock.frozen_at(clock.now() + HOUR + timedelta(seconds=1)):
        release_due_starts()
        release_due_starts()
        run_tick(place.group.pk)
        released = place.fresh(later)
        assert released.deadline_at == clock.now() + timedelta(minutes=1)
        assert released.eligible_at == clock.now()

    assert place.fresh(earlier).status == Status.SCHEDULED
    assert (released.status_reason, released.queue_position) == ("no_capacity", 1)


def test_a_tick_is_asked_for_when_the_time_comes(place: Place, heard: list[object]) -> None:
    session = place.enqueue(start_at=in_an_hour().isoformat())
    assert heard == []
    with clock.frozen_at(clock.now() + 2 * HOUR), transaction.atomic():
        release_due_starts()
    assert heard == [SessionEnqueued(session_id=session.pk, resource_group_id=place.group.pk)]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is announced of sessions that queue."""
    from sessions_app.admission import service
    from sessions_app.queue import holds

    told: list[object] = []
    monkeypatch.setattr(holds, "publish", told.append)
    monkeypatch.setattr(service, "publish", told.append)
    return told


@pytest.mark.parametrize(
    ("ahead", "words"), [(-HOUR, "is past"), (timedelta(days=366), "more than a year ahead")]
)
def test_a_start_time_that_is_past_or_too_far_is_refused(place: Place, ahead: timedelta, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        place.enqueue(start_at=(clock.now() + ahead).isoformat())
    assert set(refused.value.fields) == {"start_at"}
    assert not ComputeSession.objects.exists()


def test_a_start_time_of_this_minute_is_now(place: Place) -> None:
    session = place.place(start_at=(clock.now() - timedelta(seconds=30)).isoformat())
    assert session.status == Status.SCHEDULED


def test_the_time_to_wait_is_over(place: Place) -> None:
    patient = place.enqueue(resources={"cpu": 8, "mem": "1g"}, name="patient")
    place.agent.slots.filter(slot_name="cpu").update(capacity=1000)
    hasty = place.enqueue(name="hasty", pending_timeout_s=60)
    loop.enforce_deadlines(clock.now() + timedelta(seconds=59))
    assert place.fresh(hasty).is_live

    loop.enforce_deadlines(clock.now() + timedelta(seconds=61))
    notify_of_deadlines()

    ended = place.fresh(hasty)
    assert (ended.status, ended.status_reason) == (Status.CANCELLED, "pending_timeout")
    assert str(ended.status_message) == "It reached its maximum wait: no machine had room by then."
    assert place.fresh(patient).status == Status.PENDING


def test_its_owner_is_told(place: Place, django_capture_on_commit_callbacks) -> None:  # type: ignore[no-untyped-def]
    place.enqueue(name="hasty", pending_timeout_s=60)
    with django_capture_on_commit_callbacks(execute=True):
        loop.enforce_deadlines(clock.now() + timedelta(seconds=61))
    [notice] = Notification.objects.filter(person=place.owner)
    assert notice.code == "waited_too_long"


def test_a_session_that_has_a_machine_is_not_hurried(place: Place) -> None:
    session = place.run(pending_timeout_s=60)
    loop.enforce_deadlines(clock.now() + timedelta(hours=1))
    assert place.fresh(session).is_running


def test_a_forecast_says_that_it_starts_later(place: Place) -> None:
    request = parse_request(place.request(start_at=in_an_hour().isoformat()))
    outlook = forecast_session(actor_for(place.owner), request).outlook
    assert (outlook.reason, outlook.starts_now, outlook.position) == ("start_time", False, None)
    assert "UTC" in str(outlook.sentence)


def test_clock_jump_ends_no_held_session(place: Place) -> None:
    from sessions_app.lifecycle import transitions

    session = place.enqueue(start_at=in_an_hour().isoformat(), pending_timeout_s=60)
    ComputeSession.objects.update(status_changed_at=clock.now() - HOUR)
    for step in (HOUR, -HOUR, -HOUR):
        transitions.shift_timestamps(ClockJump(step, clock.now(), timedelta(seconds=10)))
    loop.enforce_deadlines(clock.now() + 2 * HOUR)
    assert place.fresh(session).is_live


def test_an_instant_is_kept_in_utc(place: Place) -> None:
    typed = clock.now().replace(microsecond=0) + HOUR
    session = place.enqueue(start_at=typed.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    assert place.fresh(session).start_at == typed
