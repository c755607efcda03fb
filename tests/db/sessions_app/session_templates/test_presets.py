"""Presets of resources, and sessions that use them."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction
from django.test import Client

from accounts.core.roles import Role
from accounts.models import Membership, User
from agents.resource_groups import service
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput, NotFound, PermissionDenied
from sessions_app.models import ComputeSession, ResourcePreset
from sessions_app.session_templates.presets import (
    change_preset,
    create_preset,
    delete_preset,
    offered_presets,
    visible_presets,
)
from sessions_app.session_templates.quick_start import quick_slots, quick_start_session
from sessions_app.session_templates.templates import change_template, create_template, delete_template
from sessions_app.web.forms import LauncherForm
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import Place
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
Browser = Callable[[User], Client]
SIZE = {"cpu": 1, "mem": "1g", "shm": "256m"}


def keep(name: str = "usual", sharing: str = "everybody", **changes: Any) -> ResourcePreset:
    return create_preset(actor=SYSTEM, **{"name": name, "sharing": sharing, "resources": SIZE, **changes})


def admin_of(place: Place) -> User:
    return make_user(admin_of=place.project)


def test_each_kind_of_administrator_makes_presets_for_their_own(place: Place) -> None:
    domain_admin = make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN)
    superadmin = make_user(domain=place.project.domain, role=Role.SUPERADMIN)
    may = {
        "project": (admin_of(place), domain_admin, superadmin),
        "domain": (domain_admin, superadmin),
        "everybody": (superadmin,),
    }
    names = {"project": place.project.name, "domain": place.project.domain.name, "everybody": ""}
    for number, maker in enumerate([place.owner, *may["project"]]):
        for sharing, makers in may.items():
            asked: Any = {
                "actor": actor_for(maker), "name": f"size-{number}", "sharing": sharing, "place": names[sharing],
                "resources": SIZE,
            }  # fmt: skip
            if maker in makers:
                assert create_preset(**asked).sharing == sharing
            else:
                with pytest.raises(PermissionDenied):
                    create_preset(**asked)


def test_presets_of_others_are_not_there(place: Place) -> None:
    preset = keep(sharing="project", place=place.project.name)
    stranger = make_user(domain=make_project().domain, role=Role.DOMAIN_ADMIN)
    assert preset in visible_presets(actor_for(place.owner))
    assert not visible_presets(actor_for(stranger)).exists()
    for act in (
        lambda: change_preset(actor=actor_for(stranger), preset_id=preset.pk, changes={"name": "x"}),
        lambda: delete_preset(actor=actor_for(stranger), preset_id=preset.pk),
    ):
        with pytest.raises(NotFound):
            act()


def test_own_presets_are_hidden_from_others(place: Place) -> None:
    actor, other = actor_for(place.owner), actor_for(make_user(member_of=place.project))
    mine = create_preset(actor=actor, name="mine", sharing="own", resources=SIZE)
    create_preset(actor=other, name="mine", sharing="own", resources=SIZE)
    assert [each.pk for each in offered_presets(actor, place.project)] == [mine.pk]
    with pytest.raises(NotFound):
        change_preset(actor=other, preset_id=mine.pk, changes={"name": "yours"})
    with pytest.raises(Conflict):
        create_preset(actor=actor, name="mine", sharing="own", resources=SIZE)
    superadmin = actor_for(make_user(role=Role.SUPERADMIN))
    assert not visible_presets(superadmin).filter(sharing="own").exists()

    assert change_preset(actor=actor, preset_id=mine.pk, changes={"name": "small"}).name == "small"
    delete_preset(actor=actor, preset_id=mine.pk)
    assert not visible_presets(actor).exists()


def test_own_presets_are_for_choosing_and_start_nothing_by_themselves(place: Place) -> None:
    actor = actor_for(place.owner)
    create_preset(actor=actor, name="tiny", sharing="own", resources={"cpu": "0.1", "mem": "64m"})
    assert quick_slots(place.image, offered_presets(actor, place.project)) == quick_slots(place.image)
    sizes = [size.title for size in LauncherForm(actor=actor).sizes]
    assert sizes[-1] == "tiny"
    assert sizes[0] != "tiny"


def test_one_that_is_deleted_at_the_same_moment_is_not_there(place: Place) -> None:
    preset = keep()
    template, _left_out = create_template(actor=SYSTEM, name="x", sharing="everybody", body=place.request())
    changes = {"name": "other"}
    for delete, change in (
        (
            lambda: delete_preset(actor=SYSTEM, preset_id=preset.pk),
            lambda: change_preset(actor=SYSTEM, preset_id=preset.pk, changes=changes),
        ),
        (
            lambda: delete_template(actor=SYSTEM, template_id=template.pk),
            lambda: change_template(actor=SYSTEM, template_id=template.pk, changes=changes),
        ),
    ):
        with ThreadPoolExecutor(1) as pool:
            with transaction.atomic():
                delete()
                changed = pool.submit(_closing, change)
                wait_until(_somebody_waits)
            with pytest.raises(NotFound):
                changed.result(timeout=30)


def _closing(act: Callable[[], object]) -> object:
    try:
        return act()
    finally:
        connections.close_all()


def _somebody_waits() -> bool:
    """Whether a connection of this database waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")  # else it shows the first look of the transaction
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def test_those_of_another_project_of_ones_own_are_not_offered(place: Place) -> None:
    other = make_project(domain=place.project.domain)
    Membership.objects.create(project=other, user=place.owner)
    keep("here", "project", place=place.project.name)
    keep("there", "project", place=other.name)
    keep("all", resources={"cpu": 2, "mem": "1g"})
    offered = offered_presets(actor_for(place.owner), place.project)
    assert [preset.name for preset in offered] == ["here", "all"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"sharing": "team"}, "sharing"),
        ({"resources": {"cpu": 0, "mem": "1g"}}, "resources.cpu"),
        ({"resources": {"cpu": 1}}, "resources.mem"),
        ({"resources": {"cpu": 1, "mem": "1g", "shm": "2g"}}, "resources.shm"),
    ],
)
def test_wrong_sizes_are_refused_at_their_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        keep(**changes)
    assert field in refusal.value.fields


def test_a_name_stands_once_in_a_place_for_the_database_too(place: Place) -> None:
    keep()
    with pytest.raises(Conflict):
        keep()
    keep(sharing="project", place=place.project.name)
    with pytest.raises(IntegrityError), transaction.atomic():
        ResourcePreset.objects.create(name="bad", sharing="project", slots={})


def cards(page: str) -> list[str]:
    return [part.split("</strong>")[0].rsplit("<strong>")[-1] for part in page.split('name="size"')[1:]]


def test_the_launcher_offers_presets_before_its_own_sizes(place: Place, browser_of: Browser) -> None:
    keep("Lab", "project", place=place.project.name)
    assert cards(browser_of(place.owner).get("/sessions/new/").content.decode())[:2] == ["Lab", "Small"]


def test_presets_for_everybody_take_the_place_of_its_own_sizes(place: Place, browser_of: Browser) -> None:
    keep("Desk")
    browser = browser_of(place.owner)
    assert cards(browser.get("/sessions/new/").content.decode()) == ["Desk", "Custom"]
    assert "Large" in cards(browser.get("/sessions/new/?size=large").content.decode())


def test_a_session_of_a_preset_has_all_that_it_says(place: Place, browser_of: Browser) -> None:
    preset = keep(resources={"cpu": 1, "mem": "1g", "shm": "256m"})
    typed = {
        "name": "work", "project": place.project.name, "image": place.image.reference, "type": "interactive",
        "size": f"preset-{preset.pk}", "cpu": "64", "mem": "500g", "shm": "64m", "personal_files": "mine",
        "after_when": "success", "priority": "0", "max_retries": "0",
    }  # fmt: skip
    answer = browser_of(place.owner).post("/sessions/new/", typed)
    session = ComputeSession.objects.get(name="work")
    assert answer["Location"] == f"/sessions/{session.pk}/"
    assert (session.requested_slots, session.shm_bytes) == ({"cpu": 1000, "mem": 2**30}, 256 * 2**20)


def objections(page: str) -> dict[str, str]:
    parts = page.split('data-objection="')[1:]
    return {part.split('"')[0]: part.split(">", 1)[1].split("<")[0] for part in parts}


def test_presets_that_do_not_fit_say_why(place: Place, browser_of: Browser) -> None:
    usual, device = keep(), keep("device", resources={"cpu": 1, "mem": "1g", "cuda": 1})
    browser = browser_of(place.owner)
    told = objections(browser.get("/sessions/new/").content.decode())
    assert told[f"preset-{usual.pk}"] == ""
    assert told[f"preset-{device.pk}"] == f"No machine of “{place.group.name}” is that large"

    limit(place.owner, max_slots={"cpu": 500})
    told = objections(browser.get("/sessions/new/").content.decode())
    assert told[f"preset-{usual.pk}"] == "More than your limits allow"
    service.update_resource_group(
        actor=SYSTEM, group_id=place.group.pk, changes={"max_session_slots": {"cpu": 500}}
    )
    told = objections(browser.get("/sessions/new/").content.decode())
    assert told[f"preset-{usual.pk}"] == "More than this resource group gives"


def test_names_of_presets_are_text_wherever_they_stand(place: Place, browser_of: Browser) -> None:
    keep('<b>"x" & y')
    page = browser_of(place.owner).get("/sessions/new/").content.decode()
    assert "<b>&quot;x" not in page
    assert "&lt;b&gt;&quot;x&quot; &amp; y" in page
    fields = page.split('data-size-fields="')[1].split('"')[0].replace("&quot;", '"')
    assert json.loads(fields) == {"cpu": "1", "mem": "1g", "shm": "256m"}


def test_a_quick_start_takes_the_smallest_preset_that_is_enough(place: Place, browser_of: Browser) -> None:
    keep("tiny", resources={"cpu": 0.5, "mem": "256m"})
    keep("device", resources={"cpu": 1, "mem": "512m", "cuda": 1})
    keep("desk", resources={"cpu": 1, "mem": "512m"})
    place.image.min_slots = {"cpu": 1000, "mem": 2**29}
    offered = offered_presets(actor_for(place.owner), place.project)
    assert dict(quick_slots(place.image, offered)) == {"cpu": 1000, "mem": 2**29}
    place.image.min_slots = {"cpu": 2000}
    assert dict(quick_slots(place.image, offered)) == {"cpu": 2000, "mem": 2 * 2**30}
    assert "256 MiB" in browser_of(place.owner).get("/").content.decode()


@pytest.mark.parametrize(
    "size", [{"cpu": 64, "mem": "512g"}, {"cpu": 8, "mem": "30g"}, {"cpu": 1, "mem": "3g"}]
)
def test_no_preset_makes_a_quick_start_larger(place: Place, size: dict[str, Any], tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    keep("big", "project", place=place.project.name, resources=size)
    session = quick_start_session(actor=actor_for(place.owner), image_reference=place.image.reference)
    assert session.requested_slots == {"cpu": 1000, "mem": 2 * 2**30}
