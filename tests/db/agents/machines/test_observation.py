"""Unexpected answers of engines to a heartbeat."""

import pytest

from agents.machines import service
from agents.machines.observation import Observation
from agents.runtime.port import ImageInfo
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db


def image(image_id: str, *references: str) -> ImageInfo:
    return ImageInfo(
        image_id=image_id,
        references=references,
        size_bytes=1,
        labels={},
        architecture="x86_64",
        created_at=None,
    )


def test_strange_image_names_do_not_stop_heartbeats() -> None:
    place = make_place()
    long_name = f"registry.example/{'a/' * 100}b@sha256:{'0' * 64}"
    seen = Observation(
        place.runtime.info(), (image("one", "berth/a:1", long_name), image("two", "berth/a:1"))
    )

    service.record_heartbeat(place.agent.pk, seen)
    service.record_heartbeat(place.agent.pk, seen)

    assert [row.reference for row in place.agent.images.all()] == ["berth/a:1"]


def test_name_that_means_another_image_now_is_known_as_such() -> None:
    place = make_place()
    for image_id in ("one", "two"):
        seen = Observation(place.runtime.info(), (image(image_id, "berth/a:1"),))
        service.record_heartbeat(place.agent.pk, seen)
    assert [row.image_id for row in place.agent.images.all()] == ["two"]
