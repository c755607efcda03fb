"""Pages of presets."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import User
from common.actors import SYSTEM
from sessions_app.models import ResourcePreset
from sessions_app.session_templates.presets import create_preset
from tests.factories import make_project, make_user
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
GIB = 2**30
Browser = Callable[[User], Client]
LIST = "/sessions/presets/"


@pytest.fixture
def superadmin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def typed(**changes: Any) -> dict[str, Any]:
    return {"name": "A100, quarter", "place": "everybody", "cpu": "16", "mem": "120g", "devices": "cuda=0.25",
            "shm": "8g", **changes}  # fmt: skip


def keep(name: str = "usual", sharing: str = "everybody", **more: Any) -> ResourcePreset:
    return create_preset(actor=SYSTEM, name=name, sharing=sharing, resources={"cpu": 1, "mem": "1g"}, **more)


def words(client: Client, address: str = LIST) -> str:
    return client.get(address).content.decode()


def test_one_is_made_offered_changed_and_deleted(
    place: Place, superadmin: Client, browser_of: Browser
) -> None:
    assert "No presets yet" in words(superadmin)
    assert superadmin.post(LIST, typed())["Location"] == LIST
    made = ResourcePreset.objects.get()
    assert made.slots == {"cpu": 16000, "mem": 120 * GIB, "cuda": 250}
    assert made.shm_bytes == 8 * GIB
    owner = browser_of(place.owner)
    for told in (words(superadmin), words(owner), words(owner, "/sessions/new/")):
        assert "A100, quarter" in told
    assert "8 GiB of it shared memory" in words(owner)

    page = f"{LIST}{made.pk}/"
    shown = superadmin.get(page).context["form"].initial
    assert shown == {"name": made.name, "cpu": "16", "mem": "120g", "devices": "cuda=0.25", "shm": "8g"}
    assert superadmin.post(page, typed(devices="cuda.mem=20g, cuda.cores=30"))["Location"] == LIST
    assert superadmin.get(page).context["form"].initial["devices"] == "cuda.mem=20g, cuda.cores=30"
    assert superadmin.post(page, typed(name="Quarter", devices="", shm=""))["Location"] == LIST
    made.refresh_from_db()
    assert (made.name, dict(made.slots), made.shm_bytes) == (
        "Quarter",
        {"cpu": 16000, "mem": 120 * GIB},
        None,
    )

    assert superadmin.post(f"{page}delete/")["Location"] == LIST
    assert not ResourcePreset.objects.exists()


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"name": ""}, "name"),
    ({"name": "x" * 200}, "name"),
    ({"cpu": ""}, "cpu"),
    ({"cpu": "many"}, "cpu"),
    ({"cpu": "-1"}, "cpu"),
    ({"mem": "64 parrots"}, "mem"),
    ({"devices": "cuda"}, "devices"),
    ({"devices": "CUDA!=1"}, "devices"),
    ({"devices": "cuda.mem=20x"}, "devices"),
    ({"devices": "cuda.cores=101"}, "devices"),
    ({"devices": "cuda=-1"}, "devices"),
    ({"shm": "999g"}, "shm"),
    ({"place": ""}, "place"),
    ({"place": "team"}, "place"),
    ({"place": "project:none/none"}, "place"),
    ({"place": "domain:none"}, "place"),
)


def test_what_is_wrong_is_marked_and_nothing_typed_is_lost(
    superadmin: Client, subtests: pytest.Subtests
) -> None:
    for changes, field in WRONG:
        with subtests.test(f"new {changes}"):
            sent = typed(**changes)
            answer = superadmin.post(LIST, sent)
            assert (answer.status_code, set(answer.context["form"].errors)) == (422, {field})
            assert f'value="{sent["devices"]}"' in answer.content.decode()
    assert not ResourcePreset.objects.exists()

    made = keep()
    for changes, field in ((changes, field) for changes, field in WRONG if "place" not in changes):
        with subtests.test(f"changed {changes}"):
            answer = superadmin.post(f"{LIST}{made.pk}/", typed(**changes))
            assert (answer.status_code, set(answer.context["form"].errors)) == (422, {field})


def test_a_name_that_is_there_already_is_said(superadmin: Client) -> None:
    keep("A100, quarter")
    answer = superadmin.post(LIST, typed())
    assert answer.status_code == 422
    assert "Used by a preset there already." in answer.content.decode()


def test_administrators_are_offered_their_own_places_alone(place: Place, browser_of: Browser) -> None:
    project, domain = place.project, place.project.domain
    other = make_project(domain=domain)
    here, there = (f"project:{domain.name}/{each.name}" for each in (project, other))
    admin = browser_of(make_user(admin_of=project))
    offered = admin.get(LIST).context["form"].fields["place"].choices
    assert [value for value, _words in offered] == ["own", here]
    assert admin.post(LIST, typed(place=here))["Location"] == LIST
    assert admin.post(LIST, typed(place=there)).status_code in (403, 422)
    assert admin.post(LIST, typed(place="everybody")).status_code == 403

    domain_admin = browser_of(make_user(domain=domain, role=Role.DOMAIN_ADMIN))
    offered = [value for value, _words in domain_admin.get(LIST).context["form"].fields["place"].choices]
    assert set(offered) == {"own", here, there, f"domain:{domain.name}"}
    assert ResourcePreset.objects.count() == 1


def test_people_see_what_they_are_offered_and_change_but_their_own(place: Place, browser_of: Browser) -> None:
    mine, other = keep(sharing="project", place=place.project.name), keep("for all")
    owner = browser_of(place.owner)
    told = words(owner)
    assert "usual" in told
    assert "for all" in told
    assert "Change" not in told
    for preset in (mine, other):
        assert owner.get(f"{LIST}{preset.pk}/").status_code == 403
        assert owner.post(f"{LIST}{preset.pk}/delete/").status_code == 403
    assert owner.post(LIST, typed(name="mine", place="own"))["Location"] == LIST
    told = words(owner)
    assert "Only you" in told
    own = ResourcePreset.objects.get(owner=place.owner)
    assert owner.post(f"{LIST}{own.pk}/", typed(name="still mine"))["Location"] == LIST
    stranger = browser_of(make_user())
    assert "usual" not in words(stranger)
    assert stranger.get(f"{LIST}{mine.pk}/").status_code == 404
