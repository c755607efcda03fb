"""Statistics of wait times for administrators, on the page, by REST and on the command line."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from accounts.core.roles import Role
from accounts.models import User
from agents.models import ResourceGroup
from common import clock
from scheduler.history.wait_times import WINDOW, WaitTimes, read_wait_times
from sessions_app.models import ComputeSession, SessionTransition
from tests.factories import api_client, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    return make_place(cpu_milli=64_000)


def let_wait(session: ComputeSession, seconds: float) -> None:
    asked_at = session.created_at
    lines = SessionTransition.objects.filter(session=session)
    lines.filter(to_status="PENDING").update(happened_at=asked_at)
    lines.filter(to_status="SCHEDULED").update(happened_at=asked_at + timedelta(seconds=seconds))


def waits_of(place: Place) -> WaitTimes:
    return read_wait_times(place.group, clock.now())


def test_half_nine_of_ten_and_the_longest(place: Place) -> None:
    assert waits_of(place) == WaitTimes(0, None, None, None)
    for seconds in (4, 1, 9, 2, 10, 3, 8, 5, 7, 6):
        let_wait(place.run(), seconds)
    assert waits_of(place) == WaitTimes(10, 5, 9, 10)
    assert read_wait_times(ResourceGroup.objects.create(name="elsewhere"), clock.now()) == WaitTimes()
    assert read_wait_times(place.group, clock.now() + WINDOW + timedelta(minutes=1)) == WaitTimes(), (
        "lately alone"
    )


def test_one_alone_is_half_and_nine_of_ten_and_the_longest(place: Place) -> None:
    let_wait(place.run(), 3)
    assert waits_of(place) == WaitTimes(1, 3, 3, 3)


def test_pending_sessions_are_not_counted(place: Place) -> None:
    place.enqueue()
    place.place()
    assert waits_of(place) == WaitTimes()


def test_what_came_before_the_queue_is_no_wait(place: Place) -> None:
    """Until its start time, or on a machine that was lost since: the one says `eligible_at`, the other the history alone."""
    held, lost = place.run(), place.run()
    for session in (held, lost):
        let_wait(session, 100)
    later = held.created_at + timedelta(seconds=98)
    ComputeSession.objects.filter(pk=held.pk).update(eligible_at=later)
    lost_at = lost.created_at + timedelta(seconds=96)
    before = SessionTransition.objects.get(session=lost, to_status="SCHEDULED")
    SessionTransition.objects.create(
        session=lost, from_status="RUNNING", to_status="PENDING", reason="requeued", happened_at=lost_at
    )
    SessionTransition.objects.create(
        session=lost,
        from_status="PENDING",
        to_status="SCHEDULED",
        reason="placed",
        happened_at=before.happened_at,
    )
    SessionTransition.objects.filter(pk=before.pk).update(happened_at=lost.created_at)
    assert waits_of(place) == WaitTimes(2, 2, 4, 4)


def test_a_clock_that_was_set_back_makes_no_wait_below_nothing(place: Place) -> None:
    let_wait(place.run(), -5)
    assert waits_of(place) == WaitTimes(1, 0, 0, 0)


def test_it_is_one_question_whatever_has_started(
    place: Place, django_assert_num_queries: Callable[..., object]
) -> None:
    for _ in range(3):
        place.run()
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        assert waits_of(place).started == 3


def test_sessions_without_history_are_left_out(place: Place) -> None:
    let_wait(place.run(), 3)
    SessionTransition.objects.filter(session=place.run()).delete()
    assert waits_of(place) == WaitTimes(1, 3, 3, 3)


def test_the_page_and_rest_tell_it(place: Place, browser_of: Callable[[User], Client]) -> None:
    overseer = make_user(role=Role.MONITOR)
    page, rest = (reverse(name, args=[place.group.pk]) for name in ("resource-group-scheduler", "api-waits"))
    assert "No session has started." in browser_of(overseer).get(page).content.decode()
    assert api_client(overseer).get(rest).json() == {
        "started": 0, "half_s": None, "nine_of_ten_s": None, "longest_s": None
    }  # fmt: skip
    for seconds in (0.021, 4.5, 250):
        let_wait(place.run(), seconds)
    shown = browser_of(overseer).get(page).content.decode()
    for words in ("<dd>3</dd>", "<dd>4.5 s</dd>", "<dd>4 min 10 s</dd>"):
        assert words in shown
    assert api_client(overseer).get(rest).json() == {
        "started": 3, "half_s": 4.5, "nine_of_ten_s": 250, "longest_s": 250
    }  # fmt: skip
