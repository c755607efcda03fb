"""Sessions whose machine lacks their image wait until it has arrived, and their pages say how far it is."""

from datetime import timedelta

import pytest

from agents.machine_images import runner
from agents.models import ImageTransfer
from agents.runtime.port import PullProgress
from common import clock
from images.models import Registry
from sessions_app.core.states import Status
from sessions_app.launch.image_pull import image_transfer
from sessions_app.launch.launcher import launch_session
from sessions_app.models import ComputeSession
from sessions_app.presentation.session import steps
from tests.factories_images import carry_all, lose_image, make_machine
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]


def launched(place: Place, session: ComputeSession | None = None) -> ComputeSession:
    session = session or place.place()
    launch_session(session.pk)
    return place.fresh(session)


def test_sessions_wait_for_one_transfer_and_start_when_it_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "sessions_app.launch.image_pull.enqueue_on_commit", lambda name, session_id: told.append(session_id)
    )
    lose_image(place)
    make_machine([place.image.reference])
    first, second = launched(place), launched(place)
    assert first.status == second.status == Status.PREPARING
    assert ImageTransfer.objects.count() == 1
    carry_all()
    assert sorted(told) == sorted([str(first.pk), str(second.pk)])
    assert launched(place, first).status == launched(place, second).status == Status.RUNNING
    assert place.agent.images.get().used_at


def test_page_says_how_much_has_arrived(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[dict[str, object]] = []
    monkeypatch.setattr(
        "sessions_app.launch.image_pull.push_now", lambda kind, audience, payload: pushed.append(payload)
    )
    lose_image(place)
    session = launched(place)
    assert image_transfer(place.place()) is None
    [transfer] = ImageTransfer.objects.all()
    runner._Reporter(transfer)(PullProgress(120 * 2**20, 480 * 2**20, 0, 2))
    ImageTransfer.objects.update(started_at=clock.now())
    found = image_transfer(session)
    assert found is not None
    step = steps(session, found)[2]
    assert step["note"] == f"Pulling {place.image.reference}: 120 MiB of 480 MiB"
    assert (step["done"], step["total"]) == (120 * 2**20, 480 * 2**20)
    assert pushed == [{"id": str(session.pk)}]


def test_image_of_a_registry_is_pulled(place: Place) -> None:
    place.image.registry = Registry.objects.create(name="hub", host="hub.example", url="https://hub.example")
    place.image.save(update_fields=["registry"])
    lose_image(place)
    place.runtime._registry.add(place.image.reference)
    session = launched(place)
    carry_all()
    assert launched(place, session).status == Status.RUNNING


def test_session_ends_with_the_reason_for_which_its_image_did_not_arrive(place: Place) -> None:
    lose_image(place)
    session = launched(place)
    carry_all()
    session = launched(place, session)
    assert (session.status, session.status_reason) == (Status.TERMINATING, "image_missing")
    assert "ask an administrator" in str(session.status_message)
    with clock.frozen_at(clock.now() + timedelta(seconds=1)):
        assert launched(place).status == Status.PREPARING, "another one tries again"


def test_image_that_was_built_here_is_never_asked_of_a_registry(place: Place) -> None:
    lose_image(place)
    place.runtime._registry.add(place.image.reference)
    session = launched(place)
    carry_all()
    assert launched(place, session).status_reason == "image_missing"
    assert place.runtime.list_images() == []
