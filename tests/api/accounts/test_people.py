"""REST of users, projects and domains for administrators, and refusals for others."""

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.models import Domain, Project, User
from accounts.tenancy.offboarding import continue_offboardings
from tests.conftest import People
from tests.factories import PASSWORD, api_client, make_project, make_user
from tests.width import times

pytestmark = pytest.mark.django_db

USERS, PROJECTS, DOMAINS = "/api/v1/users/", "/api/v1/projects/", "/api/v1/domains/"
FUZZED_REQUESTS = times(20, wide=400)


def emails(answer: Any) -> list[str]:
    return [row["email"] for row in answer.json()["results"]]


def test_people_are_listed_narrowed_and_in_pages(people: People) -> None:
    admin = api_client(people.domain_admin)
    assert set(emails(admin.get(USERS))) == set(people.domain.users.values_list("email", flat=True))
    assert emails(admin.get(USERS, {"q": people.member.email[:12]}))
    assert set(emails(admin.get(USERS, {"project": people.project.name}))) == {
        people.member.email,
        people.project_admin.email,
    }
    assert emails(admin.get(USERS, {"role": "superadmin"})) == [people.superadmin.email]
    assert emails(admin.get(USERS, {"state": "closed"})) == []
    assert len(emails(admin.get(USERS, {"state": "open", "domain": people.domain.name}))) == 5
    first = admin.get(USERS, {"page_size": 2}).json()
    assert (len(first["results"]), first["count"]) == (2, 5)


def test_a_list_of_people_takes_as_many_queries_for_any_number(people: People) -> None:
    admin = api_client(people.domain_admin)
    admin.get(USERS)
    with CaptureQueriesContext(connection) as few:
        admin.get(USERS)
    for _ in range(10):
        make_user(member_of=people.project)
    with CaptureQueriesContext(connection) as many:
        admin.get(USERS)
    assert len(many) == len(few) <= 6


def test_a_person_is_added_with_projects_and_a_password(people: People) -> None:
    body = {"email": "New@berth.example", "password": PASSWORD, "projects": [people.project.name]}
    answer = api_client(people.domain_admin).post(USERS, body)
    assert answer.status_code == 201
    made = answer.json()
    assert (made["email"], made["domain"], made["role"], made["sign_in_url"]) == (
        "new@berth.example",
        people.domain.name,
        "user",
        "",
    )
    assert [project["name"] for project in made["projects"]] == [people.project.name]
    assert User.objects.get(pk=made["id"]).check_password(PASSWORD)


def test_a_person_without_a_password_gets_a_link_once(people: People) -> None:
    answer = api_client(people.domain_admin).post(USERS, {"email": "new@berth.example"})
    assert "/sign-in/once/" in answer.json()["sign_in_url"]
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"email": "no address"}, 400, "email"),
        ({"role": "superadmin"}, 403, "role"),
        ({"role": "god"}, 400, "role"),
        ({"password": "short"}, 400, "password"),
        ({"domain": "elsewhere"}, 404, "domain"),
        ({"projects": ["no-such-project"]}, 404, "projects"),
        ({"nmae": "x"}, 400, "nmae"),
    ],
)
def test_a_person_who_cannot_be_added_is_refused_at_the_field(
    people: People, changes: dict[str, Any], status: int, field: str
) -> None:
    answer = api_client(people.domain_admin).post(USERS, {"email": "new@berth.example", **changes})
    assert answer.status_code == status
    assert field in answer.json()["fields"]
    assert not User.objects.filter(email="new@berth.example").exists()


def test_an_address_is_taken_in_any_letter_case(people: People) -> None:
    answer = api_client(people.domain_admin).post(USERS, {"email": people.member.email.upper()})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["email"])


def test_a_person_is_changed_by_what_is_given_alone(people: People) -> None:
    admin = api_client(people.domain_admin)
    changed = admin.patch(f"{USERS}{people.member.pk}/", {"role": "domain_admin"}).json()
    assert (changed["role"], changed["email"]) == ("domain_admin", people.member.email)
    answer = admin.patch(f"{USERS}{people.member.pk}/", {"domain": people.domain.name})
    assert answer.status_code == 200


def test_a_superadmin_moves_who_is_tied_to_nothing(people: People) -> None:
    admin, target = api_client(people.superadmin), {"domain": people.stranger.domain.name}
    assert admin.patch(f"{USERS}{people.outsider.pk}/", target).json()["domain"] == target["domain"]
    refusal = admin.patch(f"{USERS}{people.member.pk}/", target)
    assert refusal.status_code == 409
    assert people.project.name in refusal.json()["message"]


def test_an_account_is_closed_with_its_report_opened_and_purged(people: People) -> None:
    admin, url = api_client(people.domain_admin), f"{USERS}{people.member.pk}/"
    assert admin.get(f"{url}closing/").json() == {"is_active": True, "affected": [], "offboarding": None}
    body = {"folders": "hand_over", "heir": people.outsider.email}
    answer = admin.post(f"{url}closing/", body)
    assert answer.status_code == 202
    continue_offboardings()
    closing = admin.get(f"{url}closing/").json()
    assert (closing["is_active"], closing["offboarding"]["heir"]) == (False, people.outsider.email)
    assert closing["offboarding"]["finished_at"]
    assert all(line["is_done"] and line["sentence"] for line in closing["offboarding"]["report"])
    assert admin.delete(f"{url}closing/").json()["is_active"] is True
    assert admin.delete(url).status_code == 409
    admin.post(f"{url}closing/", {})
    continue_offboardings()
    assert admin.delete(url).status_code == 204
    assert admin.get(url).status_code == 404


@pytest.mark.parametrize("heir", ["", "nobody@berth.example"])
def test_folders_are_handed_over_to_somebody(people: People, heir: str) -> None:
    body = {"folders": "hand_over", "heir": heir}
    answer = api_client(people.domain_admin).post(f"{USERS}{people.member.pk}/closing/", body)
    assert "heir" in answer.json()["fields"]
    people.member.refresh_from_db()
    assert people.member.is_active


def test_projects_are_made_changed_archived_and_purged(people: People) -> None:
    admin = api_client(people.domain_admin)
    made = admin.post(PROJECTS, {"name": "vision", "title": "Vision"})
    assert made.status_code == 201
    url = f"{PROJECTS}{made.json()['id']}/"
    assert admin.patch(url, {"title": "Sight"}).json()["title"] == "Sight"
    assert admin.patch(url, {"name": people.project.name}).status_code == 400
    assert admin.patch(url, {"is_active": False}).json()["is_active"] is False
    names = [row["name"] for row in admin.get(PROJECTS, {"state": "closed"}).json()["results"]]
    assert names == ["vision"]
    assert [row["name"] for row in admin.get(PROJECTS, {"q": "SIGH"}).json()["results"]] == ["vision"]
    assert admin.delete(url).status_code == 204


def test_members_are_listed_added_and_removed_by_their_project_admin(people: People) -> None:
    admin, url = api_client(people.project_admin), f"{PROJECTS}{people.project.pk}/members/"
    body = {"email": people.outsider.email, "role": "admin"}
    assert admin.post(url, body).json() == {
        "id": people.outsider.pk,
        "email": people.outsider.email,
        "name": "",
        "role": "admin",
        "is_by_rule": False,
    }
    admin.post(url, {**body, "role": "member"})
    rows = admin.get(url).json()["results"]
    assert {row["email"]: row["role"] for row in rows}[people.outsider.email] == "member"
    assert len(admin.get(url, {"role": "admin"}).json()["results"]) == 1
    assert admin.delete(f"{url}{people.outsider.pk}/").status_code == 204
    assert admin.delete(f"{url}{people.outsider.pk}/").status_code == 404
    stranger = admin.post(url, {"email": people.stranger.email})
    absent = admin.post(url, {"email": "nobody@berth.example"})
    assert stranger.status_code == absent.status_code == 404
    assert stranger.json()["message"].replace(people.stranger.email, "…") == absent.json()["message"].replace(
        "nobody@berth.example", "…"
    )


def test_domains_are_for_superadmins(people: People) -> None:
    admin = api_client(people.superadmin)
    made = admin.post(DOMAINS, {"name": "north", "title": "North"}).json()
    url = f"{DOMAINS}{made['id']}/"
    assert admin.patch(url, {"is_active": False}).json()["is_active"] is False
    assert [row["name"] for row in admin.get(DOMAINS, {"state": "closed"}).json()["results"]] == ["north"]
    assert admin.delete(url).status_code == 204
    assert [row["name"] for row in api_client(people.member).get(DOMAINS).json()["results"]] == [
        people.domain.name
    ]


@pytest.mark.timeout(300)
def test_a_sweep_of_ids_of_another_domain_finds_what_is_absent(people: People) -> None:
    """Random requests about things of the other domain, and about nothing: the same answer, and nothing is changed."""
    numbers = random.Random(7)
    make_project(people.domain)
    there = {
        "users": list(people.domain.users.values_list("pk", flat=True)),
        "projects": list(people.domain.projects.values_list("pk", flat=True)),
        "domains": [people.domain.pk],
    }
    ends = {"users": ["", "closing/"], "projects": ["", "members/"], "domains": [""]}
    client = api_client(people.stranger)

    def answer(kind: str, number: int, end: str, method: str) -> tuple[int, bytes]:
        got = client.generic(method, f"/api/v1/{kind}/{number}/{end}", "{}", "application/json")
        return got.status_code, got.content

    for _ in range(FUZZED_REQUESTS):
        kind = numbers.choice(list(there))
        end, method = numbers.choice(ends[kind]), numbers.choice(["GET", "POST", "PATCH", "DELETE"])
        hidden = answer(kind, numbers.choice(there[kind]), end, method)
        assert hidden == answer(kind, numbers.randrange(10**6, 10**9), end, method)
        assert hidden[0] in {404, 405}
    assert User.objects.filter(domain=people.domain, is_active=True).count() == 5
    assert Project.objects.filter(domain=people.domain, is_active=True).count() == 2
    assert Domain.objects.get(pk=people.domain.pk).is_active
