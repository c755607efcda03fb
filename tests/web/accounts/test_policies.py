"""Pages of resource policies."""

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.core.roles import Role
from accounts.models import ResourcePolicy, User
from accounts.policies.service import create_policy
from accounts.web.policies.policies import limit_words
from common.actors import SYSTEM
from tests.factories import make_user
from tests.factories_limits import limit
from tests.factories_sessions import Place

pytestmark = pytest.mark.django_db
Browser = Callable[[User], Client]


@pytest.fixture
def governor(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.DOMAIN_ADMIN))


@pytest.fixture
def superadmin(place: Place, browser_of: Browser) -> Client:
    return browser_of(make_user(domain=place.project.domain, role=Role.SUPERADMIN))


def test_limits_are_written_in_the_words_of_people(governor: Client) -> None:
    typed = {
        "name": "small", "max_sessions": "3", "max_lifetime_s": "1d 12h", "max_slots_cpu": "0.5",
        "max_slots_mem": "64g", "max_slots_devices": "cuda=2", "max_priority": "20",
        "max_folder_bytes": "500g",
    }  # fmt: skip
    answer = governor.post("/policies/new/", typed)
    policy = ResourcePolicy.objects.get(name="small")
    assert answer["Location"] == f"/policies/{policy.pk}/"
    assert (policy.max_sessions, policy.max_lifetime_s, policy.max_folders) == (3, 129600, None)
    assert policy.max_priority == 20
    assert policy.max_folder_bytes == 500 * 2**30
    assert policy.max_slots == {"cpu": 500, "mem": 64 * 2**30, "cuda": 2000}

    listed = governor.get("/policies/").content.decode()
    assert "Live sessions: 3" in listed
    assert "Size of folders: 500 GiB" in listed
    copy = governor.get("/policies/new/", {"from": policy.pk}).content.decode()
    for words in ('value="small copy"', 'value="64g"', 'value="36h"', 'value="cuda=2"', 'value="0.5"'):
        assert words in copy


def test_how_much_sessions_have_to_use_is_written_shown_and_cleared(
    place: Place, governor: Client, superadmin: Client
) -> None:
    typed = {
        "name": "busy", "min_cpu_percent": "30", "min_device_mem_percent": "5", "use_window_s": "30m", "use_grace_s": "1h",
    }  # fmt: skip
    governor.post("/policies/new/", typed)
    policy = ResourcePolicy.objects.get(name="busy")
    assert (policy.min_cpu_percent, policy.min_mem_percent, policy.min_device_mem_percent) == (30, None, 5)
    assert (policy.use_window_s, policy.use_grace_s, policy.use_rule) == (1800, 3600, "any")
    listed = governor.get("/policies/").content.decode()
    assert "Minimum CPU utilization: 30 %, Minimum accelerator memory utilization: 5 %" in listed
    page = governor.get(f"/policies/{policy.pk}/").content.decode()
    for words in (
        'value="30"', 'value="30m"', 'value="1h"', "Low utilization",
        "Running sessions end for it as well", "0 forbids, in the fields that take it",
    ):  # fmt: skip
        assert words in page

    together = {**typed, "use_rule": "all"}
    assert governor.post(f"/policies/{policy.pk}/", together).status_code == 302
    page = governor.get(f"/policies/{policy.pk}/").content.decode()
    assert '<option value="all" selected>all of them are below</option>' in page
    policy.refresh_from_db()
    for words in (
        "Minimum CPU utilization: 30 % or another",
        "accelerator memory utilization: 5 % or another",
    ):
        assert words in limit_words(policy)
    assert governor.post(f"/policies/{policy.pk}/", {**typed, "use_rule": "luck"}).status_code == 422

    changed = {**typed, "min_cpu_percent": "", "use_grace_s": ""}
    assert governor.post(f"/policies/{policy.pk}/", changed).status_code == 302
    policy.refresh_from_db()
    assert (policy.min_cpu_percent, policy.use_grace_s, policy.use_window_s) == (None, None, 1800)
    assert policy.use_rule == "any"


def test_another_rule_may_end_running_sessions_where_something_is_wanted(
    place: Place, browser_of: Browser
) -> None:
    superadmin = browser_of(make_user(role=Role.SUPERADMIN))
    typed = {"name": "busy", "min_cpu_percent": "30", "min_mem_percent": "5", "use_rule": "all"}
    superadmin.post("/policies/new/", typed)
    policy = ResourcePolicy.objects.get(name="busy")
    User.objects.filter(pk=place.owner.pk).update(policy=policy)
    asked = superadmin.post(f"/policies/{policy.pk}/", {**typed, "use_rule": "any"})
    assert asked.context["impact"]["is_ending"] is True
    nothing = {"name": "busy", "max_sessions": "9", "use_rule": "any"}
    assert superadmin.post(f"/policies/{policy.pk}/", nothing).context["impact"]["is_ending"] is False


def test_of_what_counts_only_together_the_others_are_told(place: Place, browser_of: Browser) -> None:
    policy = limit(place.project, min_cpu_percent=30, min_mem_percent=5, use_rule="all")
    limit(place.owner, min_cpu_percent=10)
    profile = browser_of(place.owner).get("/profile/").content.decode()
    for words in ("at least 10 %<", f"at least 30 %, or what else “{policy.name}” wants"):
        assert words in profile


def test_who_has_to_use_how_much_is_told(place: Place, browser_of: Browser) -> None:
    limit(place.project, min_cpu_percent=30, use_window_s=1800)
    limit(place.owner, min_cpu_percent=10)
    browser = browser_of(place.owner)
    profile = browser.get("/profile/").content.decode()
    assert "at least 30 %" in profile
    assert "at least 10 %" not in profile
    assert "at most 30 min" in profile
    every = browser.get(f"/sessions/people/{place.owner.pk}/limits/", {"project": place.project.name})
    rows = {(row["value"], row["left"]): row["counts"] for row in every.context["rows"]}
    assert (rows["30 %", ""], rows["10 %", ""]) == (True, False)
    assert ">at least 30 %</td>" in every.content.decode()


WRONG_AMOUNTS: tuple[tuple[str, str], ...] = (
    ("max_sessions", "-1"),
    ("min_cpu_percent", "0"),
    ("min_mem_percent", "101"),
    ("min_device_percent", "much"),
    ("min_device_mem_percent", "-1"),
    ("use_window_s", "9m"),
    ("use_window_s", "25h"),
    ("use_grace_s", "599"),
    ("use_grace_s", "soon"),
    ("max_sessions", "1.5"),
    ("max_lifetime_s", "soon"),
    ("max_lifetime_s", "0"),
    ("max_priority", "-1"),
    ("max_priority", "101"),
    ("max_slots_cpu", "many"),
    ("max_slots_mem", "64 apples"),
    ("max_slots_devices", "cuda"),
    ("name", ""),
)


def test_wrong_amounts_are_refused_at_their_field(governor: Client, subtests: pytest.Subtests) -> None:
    for field, wrong in WRONG_AMOUNTS:
        with subtests.test(str((field, wrong))):
            answer = governor.post("/policies/new/", {"name": "small", field: wrong})
            assert answer.status_code == 422
            assert field in answer.context["form"].errors
            assert not ResourcePolicy.objects.filter(name="small").exists()


def test_more_than_the_domain_has_is_refused_at_its_field(place: Place, governor: Client) -> None:
    limit(place.project.domain, max_slots={"cpu": 1000, "cuda": 0})
    answer = governor.post(
        "/policies/new/", {"name": "big", "max_slots_cpu": "2", "max_slots_devices": "cuda=1"}
    )
    assert set(answer.context["form"].errors) == {"max_slots_cpu", "max_slots_devices"}


def test_what_ends_nobody_before_the_lifetime_is_refused_at_its_field(governor: Client) -> None:
    typed = {"name": "late", "min_cpu_percent": "5", "max_lifetime_s": "2h", "use_grace_s": "2h"}
    answer = governor.post("/policies/new/", typed)
    assert set(answer.context["form"].errors) == {"use_grace_s"}
    assert "After 2 h every session has ended" in answer.content.decode()


def test_consequences_are_shown_before_they_are_saved(place: Place, superadmin: Client) -> None:
    policy = limit(place.owner, max_sessions=5)
    place.run()
    place.run()
    address, typed = f"/policies/{policy.pk}/", {"name": policy.name, "max_sessions": "1"}

    page = superadmin.post(address, typed)
    text = page.content.decode()
    assert "This is not saved yet. It changes the limits of 1 person." in text
    assert f"{place.owner.email} — Live sessions: 2 in use, 1 allowed." in text
    policy.refresh_from_db()
    assert policy.max_sessions == 5

    other = superadmin.post(address, {**typed, "max_sessions": "0", "sure": page.context["sure"]})
    assert "sure" in other.context, "another value wants to be said again"
    assert superadmin.post(address, {**typed, "sure": page.context["sure"]}).status_code == 302
    policy.refresh_from_db()
    assert policy.max_sessions == 1
    assert superadmin.post(address, {**typed, "name": "renamed"}).status_code == 302, "limits stay"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_idle_s", "2h"),
        ("min_cpu_percent", "5"),
        ("min_device_mem_percent", "5"),
        ("use_window_s", "1h"),
        ("use_grace_s", "1h"),
    ],
)
def test_limits_that_end_running_sessions_say_so_before_they_are_saved(
    place: Place, superadmin: Client, field: str, value: str
) -> None:
    policy = limit(place.owner, max_sessions=5)
    address, typed = f"/policies/{policy.pk}/", {"name": policy.name, "max_sessions": "5"}
    sentence = "end by the new idle timeout and minimum utilization"
    page = superadmin.post(address, {**typed, field: value})
    assert sentence in page.content.decode()
    superadmin.post(address, {**typed, field: value, "sure": page.context["sure"]})

    others = superadmin.post(address, {**typed, field: value, "max_sessions": "9", "max_lifetime_s": "7d"})
    assert sentence not in others.content.decode(), "of others nothing ends"
    taken_away = superadmin.post(address, typed)
    is_shorter_by_the_group = field in ("use_window_s", "use_grace_s")
    assert taken_away.context["impact"]["is_ending"] is is_shorter_by_the_group


def test_policies_are_assigned_on_the_pages_of_those_they_limit(place: Place, superadmin: Client) -> None:
    general = create_policy(actor=SYSTEM, name="general", limits={"max_sessions": 7})
    own = create_policy(actor=SYSTEM, name="own", domain=place.project.domain)
    pages = {
        "domain": (f"/domains/{place.project.domain_id}/", place.project.domain),
        "project": (f"/projects/{place.project.pk}/", place.project),
        "user": (f"/people/{place.owner.pk}/", place.owner),
    }
    for level, (page, target) in pages.items():
        answer = superadmin.post(f"/policies/of/{level}/{target.pk}/", {"policy": general.pk})
        assert answer["Location"] == f"{page}#policy"
        target.refresh_from_db()
        assert target.policy == general
        shown = superadmin.get(page).content.decode()
        assert "Live sessions: 7" in shown
        assert "its idle timeout and minimum utilization end them" in shown
        assert (">own<" in shown) == (level != "domain")
    superadmin.post(f"/policies/of/domain/{place.project.domain_id}/", {"policy": own.pk})
    superadmin.post(f"/policies/of/user/{place.owner.pk}/", {"policy": ""})
    place.project.domain.refresh_from_db()
    place.owner.refresh_from_db()
    assert (place.project.domain.policy, place.owner.policy) == (general, None)
    assert superadmin.post(f"/policies/of/keypair/{place.owner.pk}/").status_code == 404


def test_deleting_wants_the_name_typed_and_nobody_using_it(place: Place, superadmin: Client) -> None:
    policy = limit(place.owner)
    address = f"/policies/{policy.pk}/delete/"
    for typed in ("", policy.name):
        assert superadmin.post(address, {"confirm": typed})["Location"] == f"/policies/{policy.pk}/"
    place.owner.policy = None
    place.owner.save(update_fields=["policy"])
    assert superadmin.post(f"/policies/{policy.pk}/default/").status_code == 302
    superadmin.post(f"/policies/{limit(make_user()).pk}/default/")
    assert superadmin.post(address, {"confirm": policy.name})["Location"] == "/policies/"
    assert not ResourcePolicy.objects.filter(pk=policy.pk).exists()
