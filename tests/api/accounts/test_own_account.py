"""REST of one's own account."""

from datetime import timedelta

import pytest
from django.test import Client
from rest_framework.test import APIClient

from accounts.models import Domain, KeyPair, User
from common import clock
from tests.conftest import People
from tests.factories import api_client, make_token

pytestmark = pytest.mark.django_db

ROUTES = ("/api/v1/me/", "/api/v1/projects/", "/api/v1/keypairs/")


@pytest.mark.parametrize("route", ROUTES)
def test_nobody_is_refused_with_401_and_the_usual_body(route: str) -> None:
    response = APIClient().get(route)
    assert response.status_code == 401
    assert set(response.json()) == {"code", "message", "hint", "fields"}
    assert response["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer x",
        "Bearer bkabc.def",
        "Bearer bk." + "x" * 500,
        "Bearer bké.é",
        "Bearer bk\x00.x",
        "Bearer .",
    ],
)
def test_a_malformed_token_is_refused_with_401(header: str) -> None:
    assert APIClient().get("/api/v1/me/", HTTP_AUTHORIZATION=header).status_code == 401


def test_a_known_access_key_with_another_secret_is_refused(people: People) -> None:
    access_key = make_token(people.member).split(".")[0]
    other_secret = make_token(people.outsider).split(".")[1]
    response = APIClient().get("/api/v1/me/", HTTP_AUTHORIZATION=f"Bearer {access_key}.{other_secret}")
    assert response.status_code == 401


def test_me_tells_who_the_token_belongs_to(people: People) -> None:
    told = api_client(people.domain_admin).get("/api/v1/me/").json()
    keypair = people.domain_admin.keypairs.get()
    assert told == {
        "id": people.domain_admin.pk,
        "email": people.domain_admin.email,
        "name": "",
        "role": "domain_admin",
        "domain": {"name": people.domain.name, "title": ""},
        "token": {"id": keypair.pk, "name": "test", "expires_at": None, "scopes": keypair.scopes},
    }


def test_projects_are_listed_in_pages(people: People) -> None:
    body = api_client(people.member).get("/api/v1/projects/").json()
    assert body["count"] == 1
    shown = {key: body["results"][0][key] for key in ("id", "name", "title", "domain", "is_active")}
    assert shown == {
        "id": people.project.pk,
        "name": people.project.name,
        "title": "",
        "domain": people.domain.name,
        "is_active": True,
    }
    assert api_client(people.stranger).get("/api/v1/projects/").json()["results"] == []


def test_a_token_is_made_used_listed_and_deleted(people: People) -> None:
    client = api_client(people.member)
    made = client.post("/api/v1/keypairs/", {"name": "laptop"})
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    token, keypair_id = made.json()["token"], made.json()["id"]

    program = APIClient(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert program.get("/api/v1/me/").json()["email"] == people.member.email

    listed = client.get("/api/v1/keypairs/")
    assert [row["name"] for row in listed.json()["results"]] == ["laptop", "test"]
    assert token.split(".")[1] not in listed.content.decode()

    assert client.delete(f"/api/v1/keypairs/{keypair_id}/").status_code == 204
    assert program.get("/api/v1/me/").status_code == 401


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x" * 61}, {"name": "x", "expires_at": "soon"}])
def test_a_wrong_token_request_names_the_field(people: People, body: dict[str, str]) -> None:
    response = api_client(people.member).post("/api/v1/keypairs/", body)
    assert response.status_code == 400
    assert response.json()["fields"]


def test_a_token_cannot_be_made_already_expired(people: People) -> None:
    past = (clock.now() - timedelta(hours=1)).isoformat()
    response = api_client(people.member).post("/api/v1/keypairs/", {"name": "x", "expires_at": past})
    assert response.status_code == 400
    assert "expires_at" in response.json()["fields"]


def test_an_expired_token_is_refused(people: People) -> None:
    client = api_client(people.member)
    KeyPair.objects.filter(user=people.member).update(expires_at=clock.now() - timedelta(seconds=1))
    assert client.get("/api/v1/me/").status_code == 401


def test_the_role_cannot_be_written_through_rest(people: People) -> None:
    client = api_client(people.member)
    for method in (client.put, client.patch, client.post):
        assert method("/api/v1/me/", {"role": "superadmin"}).status_code == 405
    client.post("/api/v1/keypairs/", {"name": "x", "user": people.superadmin.pk, "role": "superadmin"})
    assert not KeyPair.objects.filter(user=people.superadmin).exists()
    assert User.objects.get(pk=people.member.pk).role == "user"


def test_the_last_use_of_a_token_is_noted(people: People) -> None:
    api_client(people.member).get("/api/v1/me/")
    assert KeyPair.objects.get(user=people.member).last_used_at is not None


def test_a_request_with_a_token_takes_one_query(people: People, django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    client = api_client(people.member)
    client.get("/api/v1/me/")
    with django_assert_num_queries(1):
        client.get("/api/v1/me/")


def test_a_page_session_works_on_rest_and_writes_need_the_csrf_token(people: People) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    assert browser.get("/api/v1/me/").status_code == 200
    refused = browser.post("/api/v1/keypairs/", {"name": "x"}, content_type="application/json")
    assert refused.status_code == 403
    assert refused.json()["code"] == "no_form_token"


def test_closing_a_domain_ends_page_sessions_and_tokens(people: People) -> None:
    browser, program = Client(), api_client(people.member)
    browser.force_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    Domain.objects.filter(pk=people.domain.pk).update(is_active=False)
    assert browser.get("/api/v1/me/").status_code == 401
    assert program.get("/api/v1/me/").status_code == 401


def test_health_needs_no_sign_in_and_names_the_parts() -> None:
    response = APIClient().get("/api/v1/health/")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "database": True, "redis": True}


def test_health_says_503_and_which_part_is_down(monkeypatch: pytest.MonkeyPatch, settings) -> None:  # type: ignore[no-untyped-def]
    from common.messaging.redis import client

    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    client.cache_clear()
    try:
        response = APIClient().get("/api/v1/health/")
    finally:
        client.cache_clear()
    assert response.status_code == 503
    assert response.json() == {"status": "degraded", "database": True, "redis": False}


def test_health_with_a_broken_token_still_answers() -> None:
    assert APIClient().get("/api/v1/health/", HTTP_AUTHORIZATION="Bearer nonsense").status_code == 200


def test_the_openapi_document_describes_these_routes(people: People) -> None:
    paths = api_client(people.member).get("/api/schema/", HTTP_ACCEPT="application/json").json()["paths"]
    assert {"/api/v1/me/", "/api/v1/keypairs/", "/api/v1/events/", "/api/v1/health/"} <= set(paths)
    assert "text/event-stream" in paths["/api/v1/events/"]["get"]["responses"]["200"]["content"]
