"""The pages Audit and My activity: visible entries and their texts."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client

from accounts.models import User
from common.actors import SYSTEM
from common.audit import audit_log
from common.models import AuditEntry
from portal.audit import labels
from portal.audit.links import object_url
from tests.conftest import People
from tests.factories import PASSWORD, actor_for
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import make_place

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]
BrowserOf = Callable[[User], Client]


@pytest.fixture(autouse=True)
def _empty_log(people: People) -> None:
    AuditEntry.objects.all().delete()


def recorded(actor: object, action: str = "accounts.update_user", **more: object) -> AuditEntry:
    audit_log.record(actor=actor, action=action, **more)  # type: ignore[arg-type]
    return AuditEntry.objects.latest("pk")


def seen(client: Client, address: str) -> set[int]:
    answer = client.get(address)
    assert answer.status_code == 200
    return {row.id for row in answer.context["rows"]}


def test_everybody_sees_what_is_theirs_to_see(people: People, browser_of: BrowserOf) -> None:
    mine = recorded(actor_for(people.member), target=people.member)
    about_domain = recorded(actor_for(people.superadmin), target=people.outsider)
    elsewhere = recorded(actor_for(people.superadmin), target=people.stranger)
    of_machines = recorded(SYSTEM, "agents.register_agent")

    assert seen(browser_of(people.superadmin), "/audit/") == {
        mine.pk,
        about_domain.pk,
        elsewhere.pk,
        of_machines.pk,
    }
    assert seen(browser_of(people.domain_admin), "/audit/") == {mine.pk, about_domain.pk}
    assert seen(browser_of(people.stranger), "/audit/") == {elsewhere.pk}
    assert seen(browser_of(people.member), "/profile/activity/") == {mine.pk}
    assert seen(browser_of(people.superadmin), "/profile/activity/") == {about_domain.pk, elsewhere.pk}
    assert browser_of(people.member).get("/audit/").status_code == 404
    assert browser_of(people.project_admin).get("/audit/export/").status_code == 404


def test_one_line_is_shown_to_who_sees_it_in_a_list(people: People, browser_of: BrowserOf) -> None:
    mine = recorded(actor_for(people.member), target=people.member)
    address = f"/audit/{mine.pk}/"

    for person in (people.member, people.domain_admin, people.superadmin):
        assert browser_of(person).get(address).status_code == 200
    for person in (people.outsider, people.project_admin, people.stranger):
        assert browser_of(person).get(address).status_code == 404


def test_a_line_has_before_and_after_and_no_secret(people: People, browser_of: BrowserOf) -> None:
    changes = {
        "role": ["user", "domain_admin"],
        "password": ["a", "b"],
        "heir": "ada@example.org",
        "is_active": True,
    }
    line = recorded(actor_for(people.superadmin), target=people.member, changes=changes)

    page = browser_of(people.superadmin).get(f"/audit/{line.pk}/").content.decode()
    assert "Account changed" in page
    assert "domain_admin" in page
    assert "changed, not shown" in page
    assert f'href="/audit/?object=accounts.user%3A{people.member.pk}"' in page


def test_the_drawer_gets_the_line_alone(people: People, browser_of: BrowserOf) -> None:
    line = recorded(actor_for(people.member), target=people.member, changes={"policy": [None, "tight"]})

    answer = browser_of(people.member).get(f"/audit/{line.pk}/", headers={"HX-Request": "true"})
    assert b"<html" not in answer.content
    assert b"tight" in answer.content


def test_from_where_people_of_other_domains_act_is_not_shown(people: People, browser_of: BrowserOf) -> None:
    line = recorded(actor_for(people.superadmin), target=people.stranger)
    AuditEntry.objects.update(ip="203.0.113.7", user_agent="Firefox/1 Linux")

    stranger = browser_of(people.stranger)
    for address in ("/audit/", f"/audit/{line.pk}/"):
        assert b"203.0.113.7" not in stranger.get(address).content
        assert b"203.0.113.7" in browser_of(people.superadmin).get(address).content
    assert "203.0.113.7" not in notification_text(stranger.get("/audit/export/"))


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 3),
        ("q=the-object", 1),
        ("outcome=refused", 1),
        ("outcome=refused&outcome=done", 3),
        ("action=accounts.sign_in", 1),
        ("kind=accounts.user", 1),
        ("since=1", 3),
        ("since=later", 3),
        ("since=1&since=24", 3),
        ("who=nobody-at-all", 0),
        ("object=accounts.user:0", 0),
        ("sort=when", 3),
    ],
)
def test_filters_are_in_the_address(people: People, browser_of: BrowserOf, query: str, count: int) -> None:
    recorded(SYSTEM, "accounts.sign_in")
    recorded(SYSTEM, target=people.member)
    audit_log.record_refusal(
        actor=SYSTEM, action="requests.refuse", reason="not_found", target_label="the-object"
    )

    assert len(seen(browser_of(people.superadmin), f"/audit/?{query}")) == count


def notification_text(answer: object) -> str:
    return b"".join(answer).decode()  # type: ignore[call-overload]


def test_the_list_as_csv_holds_no_formula(people: People, browser_of: BrowserOf) -> None:
    recorded(SYSTEM, target=people.member, changes={"name": "=1+1"})
    audit_log.record_refusal(
        actor=SYSTEM, action="accounts.sign_in", reason="x", target_label="=cmd@example.org"
    )

    lines = notification_text(browser_of(people.superadmin).get("/audit/export/?kind=")).splitlines()
    assert lines[0].startswith("time,count,last time,actor")
    assert len(lines) == 3
    assert "'=cmd@example.org" in lines[1]
    own = notification_text(browser_of(people.member).get("/profile/activity/export/")).splitlines()
    assert len(own) == 1


def test_a_refused_request_leads_to_its_object_for_who_may_see_it(
    people: People, browser_of: BrowserOf
) -> None:
    browser_of(people.member).get(f"/api/v1/users/{people.stranger.pk}/")

    line = AuditEntry.objects.get(action="requests.refuse")
    page = browser_of(people.member).get(f"/audit/{line.pk}/").content.decode()
    assert f"GET /api/v1/users/{people.stranger.pk}/" in page
    assert "It does not exist, or is hidden from the requester." in page


def test_empty_lists_say_so(people: People, browser_of: BrowserOf) -> None:
    client = browser_of(people.member)

    assert b"Nothing is recorded yet" in client.get("/profile/activity/").content
    assert b"No line matches" in client.get("/profile/activity/?q=x").content


def test_values_read_as_words() -> None:
    values = (None, True, False, "***", [], ["a", 1], {"cpu": 1}, "text")
    shown = [labels.value_for_people(value) for value in values]
    assert shown == ["—", "yes", "no", "changed, not shown", "empty", "a, 1", "cpu: 1", "text"]
    assert labels.label(labels.ACTIONS, "of.another_time") == "of.another_time"


@pytest.mark.usefixtures("standing_clock")
def test_the_profile_says_where_one_was_signed_in(people: People, browser_of: BrowserOf) -> None:
    empty = browser_of(people.member).get("/profile/").content.decode()
    assert "No sign-ins are recorded" in empty
    agent = "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18 Safari/605.1.15"
    for password in ("wrong", "wrong", PASSWORD):
        form = {"login": people.member.email, "password": password}
        Client().post("/account/login/", form, headers={"User-Agent": agent})

    answer = browser_of(people.member).get("/profile/")
    rows = [(row["outcome"], row["count"], row["device"], row["ip"]) for row in answer.context["sign_ins"]]
    assert rows == [
        ("done", 1, "Safari on macOS", "127.0.0.1"),
        ("refused", 2, "Safari on macOS", "127.0.0.1"),
    ]
    assert "Safari on macOS" in answer.content.decode()
    assert len(seen(browser_of(people.member), "/profile/activity/")) == 2


def test_the_list_takes_few_queries_for_everybody(
    people: People, browser_of: BrowserOf, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for person in (people.member, people.outsider, people.stranger):
        recorded(actor_for(person), target=person)
    for person, address in (
        (people.superadmin, "/audit/"),
        (people.domain_admin, "/audit/"),
        (people.member, "/profile/activity/"),
    ):
        browser = browser_of(person)
        with django_assert_max_num_queries(12):  # type: ignore[attr-defined]
            browser.get(address)


def test_django_admin_says_before_and_after(people: People, browser_of: BrowserOf) -> None:
    announcement = {
        "text": "Later",
        "tone": "is-busy",
        "starts_at_0": "2026-11-22",
        "starts_at_1": "07:00:00",
    }
    browser = browser_of(people.superadmin)
    browser.post("/admin/portal/announcement/add/", announcement)
    made = AuditEntry.objects.get(action="portal.create_announcement")
    browser.post(f"/admin/portal/announcement/{made.target_id}/change/", {**announcement, "text": "Sooner"})
    browser.post(f"/admin/portal/announcement/{made.target_id}/delete/", {"post": "yes"})

    changed = AuditEntry.objects.get(action="portal.update_announcement")
    assert changed.changes == {"text": ["Later", "Sooner"]}
    assert AuditEntry.objects.filter(action="portal.delete_announcement").exists()


def test_passwords_that_are_set_in_django_admin_are_told_of(people: People, browser_of: BrowserOf) -> None:
    new = "a-new-long-word-9"
    form = {"password1": new, "password2": new, "usable_password": "true"}
    browser_of(people.superadmin).post(f"/admin/accounts/user/{people.member.pk}/password/", form)
    own = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    browser_of(people.superadmin).post("/admin/password_change/", own)

    told = AuditEntry.objects.filter(action="accounts.set_password").order_by("pk")
    assert [line.target_id for line in told] == [str(people.member.pk), str(people.superadmin.pk)]
    assert {line.actor_id for line in told} == {people.superadmin.pk}


def test_lines_lead_to_people_and_projects_for_who_has_pages_of_them(people: People) -> None:
    objects = (people.member, people.project, people.domain)
    readers = ("superadmin", "domain_admin", "project_admin", "member", "stranger")

    def places(reader: str) -> list[str]:
        actor = actor_for(getattr(people, reader))
        return [object_url(actor, each._meta.label_lower, str(each.pk)) for each in objects]

    person, project = f"/people/{people.member.pk}/", f"/projects/{people.project.pk}/"
    assert {reader: places(reader) for reader in readers} == {
        "superadmin": [person, project, f"/domains/{people.domain.pk}/"],
        "domain_admin": [person, project, ""],
        "project_admin": ["", project, ""],
        "member": ["", "", ""],
        "stranger": ["", "", ""],
    }


def test_lines_lead_to_what_is_there(people: People, browser_of: BrowserOf, tmp_path: Path) -> None:
    place = make_place()
    make_storage_host(tmp_path)
    objects = (place.run(), make_folder(place.owner), place.agent, place.image)
    superadmin, member = actor_for(people.superadmin), actor_for(people.member)
    for each in objects:
        address = object_url(superadmin, each._meta.label_lower, str(each.pk))
        assert browser_of(people.superadmin).get(address).status_code == 200
    for each in objects[:2]:
        assert object_url(member, each._meta.label_lower, str(each.pk)) == ""
        assert object_url(superadmin, each._meta.label_lower, str(uuid4())) == ""
    for kind, key in (("agents.agent", "0"), ("vfolders.vfolder", "no id"), ("vfolders.storagehost", "1")):
        assert object_url(superadmin, kind, key) == ""
