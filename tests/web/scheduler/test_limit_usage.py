"""Use of a resource group's limits on the page of the queue."""

from datetime import timedelta

import pytest
from django.test import Client

from agents.resource_groups.service import update_resource_group
from common import clock
from common.actors import SYSTEM
from tests.factories_sessions import Place

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]


def page(place: Place) -> str:
    client = Client()
    client.force_login(place.owner)
    return client.get("/queue/", {"group": place.group.name}).content.decode()


def limit(place: Place, **changes: object) -> None:
    limits = [{"name": "By <b>day</b>", "together": {"cpu": 4000}, "each": {"mem": 2**30}, **changes}]
    update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"limits": limits})


def test_everybody_reads_what_is_used_of_a_limit_that_holds(place: Place) -> None:
    limit(place)
    place.run()
    shown = page(place)
    assert "Limit “By &lt;b&gt;day&lt;/b&gt;”" in shown
    assert "All sessions" in shown
    assert "CPU, together" in shown
    assert "Memory, yours" in shown


def test_one_of_other_hours_is_not_shown(place: Place) -> None:
    later = clock.now() + timedelta(hours=1)
    hours = {
        "days": list(range(1, 8)),
        "begins": f"{later:%H:%M}",
        "ends": f"{later + timedelta(hours=1):%H:%M}",
    }
    limit(place, session_types=["batch"], time_zone="UTC", **hours)
    assert "Limit “" not in page(place)
    limit(place, session_types=["batch"])
    assert "Batch sessions" in page(place)
