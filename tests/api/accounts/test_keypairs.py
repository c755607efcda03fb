"""Tokens over REST: scopes, rates, rotation, and that none reaches further than the one that made it."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from rest_framework.test import APIClient

from accounts.credentials import keypairs, rate_limit
from accounts.logins.service import authenticate_token, keypair_login, valid_logins
from accounts.models import KeyPair, User
from common import clock
from common.models import AuditEntry
from common.token_scopes import TokenScope
from portal.models import Notification
from portal.notifications.service import notify_of_expiring_tokens
from tests.conftest import People
from tests.factories import actor_for, make_token
from tests.factories_limits import limit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis")]

KEYPAIRS = "/api/v1/keypairs/"
ALL = [scope.value for scope in TokenScope]


def program(token: str) -> APIClient:
    return APIClient(HTTP_AUTHORIZATION=f"Bearer {token}")


def with_scopes(user: User, *scopes: str) -> APIClient:
    return program(make_token(user, scopes=scopes or None))


def keypair_of(token: str) -> KeyPair:
    return KeyPair.objects.get(access_key=token.partition(".")[0])


# Scopes


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("read", {"GET sessions", "GET folders", "GET keypairs", "GET me"}),
        ("sessions", {"GET sessions", "POST sessions", "GET me"}),
        ("folders", {"GET folders", "POST folders", "GET me"}),
        ("admin", {"GET keypairs", "POST keypairs", "POST users", "GET me"}),
    ],
)
def test_a_scope_opens_its_part_and_no_other(people: People, scope: str, allowed: set[str]) -> None:
    client = with_scopes(people.member, scope)
    asked = [f"{method} {name}" for method in ("GET", "POST") for name in ("sessions", "folders", "keypairs")]
    answers = {}
    for what in [*asked, "POST users", "GET me"]:
        method, name = what.split()
        answers[what] = client.generic(method, f"/api/v1/{name}/", content_type="application/json")
    refused = {what for what, answer in answers.items() if is_scope_missing(answer)}
    assert refused == set(answers) - allowed


def is_scope_missing(answer: Any) -> bool:
    return answer.status_code == 403 and answer.json()["code"] == "scope_missing"


def test_a_refusal_names_the_scopes_that_it_takes(people: People) -> None:
    refusal = with_scopes(people.member, "read").post("/api/v1/folders/", {"name": "x"}).json()
    assert "read" in refusal["message"]
    assert "folders" in refusal["hint"]


def test_a_browser_has_no_scopes(people: People) -> None:
    client = APIClient()
    client.force_login(people.member)
    assert client.post(KEYPAIRS, {"name": "x"}).status_code == 201


def test_me_tells_what_the_token_may(people: People) -> None:
    told = with_scopes(people.member, "read", "sessions").get("/api/v1/me/").json()
    assert told["token"]["scopes"] == ["read", "sessions"]


# Making tokens with tokens


def test_a_token_makes_none_that_may_more(people: People) -> None:
    maker = with_scopes(people.member, "read", "admin")
    assert maker.post(KEYPAIRS, {"name": "x"}).json()["scopes"] == ["read", "admin"]
    refusal = maker.post(KEYPAIRS, {"name": "x", "scopes": ["read", "sessions"]})
    assert refusal.status_code == 403
    assert "scopes" in refusal.json()["fields"]


def test_a_token_makes_none_that_lives_longer(people: People) -> None:
    ends_at = clock.now() + timedelta(days=1)
    _keypair, token = keypairs.create_keypair(actor=actor_for(people.member), name="a", expires_at=ends_at)
    for body in ({"name": "x"}, {"name": "x", "expires_at": None}):
        made = program(token).post(KEYPAIRS, body).json()
        assert KeyPair.objects.get(pk=made["id"]).expires_at == ends_at


def test_a_token_lives_ninety_days_unless_told_otherwise(people: People) -> None:
    client = with_scopes(people.member)
    usual, never = (
        client.post(KEYPAIRS, body).json() for body in ({"name": "a"}, {"name": "b", "expires_at": None})
    )
    life = KeyPair.objects.get(pk=usual["id"]).expires_at - clock.now()  # type: ignore[operator]
    assert timedelta(days=89) < life <= timedelta(days=90)
    assert never["expires_at"] is None


@pytest.mark.parametrize("change", [{"scopes": ALL}, {"is_active": True}])
def test_a_token_gives_another_nothing_that_it_has_not(people: People, change: dict[str, Any]) -> None:
    strong = keypair_of(make_token(people.member))
    KeyPair.objects.filter(pk=strong.pk).update(
        is_active=False, scopes=["read"] if "scopes" in change else ALL
    )
    maker = with_scopes(people.member, "read", "admin")
    body = {**change, "is_active": True}
    assert maker.patch(f"{KEYPAIRS}{strong.pk}/", body).status_code == 403


def test_a_token_takes_no_stronger_or_longer_one_over_by_rotation(people: People) -> None:
    strong = keypair_of(make_token(people.member))
    address = f"{KEYPAIRS}{strong.pk}/rotate/"
    assert with_scopes(people.member, "read", "admin").post(address).status_code == 403
    short = make_token(people.member)
    KeyPair.objects.filter(pk=keypair_of(short).pk).update(expires_at=clock.now() + timedelta(days=1))
    assert program(short).post(address).status_code == 403
    limited = make_token(people.member)
    limit(keypair_of(limited), max_sessions=1)
    assert program(limited).post(address).status_code == 403
    assert keypair_of_secret_unchanged(strong)


def keypair_of_secret_unchanged(keypair: KeyPair) -> bool:
    return KeyPair.objects.get(pk=keypair.pk).secret_hash == keypair.secret_hash


def test_a_token_of_any_scope_rotates_and_ends_itself_and_no_other(people: People) -> None:
    other, token = keypair_of(make_token(people.member)), make_token(people.member, scopes=["read"])
    own = f"{KEYPAIRS}{keypair_of(token).pk}/"
    for address in (f"{KEYPAIRS}{other.pk}/rotate/", f"{KEYPAIRS}{other.pk}/"):
        method = "POST" if "rotate" in address else "DELETE"
        assert is_scope_missing(program(token).generic(method, address, content_type="application/json"))
    rotated = program(token).post(f"{own}rotate/")
    assert rotated["Cache-Control"] == "no-store"
    assert program(rotated.json()["token"]).delete(own).status_code == 204


# Rotation


def test_a_rotated_token_has_a_new_secret_and_the_old_one_ends(people: People) -> None:
    token = make_token(people.member)
    rotated = program(token).post(f"{KEYPAIRS}{keypair_of(token).pk}/rotate/").json()
    assert program(token).get("/api/v1/me/").status_code == 401
    assert program(rotated["token"]).get("/api/v1/me/").status_code == 200
    assert rotated["access_key"] == token.partition(".")[0]


def test_the_old_secret_works_for_its_grace_and_what_it_opened_no_longer(people: People) -> None:
    token = make_token(people.member)
    keypair = authenticate_token(token)
    assert keypair is not None
    login = keypair_login(keypair, ip="127.0.0.1")
    keypairs.rotate_keypair(actor=actor_for(people.member), keypair_id=keypair.pk, grace=timedelta(hours=1))
    assert authenticate_token(token) is not None
    assert login in valid_logins([login])

    KeyPair.objects.filter(pk=keypair.pk).update(old_secret_until=clock.now())
    assert authenticate_token(token) is None
    assert valid_logins([login]) == {}


@pytest.mark.parametrize("hours", [-1, 25, "soon", "nan", True])
def test_a_grace_is_at_most_a_day(people: People, hours: object) -> None:
    token = make_token(people.member)
    answer = program(token).post(f"{KEYPAIRS}{keypair_of(token).pk}/rotate/", {"grace_hours": hours})
    assert answer.status_code == 400
    assert "grace_hours" in answer.json()["fields"]


def test_a_secret_that_was_replaced_makes_and_changes_no_tokens(people: People) -> None:
    token = make_token(people.member)
    own = f"{KEYPAIRS}{keypair_of(token).pk}/"
    newest = program(token).post(f"{own}rotate/", {"grace_hours": 1}).json()["token"]
    old = program(token)
    assert old.get("/api/v1/me/").status_code == 200
    for answer in (
        old.post(f"{own}rotate/"),
        old.patch(own, {"name": "x"}),
        old.post(KEYPAIRS, {"name": "x"}),
    ):
        assert answer.status_code == 403
    assert program(newest).patch(own, {"name": "x"}).status_code == 200


def test_a_second_rotation_ends_the_grace_of_the_first(people: People) -> None:
    first = make_token(people.member)
    actor, keypair_id = actor_for(people.member), keypair_of(first).pk
    _, second = keypairs.rotate_keypair(actor=actor, keypair_id=keypair_id, grace=timedelta(hours=24))
    keypairs.rotate_keypair(actor=actor, keypair_id=keypair_id, grace=timedelta(hours=1))
    assert authenticate_token(first) is None
    assert authenticate_token(second) is not None


# Changing


def test_a_token_that_is_switched_off_opens_nothing_until_it_is_on_again(people: People) -> None:
    token, client = make_token(people.member), with_scopes(people.member)
    address = f"{KEYPAIRS}{keypair_of(token).pk}/"
    for is_active, status in ((False, 401), (True, 200)):
        assert client.patch(address, {"is_active": is_active}).json()["is_active"] is is_active
        assert program(token).get("/api/v1/me/").status_code == status


def test_a_scope_that_is_taken_ends_what_was_opened_by_it(people: People) -> None:
    keypair = authenticate_token(make_token(people.member))
    assert keypair is not None
    login = keypair_login(keypair, "sessions", ip="127.0.0.1")
    assert login in valid_logins([login])
    keypairs.update_keypair(actor=actor_for(people.member), keypair_id=keypair.pk, scopes=["read"])
    assert valid_logins([login]) == {}


@pytest.mark.parametrize(
    "body", [{"scopes": []}, {"scopes": ["all"]}, {"scopes": "read"}, {"name": ""}, {"user": 1}]
)
def test_a_wrong_change_names_its_field(people: People, body: dict[str, Any]) -> None:
    token = make_token(people.member)
    answer = program(token).patch(f"{KEYPAIRS}{keypair_of(token).pk}/", body)
    assert answer.status_code == 400
    assert answer.json()["fields"]


def test_no_secret_is_in_the_access_log(people: People) -> None:
    token = make_token(people.member)
    actor, keypair_id = actor_for(people.member), keypair_of(token).pk
    _, rotated = keypairs.rotate_keypair(actor=actor, keypair_id=keypair_id)
    keypairs.update_keypair(actor=actor, keypair_id=keypair_id, name="other", scopes=["read"])
    lines = str(list(AuditEntry.objects.values()))
    row = KeyPair.objects.get(pk=keypair_id)
    assert AuditEntry.objects.filter(action="accounts.rotate_keypair").exists()
    for secret in (token.partition(".")[2], rotated.partition(".")[2], row.secret_hash):
        assert secret not in lines


# Tokens of other people


def test_who_may_change_an_account_sees_and_revokes_its_tokens(people: People) -> None:
    token = make_token(people.member)
    address = f"/api/v1/users/{people.member.pk}/keypairs/"
    admin = with_scopes(people.domain_admin)
    assert [row["access_key"] for row in admin.get(address).json()["results"]] == [token.partition(".")[0]]
    assert with_scopes(people.project_admin).get(address).status_code == 403
    assert with_scopes(people.stranger).get(address).status_code == 404
    assert admin.delete(f"{address}{keypair_of(token).pk}/").status_code == 204
    assert program(token).get("/api/v1/me/").status_code == 401


def test_a_token_is_revoked_by_its_own_person_alone(people: People) -> None:
    others = keypair_of(make_token(people.superadmin))
    admin = with_scopes(people.domain_admin)
    assert admin.delete(f"/api/v1/users/{people.member.pk}/keypairs/{others.pk}/").status_code == 404
    assert admin.get(f"/api/v1/users/{people.superadmin.pk}/keypairs/").status_code == 403


# Last use


def test_the_last_use_tells_when_and_from_where(people: People) -> None:
    token = make_token(people.member)
    for place in ("192.0.2.7", "192.0.2.8"):
        program(token).get("/api/v1/me/", REMOTE_ADDR=place)
    assert keypair_of(token).last_used_ip == "192.0.2.7"  # the second came within the minute
    KeyPair.objects.update(last_used_at=clock.now() - timedelta(minutes=2))
    program(token).get("/api/v1/me/", REMOTE_ADDR="2001:db8::1")
    assert keypair_of(token).last_used_ip == "2001:db8::1"


# Rates


@pytest.fixture
def two_a_minute(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a minute that does not end."""
    settings.BERTH_TOKEN_REQUESTS = 2
    at = datetime.fromtimestamp(1_000_000_040, UTC)
    monkeypatch.setattr(rate_limit, "clock", SimpleNamespace(now=lambda: at))


@pytest.mark.usefixtures("two_a_minute")
def test_too_many_requests_with_a_token_are_refused_with_headers(people: People) -> None:
    client = with_scopes(people.member)
    answers = [client.get("/api/v1/me/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer["X-RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
    assert {answer["X-RateLimit-Limit"] for answer in answers} == {"2"}
    assert answers[2]["Retry-After"] == answers[2]["X-RateLimit-Reset"] == "40"
    assert answers[2].json()["code"] == "too_many_requests"
    assert with_scopes(people.member).get("/api/v1/me/").status_code == 200  # each token by itself


@pytest.mark.usefixtures("two_a_minute")
def test_refused_requests_count_and_browsers_do_not(people: People) -> None:
    client = with_scopes(people.member, "read")
    assert [client.post("/api/v1/folders/").status_code for _ in range(3)] == [403, 403, 429]
    browser = APIClient()
    browser.force_login(people.member)
    answers = [browser.get("/api/v1/me/") for _ in range(3)]
    assert {answer.status_code for answer in answers} == {200}
    assert not any(answer.has_header("X-RateLimit-Limit") for answer in answers)


class LostRedis:
    """Says that nobody is there, and counts how often it was asked."""

    asked = 0

    def pipeline(self, **_options: Any) -> None:
        self.asked += 1
        raise redis.ConnectionError("nobody there")


@pytest.mark.usefixtures("two_a_minute")
def test_without_redis_nobody_is_refused_and_few_wait_for_it(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = LostRedis()
    monkeypatch.setattr(rate_limit, "quick_client", lambda: lost)
    monkeypatch.setattr(rate_limit, "_redis_retry_at", 0.0)
    client = with_scopes(people.member)
    answers = [client.get("/api/v1/me/") for _ in range(4)]
    assert {answer.status_code for answer in answers} == {200}
    assert lost.asked == 1


def test_nothing_is_counted_where_nothing_is_limited(people: People, settings: Any) -> None:
    settings.BERTH_TOKEN_REQUESTS = 0
    assert not with_scopes(people.member).get("/api/v1/me/").has_header("X-RateLimit-Limit")


def test_the_least_rate_of_the_policies_holds_and_replaces_the_setting(people: People, settings: Any) -> None:
    settings.BERTH_TOKEN_REQUESTS = 7
    token = make_token(people.member)
    limits: list[Any] = [people.member.domain, people.member, keypair_of(token)]

    def told() -> str | None:
        return program(token).get("/api/v1/me/").headers.get("X-RateLimit-Limit")

    assert told() == "7"
    for target, rate in zip(limits, (9000, 8000, 8500), strict=True):
        limit(target, max_requests=rate)
    assert told() == "8000", "of the person, from the next request on"
    settings.BERTH_TOKEN_REQUESTS = 0
    limit(people.member)
    assert told() == "8500"
    limit(limits[2], max_requests=0)
    refused = program(token).get("/api/v1/me/")
    assert (refused.status_code, refused["X-RateLimit-Limit"]) == (429, "0")
    assert program(make_token(people.member)).get("/api/v1/me/").status_code == 200, "others of theirs go on"


def test_policies_of_a_domain_do_not_lift_the_setting(people: People, settings: Any) -> None:
    settings.BERTH_TOKEN_REQUESTS = 7
    client = with_scopes(people.member)

    def told() -> str | None:
        return client.get("/api/v1/me/").headers.get("X-RateLimit-Limit")

    own = limit(people.member, max_requests=2**31 - 1)
    type(own).objects.filter(pk=own.pk).update(domain=people.domain)
    assert told() == "7"
    limit(people.member.domain, max_requests=9)
    assert told() == "9", "superadmins allow it"
    type(own).objects.filter(pk=own.pk).update(max_requests=5)
    assert told() == "5"
    limit(people.member.domain)
    settings.BERTH_TOKEN_REQUESTS = 0
    assert told() == "5"


# The end of a token


def test_people_are_told_once_before_a_token_ends(people: People) -> None:
    now = clock.now()
    keypair = keypair_of(make_token(people.member, name="nightly"))
    KeyPair.objects.filter(pk=keypair.pk).update(
        created_at=now - timedelta(days=84), expires_at=now + timedelta(days=6)
    )
    for _ in range(2):
        notify_of_expiring_tokens()
    told = Notification.objects.get(person=people.member)
    assert told.arguments == {"name": "nightly", "date": (now + timedelta(days=6)).date().isoformat()}
