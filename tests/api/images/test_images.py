"""GET /api/v1/images/."""

import pytest

from common.actors import SYSTEM
from images.services import discover_image
from tests.conftest import People
from tests.db.images.test_images import Facts
from tests.factories import api_client

pytestmark = pytest.mark.django_db


def test_members_get_the_images_that_they_can_start(people: People) -> None:
    discover_image(actor=SYSTEM, reference="berth/python:1", facts=Facts())
    discover_image(actor=SYSTEM, reference="redis:7", facts=Facts(labels={}))

    answer = api_client(people.member).get("/api/v1/images/")

    assert answer.status_code == 200
    (image,) = answer.json()["results"]
    assert image["reference"] == "berth/python:1"
    assert image["apps"] == [{"name": "lab", "title": "Lab", "port": 8888}]
    assert image["minimum"] == {}


def test_any_number_of_images_costs_the_same_queries(people: People, django_assert_max_num_queries) -> None:
    for number in range(5):
        discover_image(actor=SYSTEM, reference=f"berth/python:{number}", facts=Facts(image_id=str(number)))
    client = api_client(people.member)

    with django_assert_max_num_queries(7):
        assert len(client.get("/api/v1/images/").json()["results"]) == 5


def test_nobody_gets_images_without_a_token() -> None:
    answer = api_client().get("/api/v1/images/")

    assert answer.status_code == 401
    assert answer.json()["code"] == "not_authenticated"
