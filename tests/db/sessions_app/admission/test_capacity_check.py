"""A request that no suitable agent could ever hold is refused, in a check and in the launcher too."""

import pytest
from django.test import Client

from agents.models import Agent, AgentSlot, ResourceGroup
from common.errors import BerthError, LimitExceeded
from scheduler.forecast import snapshot_cache
from sessions_app.admission.forecast import forecast_session
from sessions_app.admission.service import enqueue_batch
from sessions_app.core.request import parse_request
from sessions_app.models import ComputeSession
from tests.factories import actor_for
from tests.factories_scheduler import Cluster
from tests.factories_sessions import GIB, Place, make_place
from tests.web.sessions_app.test_launcher import typed

pytestmark = pytest.mark.django_db
LARGE = {"cpu": 4, "mem": "1g"}


@pytest.fixture
def place() -> Place:
    """A large machine of another architecture beside a small one that can run the image."""
    snapshot_cache.clear_cache()
    place = make_place()
    Agent.objects.filter(pk=place.agent.pk).update(architecture="aarch64")
    add_agent(place, "x86_64")
    return place


def add_agent(place: Place, architecture: str, model: str = "") -> Agent:
    slots = {"cpu": 2000, "mem": 4 * GIB, **({"cuda": 1000} if model else {})}
    agent = Cluster(place.group, place.project, place.owner, place.image).add_agent(slots)
    Agent.objects.filter(pk=agent.pk).update(architecture=architecture, device_model=model)
    return agent


def refusal(place: Place, **changes: object) -> BerthError:
    """Of a request, in whatever way it is asked for."""
    actor, request = actor_for(place.owner), parse_request(place.request(**changes))
    with pytest.raises(LimitExceeded) as created:
        enqueue_batch(actor=actor, requests=[request])
    with pytest.raises(LimitExceeded) as checked:
        forecast_session(actor, request)
    one, other = created.value, checked.value
    assert (one.message, one.hint, one.fields) == (other.message, other.hint, other.fields)
    assert not ComputeSession.objects.exists()
    return one


def test_the_largest_that_fits_is_of_those_that_can_run_the_image(place: Place) -> None:
    refused = refusal(place, resources=LARGE)
    assert refused.message == f"No machine of “{place.group.name}” has 4 cores, 1 GiB."
    assert refused.hint == "The largest that fits is 2 cores, 4 GiB."
    assert place.enqueue().status == "PENDING"


def test_an_image_that_no_machine_can_run_is_refused(place: Place) -> None:
    Agent.objects.update(architecture="aarch64")
    refused = refusal(place)
    assert refused.message == (
        f"The image {place.image} is for x86_64, and no machine of “{place.group.name}” is."
    )
    assert list(refused.fields) == ["image"]

    other = make_place()
    assert other.group.name in refusal(place).hint
    Agent.objects.filter(pk=other.agent.pk).update(architecture="aarch64")
    assert other.group.name not in refusal(place).hint


def test_a_group_that_the_project_may_not_use_is_not_offered(place: Place) -> None:
    other = make_place()
    ResourceGroup.objects.filter(pk=other.group.pk).update(is_public=False)
    assert other.group.name not in refusal(place, resources=LARGE).hint


def test_the_largest_that_fits_is_of_those_with_the_model_that_can_run_the_image(place: Place) -> None:
    add_agent(place, "x86_64", "new")
    there = add_agent(place, "aarch64", "new")
    AgentSlot.objects.filter(agent=there, slot_name="cuda").update(capacity=2000)
    refused = refusal(place, resources={"cpu": 1, "mem": "1g", "cuda": 2}, device_model="new")
    assert (
        refused.message == f"No machine of “{place.group.name}” with new has 1 core, 1 GiB, 2 × NVIDIA GPU."
    )
    assert refused.hint.startswith("The largest that fits is 2 cores, 4 GiB, 1 × NVIDIA GPU.")
    assert list(refused.fields) == ["device_model"]


def test_a_machine_that_is_named_has_the_model_that_is_named(place: Place) -> None:
    old, new = (add_agent(place, "x86_64", model) for model in ("old", "new"))
    asked = {"resources": {"cpu": 1, "mem": "1g", "cuda": 1}, "device_model": "new"}
    refused = refusal(place, designated_agent=old.name, **asked)
    assert refused.message == f"The machine “{old.name}” does not have the accelerators “new”."
    assert place.place(designated_agent=new.name, **asked).status == "SCHEDULED"


def test_launcher_refuses_before_submit(place: Place, browser_of: object) -> None:
    browser: Client = browser_of(place.owner)  # type: ignore[operator]
    page = browser.post("/sessions/new/summary/", typed(place, cpu="4")).content.decode()
    assert "The largest that fits is 2 cores, 4 GiB." in page.replace("\N{NO-BREAK SPACE}", " ")
