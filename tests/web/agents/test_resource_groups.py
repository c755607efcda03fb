"""Pages of resource groups."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from agents import grantee
from agents.models import GroupGrant, ResourceGroup
from agents.resource_groups import service
from common.actors import SYSTEM
from sessions_app.models import ComputeSession
from tests.factories import make_project, make_user
from tests.factories_sessions import Place, make_place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]
TYPED = {
    "name": "gpu", "description": "A hundred devices", "is_public": "no", "scheduler": "drf", "strategy": "dispersed",
    "cpu_overcommit": "2.5", "mem_overcommit": "",
    "ageing_s": "6h", "patience_s": "", "takes_batch": "on", "max_cpu": "8", "max_mem": "64g", "max_devices": "cuda=2",
    "max_lifetime_s": "12h", "usage_half_life_s": "2d", "preemptible_priority": "-5",
    "preemption_after_s": "1h", "preemption_grace_s": "", "max_idle_s": "2h", "min_cpu_percent": "5", "use_rule": "any",
    "use_window_s": "30m", "use_grace_s": "", "ends_idle_batch": "on", "max_extensions": "2", "extension_s": "1h",
    "allows_rdma": "on", "sandbox": "kata",
}  # fmt: skip


@pytest.fixture
def superadmin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def test_a_group_is_made_looked_at_changed_and_deleted(place: Place, superadmin: Client) -> None:
    answer = superadmin.post("/resource-groups/new/", TYPED)
    group = ResourceGroup.objects.get(name="gpu")
    page = f"/resource-groups/{group.pk}/"
    assert answer["Location"] == page
    assert (group.ageing_s, group.patience_s, group.session_types) == (21600, 0, ["batch"])
    assert group.usage_half_life_s == 2 * 86400
    assert (group.preemptible_priority, group.preemption_after_s, group.preemption_grace_s) == (-5, 3600, 0)
    assert group.max_session_slots == {"cpu": 8000, "mem": 64 * 2**30, "cuda": 2000}
    assert (group.is_public, group.max_lifetime_s, group.max_idle_s) == (False, 43200, 7200)
    assert (group.min_cpu_percent, group.min_mem_percent, group.use_rule) == (5, None, "any")
    assert (group.use_window_s, group.use_grace_s, group.ends_idle_batch) == (1800, 3600, True)
    assert (group.max_extensions, group.extension_s) == (2, 3600)
    assert (group.cpu_overcommit, group.mem_overcommit) == (Decimal("2.5"), 1)
    assert (group.allows_rdma, group.allows_gpudirect_storage, group.sandbox) == (True, False, "kata")

    shown = superadmin.get(page).content.decode()
    for words in (
        'value="6h"',
        'value="2h"',
        'value="30m"',
        'value="2.5"',
        'value="cuda=2"',
        "No machines",
        "Percent of the session's allocation. Empty: as policies say.",
        "Nobody but superadmins may use it yet.",
    ):
        assert words in shown
    listed = superadmin.get("/resource-groups/", {"q": "hundred"}).content.decode()
    assert "restricted (grants)" in listed
    assert place.group.name not in listed

    changed = {
        **TYPED,
        "is_public": "yes",
        "max_devices": "",
        "scheduler": "fair_share",
        "usage_half_life_s": "",
    }
    assert superadmin.post(page, changed)["Location"] == page
    group.refresh_from_db()
    assert (group.scheduler, group.usage_half_life_s) == ("fair_share", 7 * 86400)
    assert (group.is_public, group.max_session_slots) == (True, {"cpu": 8000, "mem": 64 * 2**30})
    assert superadmin.post(f"{page}delete/", {"confirm": "other"})["Location"] == page
    assert superadmin.post(f"{page}delete/", {"confirm": "gpu"})["Location"] == "/resource-groups/"
    assert superadmin.get(page).status_code == 404


WRONG: tuple[tuple[str, str], ...] = (
    ("name", "Big One"),
    ("takes_batch", ""),
    ("cpu_overcommit", "0.5"),
    ("mem_overcommit", "11"),
    ("max_cpu", "many"),
    ("max_devices", "cuda"),
    ("max_lifetime_s", "soon"),
    ("scheduler", "luck"),
    ("max_idle_s", "12h"),
    ("max_idle_s", "59s"),
    ("min_cpu_percent", "101"),
    ("use_window_s", "2d"),
    ("use_grace_s", "12h"),
    ("use_rule", "luck"),
    ("extension_s", ""),
)


def test_wrong_input_is_marked_at_its_field(
    superadmin: Client, place: Place, subtests: pytest.Subtests
) -> None:
    for field, wrong in WRONG:
        with subtests.test(str((field, wrong))):
            for address in ("/resource-groups/new/", f"/resource-groups/{place.group.pk}/"):
                answer = superadmin.post(address, {**TYPED, "is_default": "on", field: wrong})
                assert answer.status_code == 422
                assert {field.replace("batch", "interactive")} == set(answer.context["form"].errors)
            assert not ResourceGroup.objects.filter(name="gpu").exists()


def test_limits_that_contradict_each_other_are_said_where_they_stand(
    superadmin: Client, place: Place
) -> None:
    typed = {
        **TYPED,
        "name": place.group.name,
        "is_default": "on",
        "min_cpu_percent": "",
        "max_idle_s": "13h",
    }
    answer = superadmin.post(f"/resource-groups/{place.group.pk}/", typed)
    assert set(answer.context["form"].errors) == {"max_idle_s"}
    shown = answer.content.decode()
    assert "After 12 h every session has ended, so none is idle for 13 h." in shown


def test_a_group_with_machines_says_what_to_do_before_it_is_deleted(place: Place, superadmin: Client) -> None:
    page = f"/resource-groups/{place.group.pk}/"
    answer = superadmin.post(f"{page}delete/", {"confirm": place.group.name}, follow=True).content.decode()
    assert f"has machines: {place.agent.name}." in answer
    assert "Put them into another resource group" in answer


def test_it_is_paused_and_resumed_and_those_who_wait_are_told(
    place: Place, superadmin: Client, browser_of: Browser
) -> None:
    page = f"/resource-groups/{place.group.pk}/"
    assert superadmin.post(f"{page}state/", {"to": "paused"})["Location"] == page
    assert "This group is paused" in superadmin.get(page).content.decode()
    launcher = browser_of(place.owner).get("/sessions/new/").content.decode()
    assert f"{place.group.name} (paused)" in launcher
    superadmin.post(f"{page}state/", {"to": "active"})
    assert superadmin.post(f"{page}state/", {"to": "nonsense"}).status_code == 400
    place.group.refresh_from_db()
    assert place.group.is_active


def test_a_group_without_machines_says_so_where_it_is_chosen(place: Place, browser_of: Browser) -> None:
    service.create_resource_group(actor=SYSTEM, name="empty")
    assert "empty (has no machines)" in browser_of(place.owner).get("/sessions/new/").content.decode()


def test_machines_are_moved_between_groups(place: Place, superadmin: Client) -> None:
    other = service.create_resource_group(actor=SYSTEM, name="other")
    page = f"/resource-groups/{other.pk}/"
    assert superadmin.post(f"{page}agents/", {"agent": place.agent.name})["Location"] == f"{page}#agents"
    place.agent.refresh_from_db()
    assert place.agent.resource_group == other
    told = superadmin.post(f"{page}agents/", {"agent": "absent"}, follow=True).content.decode()
    assert "There is no agent “absent”." in told


def test_what_is_no_name_of_a_machine_is_refused_in_words(place: Place, superadmin: Client) -> None:
    name = "a" * 65
    page = f"/resource-groups/{place.group.pk}/"
    assert superadmin.post(f"{page}agents/", {"agent": name})["Location"] == f"{page}#agents"
    told = superadmin.get(page).content.decode()
    assert "at most 64 characters" in told
    fragment = superadmin.get(page, {"agent": name}, headers={"HX-Request": "true"})
    assert (fragment.status_code, "<option" in fragment.content.decode()) == (200, False)


def test_of_many_machines_the_first_are_shown_and_the_others_are_searched_for(
    place: Place, superadmin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.web.groups.SHOWN_AGENTS", 1)
    second, third = (make_place().agent for _number in range(2))
    service.move_agent(actor=SYSTEM, agent_id=second.pk, group_id=place.group.pk)
    page = f"/resource-groups/{place.group.pk}/"
    shown = superadmin.get(page).content.decode()
    assert "1 of 2 are shown" in shown
    assert 'action="/agents/"' in shown
    assert f'<option value="{third.name}">' in shown
    for typed, offered in ((third.name[-3:].upper(), True), (second.name, False)):
        fragment = superadmin.get(page, {"agent": typed}, headers={"HX-Request": "true"}).content.decode()
        assert (f'<option value="{third.name}">' in fragment) is offered
        assert "<main" not in fragment


@pytest.mark.parametrize("level", ["domain", "project", "user"])
def test_it_is_granted_and_the_grant_revoked(place: Place, superadmin: Client, level: str) -> None:
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_public": False})
    names = {
        "domain": place.project.domain.name,
        "project": f"{place.project.domain.name}/{place.project.name}",
        "user": place.owner.email,
    }
    page = f"/resource-groups/{place.group.pk}/"
    answer = superadmin.post(f"{page}grants/", {"level": level, "grantee": names[level]})
    assert answer["Location"] == f"{page}#grants"
    grant = GroupGrant.objects.get()
    assert grantee.grantee_level(grant.grantee) == level
    assert "Revoke" in superadmin.get(page).content.decode()
    superadmin.post(f"{page}grants/{grant.pk}/revoke/")
    assert not GroupGrant.objects.exists()


def test_a_revoke_says_first_how_many_wait_by_that_grant_alone_and_then_what_comes_of_them(
    place: Place, superadmin: Client
) -> None:
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_public": False})
    of_project, of_person = (
        service.grant_resource_group(actor=SYSTEM, group_id=place.group.pk, grantee=each)
        for each in (place.project, place.owner)
    )
    place.enqueue()
    for _number in range(2):
        place.enqueue(by=make_user(member_of=place.project))
    place.enqueue(by=make_user(member_of=place.project, role=Role.SUPERADMIN))
    page = f"/resource-groups/{place.group.pk}/"
    shown = superadmin.get(page).content.decode()
    asked = {
        each.pk: shown.split(f'id="revoke-{each.pk}"')[1].split("</dialog>")[0]
        for each in (of_project, of_person)
    }
    assert "2 sessions that wait would be held" in asked[of_project.pk]
    assert "would be held" not in asked[of_person.pk]

    told = superadmin.post(f"{page}grants/{of_project.pk}/revoke/", follow=True).content.decode()
    assert "what waits by it is held, and cancelled after a day" in told
    assert ComputeSession.objects.filter(held_for="group_closed").count() == 2


@pytest.mark.parametrize("closed", [{"is_public": "no"}, {"takes_interactive": ""}])
def test_what_shuts_out_who_waits_is_asked_for_once_more(
    place: Place, superadmin: Client, closed: dict[str, str]
) -> None:
    waits = place.enqueue()
    page = f"/resource-groups/{place.group.pk}/"
    open_to_all = {
        "is_public": "yes",
        "takes_interactive": "on",
        "is_default": "on",
        "name": place.group.name,
    }
    typed = {**TYPED, **open_to_all, "description": "As it was"}
    assert superadmin.post(page, typed)["Location"] == page

    closing = {**typed, **closed, "description": "Closed"}
    asked = superadmin.post(page, closing)
    assert asked.status_code == 422
    shown = asked.content.decode()
    assert "1 session that waits would be held" in shown
    assert 'value="Closed"' in shown, "nothing that was typed is lost"
    place.group.refresh_from_db()
    assert place.group.description == "As it was"
    assert place.fresh(waits).held_for == ""

    assert superadmin.post(page, {**closing, "confirm": ""})["Location"] == page
    assert place.fresh(waits).held_for == "group_closed"


@pytest.mark.parametrize(
    "asked",
    [
        {"level": "user", "grantee": "nobody@berth.example"},
        {"level": "domain", "grantee": "absent"},
        {"level": "project", "grantee": "twice"},
        {"level": "project", "grantee": "one@lab"},
        {"level": "project", "grantee": ""},
        {"level": "token", "grantee": "x"},
    ],
)
def test_a_grant_to_nobody_is_refused_at_its_field(place: Place, superadmin: Client, asked: Any) -> None:
    make_project(name="twice"), make_project(name="twice"), make_project(name="onelab")
    answer = superadmin.post(f"/resource-groups/{place.group.pk}/grants/", asked)
    assert answer.status_code == 422
    assert answer.context["grant_form"].errors


def test_monitors_look_and_change_nothing(place: Place, browser_of: Browser) -> None:
    monitor = browser_of(make_user(domain=place.project.domain, role=Role.MONITOR))
    page = f"/resource-groups/{place.group.pk}/"
    shown = monitor.get(page).content.decode()
    assert "<form" not in shown.split("<main", 1)[1].split("</main", 1)[0]
    assert monitor.post(page, TYPED).status_code == 404


def test_the_access_log_leads_to_the_group(place: Place, superadmin: Client) -> None:
    service.update_resource_group(actor=SYSTEM, group_id=place.group.pk, changes={"is_active": False})
    log = superadmin.get("/audit/").content.decode()
    assert "Resource group changed" in log


@pytest.mark.parametrize(
    ("page", "link"), [("", "Resource groups"), ("scheduler/", "Scheduler"), ("weights/", "Resource groups")]
)
def test_the_menu_says_which_of_a_groups_pages_one_is_on(
    place: Place, superadmin: Client, page: str, link: str
) -> None:
    shown = superadmin.get(f"/resource-groups/{place.group.pk}/{page}").content.decode()
    active = re.findall(r'class="menu-link" href="[^"]*" title="([^"]*)" aria-current="page"', shown)
    assert active == [link]
