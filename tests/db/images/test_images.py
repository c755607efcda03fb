"""Images are discovered from agents, and only usable ones are visible."""

import json
from dataclasses import dataclass, field

import pytest

from common import clock
from common.actors import ANONYMOUS, SYSTEM
from common.errors import InvalidInput, NotFound, PermissionDenied
from images.models import ContainerImage, Registry
from images.selectors import access_image, visible_images
from images.services import discover_image, set_image_enabled
from tests.conftest import People
from tests.factories import actor_for

pytestmark = pytest.mark.django_db
APPS = [
    {"name": "lab", "title": "Lab", "port": 8888, "command": ["lab"], "autostart": True, "health": "/api"}
]
SESSION_LABELS = {
    "io.berth.role": "session-image",
    "io.berth.title": "Python",
    "io.berth.apps": json.dumps(APPS),
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine says of an image."""

    image_id: str = "sha256:one"
    size_bytes: int = 700
    labels: dict[str, str] = field(default_factory=lambda: SESSION_LABELS)
    environment: dict[str, str] = field(default_factory=dict)
    architecture: str = "x86_64"
    created_at = clock.now()


def test_a_session_image_is_ready_to_start_once_it_was_discovered(people: People) -> None:
    image = discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts())

    assert (image.title, image.apps, image.size_bytes) == ("Python", APPS, 700)
    assert access_image(actor_for(people.member), "berth/python:1") == image
    assert access_image(actor_for(people.member), image.pk) == image


def test_what_labels_say_is_refreshed_for_rows_of_before(people: People) -> None:
    needs = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}
    for environment in ({}, needs):
        image = discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts(environment=environment))
    assert image.min_cuda == 12040


def test_any_other_image_waits_for_a_superadmin(people: People) -> None:
    image = discover_image(actor=SYSTEM, reference="redis", facts=Facts(labels={}))
    assert image.reference == "redis:latest"
    with pytest.raises(NotFound):
        access_image(actor_for(people.member), "redis")

    set_image_enabled(actor=actor_for(people.superadmin), image_id=image.pk, is_enabled=True)
    assert access_image(actor_for(people.member), "redis") == image


def test_discovering_again_keeps_what_a_superadmin_wrote() -> None:
    image = discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts())
    ContainerImage.objects.filter(pk=image.pk).update(title="Our Python", is_enabled=False)

    again = discover_image(
        actor=SYSTEM, reference="berth/python:1", facts=Facts(image_id="sha256:two", size_bytes=800)
    )

    assert again.pk == image.pk
    assert (again.title, again.is_enabled, again.size_bytes, again.digest) == (
        "Our Python",
        False,
        800,
        "sha256:two",
    )


def test_discovering_an_unchanged_image_writes_nothing(django_assert_num_queries) -> None:
    discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts())

    with django_assert_num_queries(3):  # savepoint, row, savepoint
        discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts())


def test_bad_labels_cost_the_hint_and_not_the_image() -> None:
    image = discover_image(
        actor=SYSTEM,
        reference="odd:1",
        facts=Facts(labels={"io.berth.apps": '[{"name": "../x", "port": 1}]'}),
    )

    assert image.apps == []


def test_a_switched_off_registry_hides_its_images(people: People) -> None:
    registry = Registry.objects.create(name="hub", host="hub.example", url="https://hub.example")
    image = discover_image(actor=SYSTEM, reference="hub.example/lab:1", facts=Facts())
    assert image.registry == registry
    assert list(visible_images(actor_for(people.member))) == [image]

    registry.is_enabled = False
    registry.save()
    assert not visible_images(actor_for(people.member)).exists()


def test_nobody_sees_images_without_signing_in() -> None:
    discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts())

    assert not visible_images(ANONYMOUS).exists()


@pytest.mark.parametrize("wanted", ["nothing:1", "", "0", "99999999999999999999", "a b", "²"])
def test_an_unknown_image_is_not_found(people: People, wanted: str) -> None:
    with pytest.raises(NotFound):
        access_image(actor_for(people.member), wanted)


def test_only_superadmins_change_images(people: People) -> None:
    image = discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts())

    for user in (people.member, people.project_admin, people.domain_admin):
        with pytest.raises(PermissionDenied):
            set_image_enabled(actor=actor_for(user), image_id=image.pk, is_enabled=False)
        with pytest.raises(PermissionDenied):
            discover_image(actor=actor_for(user), reference="x:1", facts=Facts())


def test_what_is_no_reference_is_refused() -> None:
    with pytest.raises(InvalidInput) as refusal:
        discover_image(actor=SYSTEM, reference="No Image", facts=Facts())
    assert "reference" in refusal.value.fields


def test_newer_build_of_a_session_image_takes_the_place_of_the_older(people: People) -> None:
    for number, tag in enumerate(("1.0-aaaa", "2.0-cccc", "1.0-bbbb")):
        discover_image(
            actor=SYSTEM, reference=f"berth/python:{tag}", facts=Facts(image_id=f"sha256:{number}")
        )
    enabled = visible_images(actor_for(people.member)).values_list("reference", flat=True)
    assert set(enabled) == {"berth/python:1.0-bbbb", "berth/python:2.0-cccc"}


def test_reference_without_a_tag_is_the_newest_of_its_repository(people: People) -> None:
    for number, tag in enumerate(("1.0-aaaa", "2.0-cccc")):
        discover_image(
            actor=SYSTEM, reference=f"berth/python:{tag}", facts=Facts(image_id=f"sha256:{number}")
        )
    assert access_image(actor_for(people.member), "berth/python").reference == "berth/python:2.0-cccc"
    with pytest.raises(NotFound):
        access_image(actor_for(people.member), "berth/py")
