"""Pages of accelerators: heat map, one machine, one device."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import AgentDevice
from tests.factories import make_user
from tests.factories_devices import devices_of, give_devices
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]


@pytest.fixture
def place() -> Place:
    made = make_place()
    give_devices(made.agent, 5, "Big One")
    return made


@pytest.fixture
def admin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def change(place: Place, index: int, **values: object) -> AgentDevice:
    device = devices_of(place.agent)[index]
    AgentDevice.objects.filter(pk=device.pk).update(**values)
    return device


def test_the_heat_map_shows_each_state_in_words_and_filters_by_it(place: Place, admin: Client) -> None:
    place.place(resources={"cpu": 1, "mem": "1g", "gpu": 0.25})
    change(place, 2, withheld="quarantine", withheld_because="Xid 79")
    change(place, 3, is_present=False)

    page = admin.get("/accelerators/").content.decode()
    words = f'aria-label="{place.agent.name}: 2 free, 1 partly held, 1 quarantined, 1 missing"'
    assert words in page
    assert re.search(r'class="is-held" d="M\d+ [\d.]+h10v2.5h-10z"', page), "a quarter of a square"
    assert words in admin.get("/accelerators/?state=ill").content.decode()
    assert "No device matches" in admin.get("/accelerators/?state=idle").content.decode()
    assert "No device matches" in admin.get("/accelerators/?model=Small+One").content.decode()
    row = re.search(r"<td[^>]*><a href=\"/accelerators/\?group=.*?</tr>", page, re.DOTALL)
    assert row
    numbers = re.findall(r'class="is-number"[^>]*>(.*?)</td>', row[0])
    assert numbers[:3] == ["80 GiB", "4", "2"], "memory, present, free"


def test_a_machine_names_holders_to_those_who_may_see_them(
    place: Place, admin: Client, browser_of: Browser
) -> None:
    session = place.place(resources={"cpu": 1, "mem": "1g", "gpu": 2})
    address = f"/agents/{place.agent.pk}/"
    assert f'href="/sessions/{session.pk}/"' in admin.get(address).content.decode()
    other = browser_of(make_user(domain=place.project.domain)).get(address).content.decode()
    assert "another session" in other
    assert session.name not in other


def test_a_device_tells_why_it_is_withheld(place: Place, admin: Client) -> None:
    device = change(place, 1, withheld="busy", withheld_because="python3 of uid 1000")
    page = admin.get(f"/accelerators/{device.pk}/").content.decode()
    for words in ("Big One", "python3 of uid 1000", "Withheld", device.device_id):
        assert words in page


def test_a_quarantined_device_is_offered_to_nobody_until_it_is_released(place: Place, admin: Client) -> None:
    device = devices_of(place.agent)[0]
    address = f"/accelerators/{device.pk}/"
    assert place.agent.slots.get(slot_name="gpu").capacity == 5000
    admin.post(f"{address}quarantine/", {"because": " "})
    assert place.agent.slots.get(slot_name="gpu").capacity == 5000, "no reason, no quarantine"

    admin.post(f"{address}quarantine/", {"because": "fan replaced on Monday"})
    assert place.agent.slots.get(slot_name="gpu").capacity == 4000
    page = admin.get(address).content.decode()
    assert ("fan replaced on Monday" in page, "Quarantined" in page) == (True, True)

    admin.post(f"{address}release/")
    assert place.agent.slots.get(slot_name="gpu").capacity == 5000
    shown = admin.get(address).content.decode()
    assert "Accelerator quarantined" in shown
    assert "Accelerator released" in shown


def test_a_device_is_split_into_what_fits(place: Place, admin: Client) -> None:
    device = change(place, 0, vendor="nvidia", model="NVIDIA H100 80GB HBM3", mem_bytes=80 * 2**30)
    address = f"/accelerators/{device.pk}/"
    assert 'name="3g.40gb"' in admin.get(address).content.decode()
    answer = admin.post(f"{address}split/", {"3g.40gb": "2", "1g.10gb": "1"}, follow=True)
    assert "slices of memory" in answer.content.decode()
    device.refresh_from_db()
    assert device.wanted_layout is None

    admin.post(f"{address}split/", {"3g.40gb": "1", "1g.10gb": "2"})
    device.refresh_from_db()
    assert device.wanted_layout == {"3g.40gb": 1, "1g.10gb": 2}
    assert "being made" in admin.get(address).content.decode()
