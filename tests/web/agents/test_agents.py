"""The page of agents."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from tests.factories import make_user
from tests.factories_devices import devices_of, give_devices
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db


def test_accelerators_are_one_line_for_each_kind_and_a_strip_of_what_is_held(
    browser_of: Callable[[User], Client],
) -> None:
    place = make_place()
    give_devices(place.agent, 3, "Big One")
    place.place(resources={"cpu": 1, "mem": "1g", "gpu": 0.25})
    lost = devices_of(place.agent)[2]
    lost.is_present = False
    lost.save(update_fields=["is_present"])

    page = browser_of(make_user(role=Role.SUPERADMIN)).get("/agents/").content.decode()

    assert "2 × Big One, 80 GiB" in page
    assert 'aria-label="gpu 0, 0.25 allocated; gpu 1, free; gpu 2, missing"' in page
    assert '<rect class="device-held" x="00" width="8" height="25">' in page
