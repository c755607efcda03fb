"""The page of an image: where it is, how far it is on its way, and what administrators do there."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import AgentImage, ImageTransfer
from common import clock
from tests.factories import make_user
from tests.factories_images import carry_all, make_machine
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db


@pytest.fixture
def place() -> Place:
    return make_place()


@pytest.fixture
def superadmin(browser_of: Callable[[User], Client]) -> Client:
    return browser_of(make_user(role=Role.SUPERADMIN))


def test_image_is_brought_to_a_group_and_removed_again(place: Place, superadmin: Client) -> None:
    agent, _engine = make_machine()
    address = f"/images/{place.image.pk}/"
    assert "On 1 of 2 machines" in superadmin.get(address).content.decode()
    assert "1 of 2" in superadmin.get("/images/").content.decode()

    superadmin.post(f"{address}bring/", {"target": f"group:{agent.resource_group.name}"})
    ImageTransfer.objects.update(started_at=clock.now(), done_bytes=2**20, total_bytes=2**22)
    page = superadmin.get(address).content.decode()
    assert "1 MiB of 4 MiB" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert 'hx-trigger="every 2s"' in page
    assert "1 MiB of 4 MiB" in superadmin.get(f"/agents/{agent.pk}/").content.decode().replace(
        "\N{NO-BREAK SPACE}", " "
    )
    carry_all()
    page = superadmin.get(address).content.decode()
    assert "On 2 of 2 machines" in page
    assert "brought by Berth" in page

    AgentImage.objects.create(agent=agent, reference="tools/one:1", image_id="x", brought_at=clock.now())
    superadmin.post(f"/agents/{agent.pk}/images/remove/", {"reference": "tools/one:1", "back": address})
    assert not agent.images.filter(reference="tools/one:1").exists()


def test_failure_says_why_at_the_machine(place: Place, superadmin: Client) -> None:
    agent, _engine = make_machine()
    ImageTransfer.objects.create(
        agent=agent, reference=place.image.reference, error="no space left", ended_at=clock.now()
    )
    assert "no space left" in superadmin.get(f"/images/{place.image.pk}/").content.decode()


def test_pinned_image_is_marked(place: Place, superadmin: Client) -> None:
    superadmin.post(f"/images/{place.image.pk}/pin/", {"pinned": "yes"})
    page = superadmin.get(f"/images/{place.image.pk}/").content.decode()
    assert "pinned" in page
    place.image.refresh_from_db()
    assert place.image.is_pinned
