"""Invitations and sign-up over REST."""

import pytest

from tests.conftest import People
from tests.factories import api_client
from tests.factories_entrance import open_domain

pytestmark = pytest.mark.django_db


def test_an_invitation_is_made_listed_read_and_revoked(people: People) -> None:
    open_domain(people.domain)
    api = api_client(people.domain_admin)
    made = api.post("/api/v1/invitations/", {"email": "ada@berth.example", "projects": [people.project.name]})
    assert made.status_code == 201
    assert "/invitation/" in made.json()["url"]
    assert made["Cache-Control"] == "no-store"
    listed = api.get("/api/v1/invitations/", {"email": "ada@berth.example"}).json()["results"]
    assert [(each["state"], each["projects"]) for each in listed] == [("open", [people.project.name])]
    assert "url" not in listed[0]
    url = f"/api/v1/invitations/{listed[0]['id']}/"
    assert api.delete(url).status_code == 204
    assert api.get(url).json()["state"] == "revoked"


def test_nobody_gives_a_role_above_their_own(people: People) -> None:
    open_domain(people.domain)
    answer = api_client(people.domain_admin).post("/api/v1/invitations/", {"role": "superadmin"})
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")
    assert answer.json()["fields"]["role"]


def test_a_closed_domain_says_so(people: People) -> None:
    answer = api_client(people.domain_admin).post("/api/v1/invitations/", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_sign_up_of_a_domain_is_set_by_superadmins(people: People) -> None:
    url = f"/api/v1/domains/{people.domain.pk}/sign-up/"
    api = api_client(people.superadmin)
    assert api.patch(url, {"sign_up": "open"}).status_code == 400
    wanted = {"sign_up": "open", "mail_domains": ["uni.example"]}
    assert api.patch(url, wanted).json() == wanted
    assert api.get(url).json() == wanted
    assert api_client(people.domain_admin).patch(url, wanted).status_code == 403
