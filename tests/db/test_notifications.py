"""People are told what happened to their sessions: once, for a bounded time, and nobody else is."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from common import clock
from common.actors import SYSTEM
from common.errors import NotFound
from portal import services
from portal.models import Notification
from portal.sentences import Code
from portal.tasks import notify_people
from sessions_app import lifecycle
from sessions_app.models import ComputeSession
from sessions_app.states import Reason, Status
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
        lifecycle.transition(session.pk, to=Status.TERMINATING, reason=reason, actor=SYSTEM)
        lifecycle.finish(session.pk, actor=SYSTEM)


def tell(people: People, happening: str) -> bool:
    return services.notify(
        person_id=people.member.pk, code=Code.NOT_STARTED, happening=happening, arguments={"name": "a"}
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
    services.notify_of_end(session.pk)
    services.notify_of_end(uuid4())

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
    monkeypatch.setattr(services, "KEPT_NOTIFICATIONS", 3)
    for number in range(5):
        tell(people, str(number))

    assert set(Notification.objects.values_list("happening", flat=True)) == {"2", "3", "4"}


def test_reading_is_once_and_of_ones_own(people: People) -> None:
    tell(people, "one")
    notification = Notification.objects.get()
    member = factories.actor_for(people.member)

    with pytest.raises(NotFound):
        services.read_notification(
            actor=factories.actor_for(people.superadmin), notification_id=notification.pk
        )
    read_at = services.read_notification(actor=member, notification_id=notification.pk).read_at
    assert services.read_notification(actor=member, notification_id=notification.pk).read_at == read_at
    assert services.read_all_notifications(actor=member) == 0


def test_all_are_read_at_once(people: People) -> None:
    tell(people, "one")
    tell(people, "two")

    assert services.read_all_notifications(actor=factories.actor_for(people.superadmin)) == 0
    assert services.read_all_notifications(actor=factories.actor_for(people.member)) == 2
    assert not Notification.objects.filter(read_at=None).exists()
