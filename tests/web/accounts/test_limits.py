"""Limits on the profile page and in Django admin."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.credentials.keypairs import create_keypair
from accounts.limits import default_policy
from accounts.models import KeyPair, ResourcePolicy, User
from common.models import AuditEntry
from tests.factories import actor_for, make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]
POLICIES = "/admin/accounts/resourcepolicy/"


@pytest.fixture
def admin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def form(**changes: object) -> dict[str, object]:
    names = [field.name for field in ResourcePolicy._meta.fields if field.name.startswith("max_")]
    return {**dict.fromkeys(names, ""), "use_rule": "any", "name": "small", **changes}


def test_the_profile_shows_each_limit_what_is_used_and_who_sets_it(place: Place, browser_of: Browser) -> None:
    limit(place.project, max_sessions=4, max_slots={"cpu": 4000, "cuda": 0}, max_lifetime_s=5400)
    place.run(resources={"cpu": 2, "mem": "1g"})

    page = browser_of(place.owner).get("/profile/").content.decode()

    for words in (
        "Live sessions",
        "1 of 4",
        "CPU in sessions",
        "none allowed",
        "2 cores of 4 cores",
        "at most 1 h 30 min",
    ):
        assert words in page
    assert f"The project “{place.project.name}”, by the policy" in page


def test_nothing_limited_is_said_so(place: Place, browser_of: Browser) -> None:
    User.objects.update(policy=None)
    assert "Nothing is limited for you here." in browser_of(place.owner).get("/profile/").content.decode()


def launch(place: Place, **changes: object) -> dict[str, object]:
    request = place.request()
    shared = {name: request[name] for name in ("name", "project", "image", "resource_group")}
    typed = {"type": "interactive", "cpu": "1", "mem": "1g", "shm": "64m", "command": "", "timeout_s": ""}
    return {**shared, **typed, "environment": "", **changes}


def test_the_launcher_says_every_limit_that_is_hit_at_its_field_or_on_top(
    place: Place, browser_of: Browser
) -> None:
    limit(place.project, max_sessions=0)
    limit(place.owner, max_sessions=0, max_slots={"cpu": 500})
    browser, form = browser_of(place.owner), launch(place)
    page = browser.post("/sessions/new/", form)
    assert page.status_code == 422
    summary = browser.post("/sessions/new/summary/", form)
    for text in (page.content.decode(), summary.content.decode()):
        assert "has reached its limit of live sessions (0 of 0)." in text
    for words in (
        f"The project “{place.project.name}” has reached",
        "Your account has reached",
        "Your account may have at most 0.5 cores allocated",
    ):
        assert words in page.content.decode()


def test_the_launcher_says_whose_sessions_are_waited_for(place: Place, browser_of: Browser) -> None:
    limit(place.project, max_slots={"cpu": 1000})
    place.run()
    said = browser_of(place.owner).post("/sessions/new/summary/", launch(place)).content.decode()
    sentence = f"It would wait. Waits for 1 core: sessions of the project “{place.project.name}” have 1 core"
    assert sentence in said.replace("\N{NO-BREAK SPACE}", " ")


def test_a_superadmin_writes_policies_in_the_words_of_people(admin: Client) -> None:
    answer = admin.post(
        f"{POLICIES}add/",
        form(max_slots="cpu=16, mem=64g cuda=0", max_sessions="5", max_pending_slots="cpu=0.5"),
    )
    assert answer.status_code == 302
    policy = ResourcePolicy.objects.get(name="small")
    assert policy.max_slots == {"cpu": 16000, "mem": 64 * 2**30, "cuda": 0}
    assert (policy.max_pending_slots, policy.max_sessions, policy.max_folders) == ({"cpu": 500}, 5, None)

    page = admin.get(f"{POLICIES}{policy.pk}/change/").content.decode()
    assert "Percent of what is allocated to a session" in page
    assert "batch sessions only where their resource group ends them for low utilization" in page
    assert 'value="cpu=16, mem=64g, cuda=0"' in page
    admin.post(
        f"{POLICIES}{policy.pk}/change/",
        form(max_slots="cpu=16, mem=64g, cuda=0", max_sessions="6", min_cpu_percent="30"),
    )
    entry = AuditEntry.objects.get(action="accounts.update_policy")
    assert entry.changes == {
        "max_sessions": [5, 6],
        "min_cpu_percent": [None, 30],
        "max_pending_slots": [{"cpu": 500}, {}],
    }


@pytest.mark.parametrize("wrong", ["cpu", "cpu=much", "mem=-1", "CPU=1", "=1", "mem=9999999p"])
def test_amounts_that_are_none_are_refused_at_their_field(admin: Client, wrong: str) -> None:
    answer = admin.post(f"{POLICIES}add/", form(max_slots=wrong))
    assert answer.status_code == 200
    assert "max_slots" in answer.context["adminform"].form.errors
    assert not ResourcePolicy.objects.filter(name="small").exists()


def test_assigning_a_policy_is_in_the_access_log_with_both_names(place: Place, admin: Client) -> None:
    policy = ResourcePolicy.objects.create(name="small", max_sessions=1)
    keypair, _token = create_keypair(actor=actor_for(place.owner), name="robot")
    domain, project, owner = place.project.domain, place.project, place.owner
    pages = {
        f"/admin/accounts/domain/{domain.pk}/change/": {"name": domain.name, "is_active": "on"},
        f"/admin/accounts/project/{project.pk}/change/": {
            "name": project.name,
            "is_active": "on",
            "memberships-TOTAL_FORMS": "0",
            "memberships-INITIAL_FORMS": "0",
        },
        f"/admin/accounts/user/{owner.pk}/change/": {
            "email": owner.email,
            "domain": domain.pk,
            "role": owner.role,
            "is_active": "on",
        },
        f"/admin/accounts/keypair/{keypair.pk}/change/": {},
    }
    for address, fields in pages.items():
        answer = admin.post(address, {**fields, "policy": policy.pk})
        assert answer.status_code == 302, answer.context["errors"]

    for target in (domain, project, owner, KeyPair.objects.get(pk=keypair.pk)):
        target.refresh_from_db()
        assert target.policy == policy
    entries = AuditEntry.objects.filter(action="accounts.assign_policy")
    assert {entry.target_type: entry.changes["policy"] for entry in entries} == {
        "accounts.domain": [None, "small"],
        "accounts.project": [None, "small"],
        "accounts.user": ["default", "small"],
        "accounts.keypair": [None, "small"],
    }
    assert "1 domains, 1 projects, 1 users, 1 tokens" in admin.get(POLICIES).content.decode()


def test_a_policy_in_use_is_not_deleted(place: Place, admin: Client) -> None:
    used, idle = limit(place.project), ResourcePolicy.objects.create(name="idle")
    assert "Cannot delete" in admin.post(f"{POLICIES}{used.pk}/delete/", {"post": "yes"}).content.decode()
    admin.post(f"{POLICIES}{idle.pk}/delete/", {"post": "yes"})
    assert set(ResourcePolicy.objects.all()) == {used, default_policy()}
    User.objects.update(policy=None)
    admin.post(f"{POLICIES}{default_policy().pk}/delete/", {"post": "yes"})
    assert make_user().policy == default_policy()
    assert AuditEntry.objects.filter(action="accounts.delete_policy", target_label="idle").exists()


def test_several_are_deleted_at_once(admin: Client) -> None:
    ids = [ResourcePolicy.objects.create(name=name).pk for name in ("one", "two")]
    chosen = {"action": "delete_selected", "_selected_action": ids, "post": "yes"}
    admin.post(POLICIES, chosen)
    assert not ResourcePolicy.objects.filter(pk__in=ids).exists()
