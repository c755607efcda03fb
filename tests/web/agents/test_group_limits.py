"""Pages of the limits of a resource group."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import ResourceGroup
from agents.resource_groups import service
from common import clock
from common.actors import SYSTEM
from common.errors import NotFound
from common.models import AuditEntry
from scheduler.run_state import run_state
from tests.factories import make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]
MONDAY_NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BY_DAY = {
    "name": "By day", "session_types": ["batch"], "together_devices": "cuda=8", "each_mem": "64g", "each_devices": "cuda=2",
    "days": ["1", "2", "3", "4", "5"], "begins": "08:00", "ends": "18:00", "time_zone": "Europe/Berlin",
}  # fmt: skip
FAIR = {"name": "Fair", "each_cpu": "8", "time_zone": "Europe/Berlin"}
KEPT = {
    "name": "By day", "session_types": ["batch"], "together": {"cuda": 8000}, "each": {"mem": 2**36, "cuda": 2000},
    "days": [1, 2, 3, 4, 5], "begins": "08:00", "ends": "18:00", "time_zone": "Europe/Berlin",
}  # fmt: skip


@pytest.fixture
def superadmin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def page_of(place: Place) -> str:
    return f"/resource-groups/{place.group.pk}/limits/"


def kept(place: Place) -> list[dict[str, Any]]:
    return list(ResourceGroup.objects.get(pk=place.group.pk).limits)


def test_a_limit_is_added_shown_changed_and_removed(place: Place, superadmin: Client) -> None:
    assert "No limits yet" in superadmin.get(page_of(place)).content.decode()
    assert superadmin.post(page_of(place), BY_DAY)["Location"] == page_of(place)
    assert kept(place) == [KEPT]
    with clock.frozen_at(MONDAY_NOON):
        shown = superadmin.get(page_of(place)).content.decode()
    for words in (
        "Batch sessions",
        "8 × NVIDIA GPU",
        "64\xa0GiB",
        "Mon–Fri",
        "08:00 – 18:00",
        "Europe/Berlin",
        "In effect",
    ):
        assert words in shown
    assert f'datetime="{MONDAY_NOON.replace(hour=16).isoformat()}"' in shown, "18:00 in Berlin"

    page = f"{page_of(place)}change/?limit=By+day"
    assert page in shown
    form = superadmin.get(page).context["form"]
    assert (form["each_mem"].value(), form["each_devices"].value()) == ("64g", "cuda=2")
    assert superadmin.post(page, {**BY_DAY, "name": "Daytime", "days": []}).status_code == 422
    always = {**BY_DAY, "name": "Daytime", "days": [], "begins": "", "ends": ""}
    assert superadmin.post(page, always)["Location"] == page_of(place)
    assert kept(place) == [{**KEPT, "name": "Daytime", "days": [], "begins": "", "ends": "", "time_zone": ""}]

    assert superadmin.get(page).status_code == 404, "it has another name now"
    assert superadmin.post(f"{page_of(place)}remove/?limit=By+day").status_code == 404
    assert superadmin.post(f"{page_of(place)}remove/?limit=Daytime")["Location"] == page_of(place)
    assert kept(place) == []


def test_others_stay_as_they_are_and_changes_are_those_of_the_group(place: Place, superadmin: Client) -> None:
    for typed in (BY_DAY, FAIR):
        superadmin.post(page_of(place), typed)
    before = ResourceGroup.objects.select_related("scheduler_state").get(pk=place.group.pk)
    superadmin.post(f"{page_of(place)}change/?limit=By+day", {**BY_DAY, "ends": "20:00"})
    after = ResourceGroup.objects.get(pk=place.group.pk)
    assert after.limits == [{**KEPT, "ends": "20:00"}, before.limits[1]], "in the order in which they were"
    assert run_state(after).epoch == run_state(before).epoch + 1
    entry = AuditEntry.objects.filter(action="agents.update_resource_group").latest("pk")
    assert entry.changes == {"limits": [before.limits, after.limits]}
    superadmin.post(f"{page_of(place)}remove/?limit=By+day")
    assert kept(place) == before.limits[1:]


@pytest.mark.parametrize(
    ("days", "begins", "ends", "words"),
    [
        ("1234567", "22:00", "06:00", ("Every day", "22:00 – 06:00 (next day)")),
        ("16", "08:00", "08:00", ("Mon, Sat", "08:00 – 08:00 (next day)")),
        ("12457", "00:00", "23:59", ("Mon, Tue, Thu, Fri, Sun", "00:00 – 23:59")),
    ],
)
def test_hours_are_told_in_words(
    place: Place, superadmin: Client, days: str, begins: str, ends: str, words: tuple[str, ...]
) -> None:
    superadmin.post(page_of(place), {**BY_DAY, "days": list(days), "begins": begins, "ends": ends})
    shown = superadmin.get(page_of(place)).content.decode()
    assert all(word in shown for word in words)


def test_it_says_whether_a_limit_holds_now(place: Place, superadmin: Client) -> None:
    superadmin.post(page_of(place), BY_DAY)
    with clock.frozen_at(MONDAY_NOON.replace(hour=20)):
        assert "Upcoming" in superadmin.get(page_of(place)).content.decode()
    superadmin.post(f"{page_of(place)}change/?limit=By+day", FAIR)
    shown = superadmin.get(page_of(place)).content.decode()
    for words in ("All sessions", "Always", "In effect"):
        assert words in shown


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": ""}, "name"),
    ({"name": "x" * 65}, "name"),
    ({"name": "Fair"}, "name"),
    ({"session_types": ["inference"]}, "session_types"),
    ({"together_devices": "", "each_mem": "", "each_devices": ""}, "together_cpu"),
    ({"together_cpu": "many"}, "together_cpu"),
    ({"each_mem": "much"}, "each_mem"),
    ({"each_devices": "CUDA!=2"}, "each_devices"),
    ({"days": ["8"]}, "days"),
    ({"days": []}, "days"),
    ({"begins": ""}, "begins"),
    ({"ends": "25:00"}, "ends"),
    ({"time_zone": ""}, "time_zone"),
    ({"time_zone": "Europe/Atlantis"}, "time_zone"),
)


def test_wrong_input_is_marked_at_its_field(
    place: Place, superadmin: Client, subtests: pytest.Subtests
) -> None:
    superadmin.post(page_of(place), FAIR)
    for changes, field in WRONG:
        with subtests.test(str((changes, field))):
            answer = superadmin.post(page_of(place), {**BY_DAY, **changes})
            assert (answer.status_code, set(answer.context["form"].errors)) == (422, {field})
            assert [each["name"] for each in kept(place)] == ["Fair"]


def test_more_than_ten_are_refused_above_the_form(place: Place, superadmin: Client) -> None:
    for number in range(10):
        superadmin.post(page_of(place), {**FAIR, "name": f"{number}"})
    answer = superadmin.post(page_of(place), FAIR)
    assert (answer.status_code, len(kept(place))) == (422, 10)
    assert "at most 10 limits" in answer.content.decode()


def test_the_zone_of_the_reader_is_offered_and_never_put_over_one_that_was_chosen(
    place: Place, superadmin: Client
) -> None:
    assert "data-time-zone" in superadmin.get(page_of(place)).content.decode()
    assert "data-time-zone" not in superadmin.post(page_of(place), {**BY_DAY, "name": ""}).content.decode()
    superadmin.post(page_of(place), BY_DAY)
    change = superadmin.get(f"{page_of(place)}change/?limit=By+day").content.decode()
    assert "data-time-zone" not in change
    assert 'value="Europe/Berlin"' in change


def test_a_form_that_is_sent_twice_adds_one(place: Place, superadmin: Client) -> None:
    once = {**FAIR, "once": "a" * 32}
    assert [superadmin.post(page_of(place), once).status_code for _ in range(2)] == [302, 302]
    assert len(kept(place)) == 1


def test_monitors_look(place: Place, superadmin: Client, browser_of: Browser) -> None:
    superadmin.post(page_of(place), BY_DAY)
    monitor = browser_of(make_user(role=Role.MONITOR))
    shown = monitor.get(page_of(place)).content.decode()
    assert "By day" in shown
    assert "Add a limit" not in shown
    assert "Remove" not in shown
    assert monitor.post(page_of(place), FAIR).status_code == 404


def test_names_of_any_characters_are_found(place: Place, superadmin: Client) -> None:
    name = "GPU & CPU / 50 %?"
    superadmin.post(page_of(place), {**FAIR, "name": name})
    [row] = superadmin.get(page_of(place)).context["rows"]
    assert superadmin.get(row["change_url"]).status_code == 200
    assert superadmin.post(row["remove_url"]).status_code == 302
    with pytest.raises(NotFound):
        service.remove_limit(actor=SYSTEM, group_id=place.group.pk, name=name)
    limit = {"name": name, "each": {"cpu": 1}}
    with pytest.raises(NotFound):
        service.save_limit(actor=SYSTEM, group_id=place.group.pk, limit=limit, instead_of=name)
