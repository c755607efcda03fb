"""Progress of an image pull on the session's page."""

from types import SimpleNamespace
from uuid import uuid4

import pytest

from agents.runtime.port import PullProgress
from agents.runtime.simulated.runtime import IMAGE_BYTES
from common.actors import SYSTEM
from images.models import Registry
from sessions_app.core.states import Reason, Status
from sessions_app.launch import image_pull
from sessions_app.launch.launcher import launch_session
from sessions_app.lifecycle import transitions
from sessions_app.lifecycle.transitions import IllegalTransition
from sessions_app.models import ComputeSession
from sessions_app.termination.service import terminate_session
from tests import factories
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
FIRST, SECOND = PullProgress(1, 10, 0, 2), PullProgress(5, 10, 1, 2)


def preparing(place: Place) -> ComputeSession:
    session = place.place()
    transitions.transition(session.pk, to=Status.PREPARING, reason=Reason.PREPARING, actor=SYSTEM)
    return place.fresh(session)


def test_unreported_pull_has_no_progress() -> None:
    assert image_pull.pull_progress(uuid4()) is None


def test_pull_progress_is_published_once_a_second(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    instants = iter([100.0, 100.0, 100.5, 101.5, 101.5])
    monkeypatch.setattr(image_pull, "time", SimpleNamespace(monotonic=lambda: next(instants)))
    session = preparing(place)
    report = image_pull.PullReporter(session)
    report(FIRST)
    assert image_pull.pull_progress(session.pk) == FIRST
    report(SECOND)
    assert image_pull.pull_progress(session.pk) == FIRST
    report(SECOND)
    assert image_pull.pull_progress(session.pk) == SECOND


def test_pull_for_a_session_that_was_stopped_is_broken_off(place: Place) -> None:
    session = preparing(place)
    report = image_pull.PullReporter(session)
    terminate_session(actor=factories.actor_for(place.owner), session_id=session.pk)
    with pytest.raises(IllegalTransition, match="not needed any more"):
        report(FIRST)


def test_image_of_a_registry_is_pulled_for_the_session_that_wants_it(place: Place) -> None:
    place.image.registry = Registry.objects.create(name="hub", host="hub.example", url="https://hub.example")
    place.image.save(update_fields=["registry"])
    place.runtime._images.clear()
    place.runtime._registry.add(place.image.reference)
    session = place.place()
    launch_session(session.pk)
    assert place.fresh(session).status == Status.RUNNING
    heard = image_pull.pull_progress(session.pk)
    assert heard is not None
    assert heard.total_bytes == IMAGE_BYTES
