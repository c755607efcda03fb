"""Notifications about ended sessions go to their owner once and expire."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from common import clock
from common.actors import SYSTEM
from common.errors import NotFound
from portal.models import Notification, NotificationMail, ToldNotice
from portal.notifications import service
from portal.notifications.catalogue import Code, Kind
from portal.notifications.selectors import notification_text
from portal.notifications.session_end import notify_of_ends
from portal.tasks import notify_people
from scheduler.tick import run_tick
from sessions_app.core.states import Reason, Status
from sessions_app.launch.launcher import launch_session
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from tests import factories
from tests.conftest import People
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
Commit = Callable[..., Any]


@pytest.fixture
def place(empty_redis: None) -> Place:
    return make_place()


def end(session: ComputeSession, reason: Reason, commit: Commit) -> None:
    with commit(execute=True):
        transitions.transition(session.pk, to=Status.TERMINATING, reason=reason, actor=SYSTEM)
        transitions.finish(session.pk, actor=SYSTEM)


def tell(people: People, happening: str) -> bool:
    return service.notify(
        person_id=people.member.pk, code=Code.NOT_STARTED, happening=happening, arguments={"name": happening}
    )


def test_the_owner_learns_why_a_session_ended(
    place: Place, django_capture_on_commit_callbacks: Commit
) -> None:
    session = place.run(name="train")
    end(session, Reason.OUT_OF_MEMORY, django_capture_on_commit_callbacks)

    told = Notification.objects.get()
    assert (told.person, told.code, told.session_id) == (place.owner, Code.OUT_OF_MEMORY, session.pk)
    assert told.arguments["name"] == "train"


def test_what_the_owner_did_is_not_told(place: Place, django_capture_on_commit_callbacks: Commit) -> None:
    end(place.run(), Reason.USER_REQUESTED, django_capture_on_commit_callbacks)

    assert not Notification.objects.exists()


def test_a_session_that_lives_or_is_gone_is_not_told_of(place: Place) -> None:
    session = place.run()
    notify_of_ends([session.pk])
    notify_of_ends([uuid4()])

    assert not Notification.objects.exists()


def test_an_end_is_told_once_even_if_the_first_word_was_lost(
    place: Place, django_capture_on_commit_callbacks: Commit
) -> None:
    session = place.run()
    end(session, Reason.AGENT_LOST, lambda **_: django_capture_on_commit_callbacks(execute=False))
    assert not Notification.objects.exists()
    ComputeSession.objects.filter(pk=session.pk).update(ended_at=clock.now() - timedelta(minutes=5))

    notify_people()
    notify_people()

    assert Notification.objects.get().code == Code.MACHINE_LOST


def test_a_time_limit_is_told_before_it_comes(place: Place) -> None:
    near, far = place.run(name="near", timeout_s=7200), place.run(name="far", timeout_s=7200)
    ComputeSession.objects.filter(pk=near.pk).update(deadline_at=clock.now() + timedelta(minutes=5))
    ComputeSession.objects.filter(pk=far.pk).update(deadline_at=clock.now() + timedelta(hours=1))

    notify_people()
    notify_people()

    assert [told.arguments["name"] for told in Notification.objects.filter(code=Code.ENDS_SOON)] == ["near"]


def test_the_same_happening_is_told_once(people: People) -> None:
    assert tell(people, "one")
    assert not tell(people, "one")
    assert Notification.objects.count() == 1


def test_the_oldest_are_forgotten(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "KEPT_NOTIFICATIONS", 3)
    for number in range(5):
        tell(people, str(number))

    assert set(Notification.objects.values_list("arguments__name", flat=True)) == {"2", "3", "4"}


def test_what_the_list_forgot_is_not_told_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Commit
) -> None:
    monkeypatch.setattr(service, "KEPT_NOTIFICATIONS", 2)
    for _ in range(3):
        end(place.run(), Reason.AGENT_LOST, django_capture_on_commit_callbacks)
    ComputeSession.objects.update(ended_at=clock.now() - timedelta(minutes=5))
    kept = set(Notification.objects.values_list("pk", flat=True))

    notify_people()

    assert set(Notification.objects.values_list("pk", flat=True)) == kept
    with clock.frozen_at(clock.now() + timedelta(days=3)):
        notify_people()
    assert not ToldNotice.objects.exists(), "nobody comes with them any more"


def test_a_lost_end_is_healed_whatever_else_was_told_without_a_query_for_what_is_known(
    place: Place, django_capture_on_commit_callbacks: Commit, django_assert_num_queries: Any
) -> None:
    lost = place.run(name="lost")
    service.notify(
        person_id=place.owner.pk,
        code=Code.ENDS_SOON,
        happening=f"ends-soon:{lost.pk}",
        arguments={"name": "lost"},
        session_id=lost.pk,
    )
    service.notify(person_id=place.owner.pk, code=Code.PASSWORDS_TRIED, happening="tried", arguments={})
    end(place.run(), Reason.USER_REQUESTED, django_capture_on_commit_callbacks)
    end(lost, Reason.AGENT_LOST, lambda **_: django_capture_on_commit_callbacks(execute=False))
    ComputeSession.objects.update(ended_at=clock.now() - timedelta(minutes=5))

    notify_people()

    assert Notification.objects.filter(code=Code.MACHINE_LOST).count() == 1
    with django_assert_num_queries(5):  # warnings, tokens, stops, ends, and what may be told again
        notify_people()


def test_none_is_forgotten_whose_mail_waits(
    people: People, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BERTH_MAIL = True
    monkeypatch.setattr(service, "KEPT_NOTIFICATIONS", 1)
    service.choose_notifications(actor=factories.actor_for(people.member), mailed=[Kind.FAILED])
    for number in range(3):
        tell(people, str(number))

    assert NotificationMail.objects.count() == 3


def test_reading_is_once_and_of_ones_own(people: People) -> None:
    tell(people, "one")
    notification = Notification.objects.get()
    member = factories.actor_for(people.member)

    with pytest.raises(NotFound):
        service.read_notification(
            actor=factories.actor_for(people.superadmin), notification_id=notification.pk
        )
    read_at = service.read_notification(actor=member, notification_id=notification.pk).read_at
    assert service.read_notification(actor=member, notification_id=notification.pk).read_at == read_at
    assert service.read_all_notifications(actor=member) == 0


def test_all_are_read_at_once(people: People) -> None:
    tell(people, "one")
    tell(people, "two")

    assert service.read_all_notifications(actor=factories.actor_for(people.superadmin)) == 0
    assert service.read_all_notifications(actor=factories.actor_for(people.member)) == 2
    assert not Notification.objects.filter(read_at=None).exists()


def test_many_ends_are_told_by_a_few_statements(
    place: Place, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(service, "KEPT_NOTIFICATIONS", 4)
    sessions = [place.run(name=f"run-{number}") for number in range(5)]
    for session in sessions:
        end(session, Reason.AGENT_LOST, lambda **_: nullcontext())
    notify_of_ends([sessions[0].pk])

    with django_assert_num_queries(7):  # with savepoint and release
        notify_of_ends([session.pk for session in sessions])

    assert ToldNotice.objects.count() == 5
    told = Notification.objects.values_list("arguments__name", flat=True)
    assert set(told) == {"run-1", "run-2", "run-3", "run-4"}
    notify_of_ends([session.pk for session in sessions])
    assert Notification.objects.count() == 4


def array(place: Place, spec: str) -> list[ComputeSession]:
    first = place.enqueue(name="sweep", type="batch", command="true", array=spec)
    run_tick(place.group.pk)
    elements = list(ComputeSession.objects.filter(array=first.array).order_by("array_index"))
    for element in elements:
        launch_session(element.pk)
    return elements


def test_an_array_is_told_of_once_all_of_it_has_ended(
    place: Place, django_capture_on_commit_callbacks: Commit
) -> None:
    first, second, third = array(place, "1-3")
    end(first, Reason.COMMAND_FINISHED, django_capture_on_commit_callbacks)
    end(third, Reason.COMMAND_FAILED, django_capture_on_commit_callbacks)
    assert not Notification.objects.exists()

    end(second, Reason.COMMAND_FINISHED, django_capture_on_commit_callbacks)
    notify_of_ends([first.pk, second.pk, third.pk])

    [told] = Notification.objects.all()
    assert notification_text(told) == "“sweep” has ended: 1 of its 3 sessions did not finish."
    assert (told.code, told.session_id) == (Code.ARRAY_FAILED, first.pk)


def test_an_array_that_finished_is_good_news(
    place: Place, django_capture_on_commit_callbacks: Commit
) -> None:
    for element in array(place, "1-2"):
        end(element, Reason.COMMAND_FINISHED, django_capture_on_commit_callbacks)
    assert notification_text(Notification.objects.get()) == "All 2 sessions of “sweep” have finished."


def test_an_array_that_its_owner_ended_is_no_news(
    place: Place, django_capture_on_commit_callbacks: Commit
) -> None:
    for element in array(place, "1-2"):
        end(element, Reason.USER_REQUESTED, django_capture_on_commit_callbacks)
    assert not Notification.objects.exists()


def test_the_end_of_an_array_is_told_once_even_if_the_word_was_lost(
    place: Place, django_capture_on_commit_callbacks: Commit
) -> None:
    first, second = array(place, "1-2")
    end(first, Reason.COMMAND_FINISHED, lambda **_: nullcontext())
    ComputeSession.objects.filter(pk=first.pk).update(ended_at=clock.now() - timedelta(minutes=5))
    notify_people()
    assert not Notification.objects.exists(), "the other one lives"

    end(second, Reason.COMMAND_FINISHED, lambda **_: nullcontext())
    notify_people()
    notify_people()

    assert [told.code for told in Notification.objects.all()] == [Code.ARRAY_FINISHED]
