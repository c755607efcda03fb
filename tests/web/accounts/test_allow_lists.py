"""Allow-lists of policies on pages and over REST."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import ResourcePolicy, User
from images.models import ContainerImage
from tests.factories import api_client, make_project, make_user
from tests.factories_folders import make_storage_host
from tests.factories_limits import limit
from tests.factories_sessions import Place, make_place
from vfolders.models import StorageHost, VFolder

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]
LISTS = ("allowed_registries", "allowed_images", "allowed_storage_hosts")


@pytest.fixture
def place() -> Place:
    place = make_place()
    ContainerImage.objects.create(reference="ghcr.io/lab/torch:2", title="Torch", architecture="x86_64")
    return place


@pytest.fixture
def admin(browser_of: Browser) -> Client:
    return browser_of(make_user(role=Role.SUPERADMIN))


def lists_of(policy: ResourcePolicy) -> tuple[Any, ...]:
    policy.refresh_from_db()
    return tuple(getattr(policy, name) for name in LISTS)


def test_a_policy_is_written_with_lists_and_shows_whom_they_touch(place: Place, admin: Client) -> None:
    typed = {"name": "lab", "allowed_registries": "ghcr.io/lab\nlocal", "allowed_images": "none"}
    assert admin.post("/policies/new/", typed).status_code == 302
    policy = ResourcePolicy.objects.get(name="lab")
    assert lists_of(policy) == (["ghcr.io/lab", "local"], [], None)

    page = f"/policies/{policy.pk}/"
    shown = admin.get(page).content.decode()
    assert "ghcr.io/lab\nlocal</textarea>" in shown
    assert "none</textarea>" in shown
    limit(place.project)
    place.project.policy = policy
    place.project.save()
    typed |= {"allowed_images": "berth/*, ghcr.io/lab/*", "allowed_storage_hosts": "fast"}
    asked = admin.post(page, typed)
    words = asked.content.decode()
    assert "Images: none → berth/*, ghcr.io/lab/*" in words
    assert "Storage hosts of new folders: all → fast" in words
    assert "Registries of images:" not in words.partition("→")[0].partition('id="impact"')[2]
    assert "Sessions that run go on" in words
    assert lists_of(policy)[1] == []
    assert admin.post(page, {**typed, "sure": asked.context["sure"]}).status_code == 302
    assert lists_of(policy) == (["ghcr.io/lab", "local"], ["berth/*", "ghcr.io/lab/*"], ["fast"])
    assert "Images: berth/*, ghcr.io/lab/*" in admin.get("/policies/").content.decode()


def test_what_is_no_list_is_marked_at_its_field(admin: Client) -> None:
    answer = admin.post("/policies/new/", {"name": "lab", "allowed_registries": "https://ghcr.io"})
    assert answer.status_code == 422
    assert "is no registry. Write it like ghcr.io" in answer.content.decode()


def test_a_list_names_storage_hosts_that_there_are(place: Place, admin: Client, tmp_path: Path) -> None:
    make_storage_host(tmp_path)
    typed = {"name": "lab", "allowed_storage_hosts": "nosuchhost"}
    answer = admin.post("/policies/new/", typed)
    assert answer.status_code == 422
    assert "There is no storage host “nosuchhost”. There are: local." in answer.content.decode()
    api = api_client(make_user(role=Role.SUPERADMIN))
    body = {"name": "lab", "allowed_storage_hosts": ["local", "nosuchhost"]}
    assert list(api.post("/api/v1/policies/", body, format="json").json()["fields"]) == [LISTS[2]]

    made = api.post("/api/v1/policies/", {**body, "allowed_storage_hosts": ["local"]}, format="json").json()
    StorageHost.objects.update(name="fast")
    address = f"/api/v1/policies/{made['id']}/"
    assert api.patch(address, {"name": "lab-2"}, format="json").status_code == 200, "a host that is gone"


def test_lists_are_written_and_read_over_rest(place: Place) -> None:
    api = api_client(make_user(role=Role.SUPERADMIN))
    body = {"name": "lab", "allowed_images": [], "allowed_storage_hosts": ["fast", "fast"]}
    made = api.post("/api/v1/policies/", body, format="json").json()
    assert [made[name] for name in LISTS] == [None, [], ["fast"]]
    address = f"/api/v1/policies/{made['id']}/"
    assert api.patch(address, {"allowed_images": None}, format="json").json()["allowed_images"] is None
    for wrong in (["a b"], "python", [7], ["x"] * 101):
        answer = api.patch(address, {"allowed_images": wrong}, format="json")
        assert (answer.status_code, next(iter(answer.json()["fields"]))[:14]) == (400, "allowed_images"), (
            wrong
        )


def test_effective_lists_say_whose_they_are(place: Place, browser_of: Browser) -> None:
    limit(place.project, allowed_images=["python"])
    limit(place.owner, allowed_images=[])
    found = api_client(place.owner).get("/api/v1/limits/", {"project": place.project.name}).json()
    assert [(each["list"], each["level"], each["entries"]) for each in found["allow_lists"]] == [
        ("images", "project", ["python"]), ("images", "user", []),
    ]  # fmt: skip
    profile = browser_of(place.owner).get("/profile/").content.decode()
    assert "<code>python</code>" in profile
    assert "none allowed" in profile
    page = f"/sessions/people/{place.owner.pk}/limits/"
    asked = {"project": place.project.name, "image": place.image.reference, "cpu": "1", "mem": "1g"}
    seen = browser_of(make_user(admin_of=place.project)).get(page, asked)
    assert [(row["who"], row["entries"]) for row in seen.context["lists"]] == [
        (f"The project “{place.project.name}”", ("python",)), (place.owner.email, ()),
    ]  # fmt: skip
    assert len(seen.context["verdict"]["sentences"]) == 2


def test_the_launcher_closes_what_the_chosen_project_does_not_allow(
    place: Place, browser_of: Browser
) -> None:
    limit(place.project, allowed_registries=["ghcr.io"])
    free = make_project(domain=place.project.domain)
    free.memberships.create(user=place.owner)
    browser = browser_of(place.owner)

    def cards(project: str) -> dict[str, tuple[bool, bool]]:
        page = browser.get("/sessions/new/", {"project": project})
        return {
            card["image"].reference: (bool(card["objection"]), card["is_chosen"])
            for card in page.context["parts"]["images"]
        }

    own = place.image.reference
    assert cards(place.project.name) == {own: (True, False), "ghcr.io/lab/torch:2": (False, True)}
    assert {is_closed for is_closed, _chosen in cards(free.name).values()} == {False}
    typed = {"name": "x", "project": place.project.name, "image": own, "cpu": "1", "mem": "1g"}
    summary = browser.post("/sessions/new/summary/", typed).content.decode()
    assert "may use images from ghcr.io alone" in summary
    assert "Superadmins change the policy" in summary
    refused = browser.post("/sessions/new/", typed)
    assert refused.status_code == 422
    assert f'value="{own}" checked' in refused.content.decode(), "what was chosen stays"


def test_a_long_list_of_images_closes_its_choices(place: Place, browser_of: Browser) -> None:
    for number in range(6):
        ContainerImage.objects.create(reference=f"berth/more:{number}", architecture="x86_64")
    limit(place.owner, allowed_images=["ghcr.io/*"])
    page = browser_of(place.owner).get("/sessions/new/").content.decode()
    assert 'value="berth/more:1" data-label="berth/more:1" disabled>berth/more:1 — not allowed here' in page
    assert 'value="ghcr.io/lab/torch:2" data-label="Torch">Torch<' in page
    assert 'name="image" class="form-select"' in " ".join(page.split())


def test_images_say_whether_one_may_use_them(place: Place, browser_of: Browser) -> None:
    limit(place.project, allowed_images=["ghcr.io/lab/torch"])
    api = api_client(place.owner)

    def allowed(**asked: str) -> dict[str, bool]:
        found = api.get("/api/v1/images/", asked).json()["results"]
        return {image["reference"]: image["is_allowed"] for image in found}

    assert set(allowed().values()) == {True}
    named = {"project": place.project.name}
    assert allowed(**named) == {place.image.reference: False, "ghcr.io/lab/torch:2": True}
    assert api.get("/api/v1/images/", {"project": "absent\x01"}).status_code == 404
    sentence = f"The project “{place.project.name}” may use the images ghcr.io/lab/torch alone"
    browser = browser_of(place.owner)
    for page in ("/images/", "/"):
        assert browser.get(page).content.decode().count(sentence) == 1


def test_a_new_folder_chooses_among_hosts_where_there_are_several(
    place: Place, browser_of: Browser, tmp_path: Path
) -> None:
    make_storage_host(tmp_path)
    browser = browser_of(place.owner)
    assert 'name="host"' not in browser.get("/data/").content.decode()
    (tmp_path / "fast").mkdir()
    StorageHost.objects.create(name="fast", config={"root": str(tmp_path / "fast")})
    assert '<option value="fast">' in browser.get("/data/").content.decode()
    limit(place.project, allowed_storage_hosts=["fast"])
    typed = {"name": "data", "project": place.project.name, "host": "local"}
    refused = browser.post("/data/", typed)
    assert (refused.status_code, list(refused.context["form"].errors)) == (422, ["host"])
    assert "may create folders on fast alone, not on “local”" in refused.content.decode()
    for number, host in enumerate(("", "fast")):
        assert browser.post("/data/", {**typed, "name": f"data-{number}", "host": host}).status_code == 302
    assert set(VFolder.objects.values_list("host__name", flat=True)) == {"fast"}
