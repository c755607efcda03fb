"""Sessions wait for an image that no agent and no registry has, and a check says so."""

from datetime import timedelta

import pytest

from agents.core.states import AgentState
from agents.machines.service import change_agent_state
from agents.models import AgentImage
from common import clock
from common.actors import SYSTEM
from images.models import ContainerImage, Registry
from scheduler.tick import run_tick
from sessions_app.admission.forecast import forecast_session
from sessions_app.core.request import parse_request
from sessions_app.models import ComputeSession, SessionArray
from sessions_app.queue.array_release import release_all_arrays, release_elements
from sessions_app.queue.holds import update_image_holds
from sessions_app.reconciler.loop import enforce_deadlines
from tests.factories import actor_for
from tests.factories_images import make_machine
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
HELD = ("PENDING", "image_missing", "image_missing")
QUEUED = ("PENDING", "", "enqueued")


@pytest.fixture
def place() -> Place:
    place = make_place()
    AgentImage.objects.filter(agent=place.agent).update(reference="other:1")
    ContainerImage.objects.update(created_at=clock.now() - timedelta(hours=1))
    return place


def bring(place: Place) -> None:
    AgentImage.objects.create(agent=place.agent, reference=place.image.reference, image_id="sha256:2")


def standing(session: ComputeSession) -> tuple[str, str, str]:
    session.refresh_from_db()
    return session.status, session.held_for, session.status_reason


def sweep(place: Place, spec: str, **changes: object) -> SessionArray:
    first = place.enqueue(name="sweep", type="batch", command="true", array=spec, **changes)
    assert first.array is not None
    return first.array


def held_for(array: SessionArray) -> list[str]:
    """Of each element that lives, by index."""
    return list(array.elements.live().order_by("array_index").values_list("held_for", flat=True))


def test_it_waits_until_a_machine_has_the_image_and_keeps_its_place(place: Place) -> None:
    first, second = place.enqueue(resources={"cpu": 8, "mem": "1g"}), place.enqueue()
    assert standing(first) == standing(second) == HELD
    assert not run_tick(place.group.pk)
    update_image_holds()
    assert standing(first) == HELD

    bring(place)
    update_image_holds()
    update_image_holds()
    assert standing(first) == standing(second) == QUEUED
    assert run_tick(place.group.pk) == [first.pk]


def test_check_names_the_missing_image(place: Place) -> None:
    def reason() -> str:
        return forecast_session(actor_for(place.owner), parse_request(place.request())).outlook.reason

    assert reason() == "image_missing"
    bring(place)
    assert reason() == "starts_now"


def test_image_on_a_machine_of_another_group_is_copied_from_there(place: Place) -> None:
    make_machine()  # that tells of no image is no source
    assert standing(place.enqueue(name="early")) == HELD
    make_machine([place.image.reference])
    assert standing(place.enqueue()) == QUEUED


def test_removed_image_holds_its_pending_sessions(place: Place) -> None:
    bring(place)
    waits = place.enqueue()
    assert standing(waits) == QUEUED
    AgentImage.objects.filter(reference=place.image.reference).delete()
    update_image_holds()
    assert standing(waits) == HELD


def test_images_of_registries_and_unreported_images_are_not_missing(place: Place) -> None:
    AgentImage.objects.all().delete()
    assert standing(place.enqueue()) == QUEUED, "the machine told of no image yet"
    AgentImage.objects.create(agent=place.agent, reference="other:1", image_id="sha256:1")
    ContainerImage.objects.update(registry=Registry.objects.create(name="hub", url="https://hub.example"))
    assert standing(place.enqueue(name="second")) == QUEUED


def test_new_images_are_not_missing_before_a_heartbeat(place: Place) -> None:
    ContainerImage.objects.update(created_at=clock.now())
    assert standing(place.enqueue()) == QUEUED


def test_where_only_a_machine_has_it_that_takes_no_sessions_it_is_the_machine_that_is_awaited(
    place: Place,
) -> None:
    bring(place)
    change_agent_state(actor=SYSTEM, agent_id=place.agent.pk, to=AgentState.DRAINING)
    waits = place.enqueue()
    run_tick(place.group.pk)
    assert standing(waits)[2] == "no_agents"


def test_its_time_to_wait_counts(place: Place) -> None:
    waits = place.enqueue(pending_timeout_s=60)
    enforce_deadlines(clock.now() + timedelta(seconds=61))
    assert standing(waits)[::2] == ("CANCELLED", "pending_timeout")
    assert "no machine got its image" in str(waits.status_message)


def test_of_an_array_no_more_are_in_the_queue_at_once_than_may(place: Place) -> None:
    array = sweep(place, "1-3%1")
    assert held_for(array) == ["image_missing", "array_limit", "array_limit"]
    bring(place)
    update_image_holds()
    release_all_arrays()
    assert held_for(array) == ["", "array_limit", "array_limit"]


def test_an_image_that_goes_while_an_array_runs_costs_no_element(place: Place) -> None:
    bring(place)
    array = sweep(place, "1-5%2")
    runs = run_tick(place.group.pk)
    AgentImage.objects.filter(reference=place.image.reference).delete()
    for session_id in runs:
        place.end(ComputeSession.objects.get(pk=session_id))
        release_elements(array.pk)
        update_image_holds()
        release_all_arrays()
    assert held_for(array) == ["image_missing", "image_missing", "array_limit"]
    assert not run_tick(place.group.pk)

    bring(place)
    update_image_holds()
    release_all_arrays()
    assert held_for(array) == ["", "", "array_limit"]


def test_elements_keep_their_place_and_the_time_that_they_waited(place: Place) -> None:
    bring(place)
    array = sweep(place, "1-4%2", pending_timeout_s=60)
    place.end(place.fresh(array.elements.get(array_index=1)))
    release_elements(array.pk)

    def places() -> list[tuple[object, ...]]:
        queue = array.elements.live().filter(array_index__in=[2, 3]).order_by("array_index")
        return list(queue.values_list("eligible_at", "deadline_at"))

    before = places()
    AgentImage.objects.filter(reference=place.image.reference).delete()
    update_image_holds()
    assert held_for(array) == ["image_missing", "image_missing", "array_limit"]
    bring(place)
    update_image_holds()
    release_all_arrays()
    assert held_for(array) == ["", "", "array_limit"]
    assert places() == before
