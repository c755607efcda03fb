"""The page of a resource group's reservations."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents.models import Reservation
from agents.resource_groups import service
from common import clock
from common.actors import SYSTEM
from common.models import AuditEntry
from tests.factories import make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]
SEOUL = ZoneInfo("Asia/Seoul")


@pytest.fixture
def superadmin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def page_of(place: Place) -> str:
    return f"/resource-groups/{place.group.pk}/reservations/"


def typed(place: Place, **changes: Any) -> dict[str, Any]:
    begins = (clock.now() + timedelta(hours=1)).astimezone(SEOUL)
    return {
        "name": "Course", "reason": "Exam", "starts_at": f"{begins:%Y-%m-%dT%H:%M}",
        "ends_at": f"{begins + timedelta(hours=2):%Y-%m-%dT%H:%M}", "time_zone": "Asia/Seoul", "level": "user",
        "grantee": place.owner.email, "agents": [place.agent.name], **changes,
    }  # fmt: skip


def test_machines_are_reserved_in_ones_own_time_and_given_back(place: Place, superadmin: Client) -> None:
    assert "No reservations" in superadmin.get(page_of(place)).content.decode()
    asked = typed(place)
    assert superadmin.post(page_of(place), asked)["Location"] == page_of(place)
    made = Reservation.objects.get()
    assert made.starts_at == datetime.fromisoformat(asked["starts_at"]).replace(tzinfo=SEOUL)
    shown = superadmin.get(page_of(place)).content.decode()
    for words in ("Course", "Exam", f"For {place.owner.email}", place.agent.name, "Upcoming"):
        assert words in shown
    assert superadmin.post(f"{page_of(place)}{made.pk}/cancel/")["Location"] == page_of(place)
    assert not Reservation.objects.exists()


@pytest.mark.parametrize(("level", "words"), [("domain", "For the domain"), ("project", "For the project")])
def test_they_are_reserved_for_domains_and_projects(
    place: Place, superadmin: Client, level: str, words: str
) -> None:
    name = place.project.domain.name if level == "domain" else place.project.name
    superadmin.post(page_of(place), typed(place, level=level, grantee=name))
    assert words in superadmin.get(page_of(place)).content.decode()


def test_one_is_changed_on_its_page(place: Place, superadmin: Client) -> None:
    superadmin.post(page_of(place), typed(place))
    made = Reservation.objects.get()
    page = f"{page_of(place)}{made.pk}/"
    shown = superadmin.get(page)
    assert f"For {place.owner.email}" in shown.content.decode()
    initial = shown.context["form"].initial
    assert initial["ends_at"] == f"{made.ends_at:%Y-%m-%dT%H:%M}"

    same = {"time_zone": "", **{name: initial[name] for name in ("reason", "starts_at", "ends_at", "agents")}}
    assert superadmin.post(page, {**same, "name": "Exam"})["Location"] == page_of(place)
    changed = Reservation.objects.get()
    assert (changed.name, changed.ends_at, changed.user) == ("Exam", made.ends_at, place.owner)

    for wrong in ({"ends_at": "2001-01-01T00:00"}, {"ends_at": ""}, {"starts_at": ""}, {"agents": []}):
        answer = superadmin.post(page, {**same, "name": "Exam", **wrong})
        assert (answer.status_code, set(answer.context["form"].errors)) == (422, set(wrong))


def test_times_that_nobody_typed_stay_to_the_second_and_in_an_hour_that_comes_twice(
    place: Place, superadmin: Client
) -> None:
    superadmin.post(page_of(place), typed(place))
    made = Reservation.objects.get()
    begins = datetime(2040, 10, 28, 0, 30, 17, tzinfo=UTC)  # 2:30 in Berlin, and so is an hour later
    Reservation.objects.filter(pk=made.pk).update(starts_at=begins, ends_at=begins + timedelta(hours=1))
    same = {"starts_at": "2040-10-28T02:30", "ends_at": "2040-10-28T02:30", "time_zone": "Europe/Berlin"}
    page = f"{page_of(place)}{made.pk}/"
    with clock.frozen_at(begins - timedelta(days=1)):
        answer = superadmin.post(page, typed(place, **same, name="Exam"))
    assert answer["Location"] == page_of(place), answer.context["form"].errors
    kept = Reservation.objects.get()
    assert (kept.name, kept.starts_at, kept.ends_at) == ("Exam", begins, begins + timedelta(hours=1))


def test_of_one_that_holds_the_start_is_told_and_not_asked(place: Place, superadmin: Client) -> None:
    superadmin.post(page_of(place), typed(place, starts_at=""))
    made = Reservation.objects.get()
    page = f"{page_of(place)}{made.pk}/"
    shown = superadmin.get(page)
    assert "which stays" in shown.content.decode()
    assert "starts_at" not in shown.context["form"].fields
    assert superadmin.post(page, typed(place, is_all="on"))["Location"] == page_of(place)
    assert Reservation.objects.get().starts_at == made.starts_at


def test_the_calendar_shows_weeks_and_months_in_ones_own_days(place: Place, superadmin: Client) -> None:
    page = page_of(place)
    assert "Nothing is reserved in these days." in superadmin.get(page).content.decode()
    superadmin.post(page, typed(place, starts_at=""))
    made = Reservation.objects.get()
    shown = superadmin.get(page, {"view": "month", "time_zone": "Asia/Seoul"}).content.decode()
    assert f'href="{page}{made.pk}/" class="calendar-bar is-busy"' in shown
    assert f"{made.ends_at.astimezone(SEOUL):%Y-%m-%d %H:%M}" in shown
    assert "time_zone=Asia%2FSeoul" in shown, "ways on keep it"

    part = superadmin.get(page, headers={"HX-Request": "true"}).content.decode()
    assert "calendar-table" in part
    assert "<html" not in part
    far = superadmin.get(page, {"day": "2001-01-01", "view": "year", "time_zone": "../etc"})
    assert (far.status_code, far.context["calendar"].is_empty) == (200, False), "what is none is this week"
    made.ends_at = clock.now() - timedelta(seconds=1)
    made.starts_at = made.ends_at - timedelta(seconds=1)
    made.save()
    over = superadmin.get(page, {"view": "month", "day": f"{made.ends_at:%Y-%m-%d}"}).content.decode()
    assert "calendar-bar is-quiet" in over
    assert "No reservations" in over, "the list has what is to come alone"


def test_all_machines_from_now_on_for_maintenance(place: Place, superadmin: Client) -> None:
    superadmin.post(
        page_of(place), typed(place, starts_at="", level="nobody", grantee="", agents=[], is_all="on")
    )
    assert Reservation.objects.get().machines.count() == 1
    shown = superadmin.get(page_of(place)).content.decode()
    assert "In effect" in shown
    assert "For nobody: maintenance" in shown


def test_where_machines_are_many_their_names_are_typed(
    place: Place, superadmin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.web.reservation_forms.MOST_BOXES", 1)
    other, foreign = make_place().agent, make_place().agent
    service.move_agent(actor=SYSTEM, agent_id=other.pk, group_id=place.group.pk)
    shown = superadmin.get(page_of(place)).content.decode()
    assert '<textarea name="agents"' in shown
    assert f'value="{other.name}"' not in shown
    answer = superadmin.post(page_of(place), typed(place, agents=f"{other.name}, {foreign.name}"))
    assert (answer.status_code, set(answer.context["form"].errors)) == (422, {"agents"})
    superadmin.post(page_of(place), typed(place, agents=f"{other.name},\n{place.agent.name}"))
    made = Reservation.objects.get()
    assert made.machines.count() == 2

    page = f"{page_of(place)}{made.pk}/"
    form = superadmin.get(page).context["form"]
    same = {
        "time_zone": "",
        **{name: form[name].value() for name in ("reason", "starts_at", "ends_at", "agents")},
    }
    assert superadmin.post(page, {**same, "name": "Exam"})["Location"] == page_of(place)
    assert not AuditEntry.objects.filter(
        changes__has_key="agents", action="agents.change_reservation"
    ).exists()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("a\x01b", "“a�b”: Control characters"),
        ("a" * 65, "At most 64 characters"),
        ("a b c", "At most 2 machines; these are 3."),
    ],
)
def test_typed_names_are_such_as_rest_takes(
    place: Place, superadmin: Client, monkeypatch: pytest.MonkeyPatch, names: str, words: str
) -> None:
    monkeypatch.setattr("agents.web.reservation_forms.MOST_BOXES", 0)
    monkeypatch.setattr("agents.web.reservation_forms.MOST_AGENTS", 2)
    answer = superadmin.post(page_of(place), typed(place, agents=names))
    assert (answer.status_code, set(answer.context["form"].errors)) == (422, {"agents"})
    assert words in answer.content.decode()


@pytest.mark.parametrize(
    ("instant", "time_zone"), [("0001-01-01T00:00", "Asia/Tokyo"), ("9999-12-31T23:59", "America/New_York")]
)
def test_instants_that_utc_has_not_are_marked_at_their_field(
    place: Place, superadmin: Client, instant: str, time_zone: str
) -> None:
    superadmin.post(page_of(place), typed(place))
    made = Reservation.objects.get()
    for page in (page_of(place), f"{page_of(place)}{made.pk}/"):
        for field in ("starts_at", "ends_at"):
            asked = typed(place, **{"time_zone": time_zone, field: instant})
            answer = superadmin.post(page, asked)
            assert answer.status_code == 422
            assert answer.context["form"].errors[field] == ["Give a date and a time."]
    assert Reservation.objects.get().ends_at == made.ends_at


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": ""}, "name"),
    ({"level": ""}, "level"),
    ({"starts_at": "soon"}, "starts_at"),
    ({"starts_at": "2001-01-01T00:00"}, "starts_at"),
    ({"ends_at": ""}, "ends_at"),
    ({"ends_at": "2001-01-01T00:00"}, "ends_at"),
    ({"grantee": ""}, "grantee"),
    ({"grantee": "nobody@berth.example"}, "grantee"),
    ({"agents": []}, "agents"),
    ({"agents": ["absent"]}, "agents"),
)


def test_wrong_input_is_marked_at_its_field(
    place: Place, superadmin: Client, subtests: pytest.Subtests
) -> None:
    for changes, field in WRONG:
        with subtests.test(str((changes, field))):
            answer = superadmin.post(page_of(place), typed(place, **changes))
            assert (answer.status_code, set(answer.context["form"].errors)) == (422, {field})
            assert not Reservation.objects.exists()


def test_an_overlap_names_the_other_at_the_machines(place: Place, superadmin: Client) -> None:
    superadmin.post(page_of(place), typed(place))
    answer = superadmin.post(page_of(place), typed(place, name="Other"))
    assert answer.status_code == 422
    assert "is reserved for “Course” already" in answer.content.decode()


def test_monitors_look_and_people_see_in_the_queue_that_machines_are_reserved(
    place: Place, superadmin: Client, browser_of: Browser
) -> None:
    superadmin.post(page_of(place), typed(place))
    monitor = browser_of(make_user(role=Role.MONITOR)).get(page_of(place)).content.decode()
    assert "Course" in monitor
    assert "Reserve machines" not in monitor
    stranger = browser_of(make_user()).get("/queue/").content.decode()
    assert "1 machine" in stranger
    assert "Course" not in stranger
    assert "Course" in browser_of(place.owner).get("/queue/").content.decode()
