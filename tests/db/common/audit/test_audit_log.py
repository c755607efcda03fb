"""The audit log records what was done, refused and attempted."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.models import User
from common import clock
from common.actors import SYSTEM, Actor, ActorKind
from common.audit import audit_log
from common.errors import PermissionDenied
from common.models import AuditEntry
from common.tasks import purge_audit
from tests.conftest import People
from tests.factories import PASSWORD, actor_for

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_redis", "standing_clock")]
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture(autouse=True)
def _empty_log(people: People) -> None:
    AuditEntry.objects.all().delete()


def sign_in(client: Client, email: str, password: str) -> None:
    client.post("/account/login/", {"login": email, "password": password}, headers={"User-Agent": FIREFOX})


def test_a_sign_in_says_who_from_where_and_with_what(people: People) -> None:
    sign_in(Client(), people.member.email, PASSWORD)

    entry = AuditEntry.objects.get(action="accounts.sign_in")
    assert (entry.actor_id, entry.target_id) == (people.member.pk, str(people.member.pk))
    assert (entry.ip, entry.via, entry.user_agent) == ("127.0.0.1", "page", FIREFOX)
    assert (entry.outcome, entry.domain_id) == ("done", people.member.domain_id)
    assert entry.request_id


def test_a_wrong_password_tells_the_address_that_was_tried_and_counts_up(people: People) -> None:
    for _ in range(3):
        sign_in(Client(), people.member.email.upper(), "not this one")

    entry = AuditEntry.objects.get(action="accounts.sign_in")
    assert (entry.outcome, entry.reason, entry.count) == ("refused", "wrong_password", 3)
    assert (entry.actor_id, entry.target_label) == (None, people.member.email)
    assert "not this one" not in str(list(AuditEntry.objects.values()))


def test_too_many_wrong_passwords_are_told_of_too(people: People) -> None:
    for _ in range(7):
        sign_in(Client(), people.member.email, "not this one")

    reasons = AuditEntry.objects.filter(action="accounts.sign_in").values_list("reason", "count")
    assert dict(reasons) == {"wrong_password": 5, "too_many_attempts": 2}


@pytest.mark.parametrize(("email", "label"), [("nobody@example.org", "nobody@example.org"), ("hunter2", "—")])
def test_attempts_at_nobody_keep_no_password_that_stood_in_the_wrong_field(email: str, label: str) -> None:
    sign_in(Client(), email, "x")

    assert {entry.target_label for entry in AuditEntry.objects.all()} <= {label}
    assert "hunter2" not in str(list(AuditEntry.objects.values()))


def test_a_closed_account_is_the_reason(people: People) -> None:
    User.objects.filter(pk=people.member.pk).update(is_active=False)

    sign_in(Client(), people.member.email, PASSWORD)

    assert AuditEntry.objects.get(action="accounts.sign_in").reason == "account_closed"


def test_signing_out_and_a_new_password_are_told_of(people: People) -> None:
    client = Client()
    sign_in(client, people.member.email, PASSWORD)
    new = "another-long-word-1"
    client.post("/account/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new})
    client.post("/account/logout/")

    actions = list(AuditEntry.objects.order_by("pk").values_list("action", "actor_id"))
    assert actions == [
        (f"accounts.{verb}", people.member.pk) for verb in ("sign_in", "set_password", "sign_out")
    ]
    assert new not in str(list(AuditEntry.objects.values()))


def test_a_refusal_outlives_what_was_rolled_back(people: People) -> None:
    client = Client()
    client.force_login(people.member)

    answer = client.post(f"/api/v1/users/{people.superadmin.pk}/closing/", {}, "application/json")

    entry = AuditEntry.objects.get()
    assert answer.status_code == 404
    assert (entry.action, entry.outcome, entry.reason) == ("requests.refuse", "refused", "not_found")
    assert (entry.actor_id, entry.target_type) == (people.member.pk, "accounts.user")
    assert entry.target_id == str(people.superadmin.pk)
    assert entry.changes["asked"] == f"POST /api/v1/users/{people.superadmin.pk}/closing/"
    assert entry.changes["answer"] == answer.json()["message"]
    assert entry.request_id == answer["X-Request-Id"]


def test_probing_ids_adds_one_entry_a_minute(people: People) -> None:
    client = Client()
    client.force_login(people.member)

    for number in range(900_000, 900_020):
        client.get(f"/api/v1/users/{number}/")

    assert AuditEntry.objects.get().count == 20


def test_a_refusal_costs_two_queries_and_one_when_it_repeats_itself(people: People) -> None:
    client = Client()
    client.force_login(people.member)
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            client.get("/api/v1/users/900000/")
        counts.append(sum("common_auditentry" in query["sql"] for query in queries.captured_queries))

    assert counts == [2, 1]


def test_a_refusal_stays_one_where_the_log_cannot_be_written(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("the log is full")

    monkeypatch.setattr(audit_log, "record_refusal", fail)
    client = Client()
    client.force_login(people.member)

    assert client.get("/api/v1/users/900000/").status_code == 404


def test_addresses_keep_no_secrets() -> None:
    Client().post("/sign-in/once/the-secret-code/")

    entry = AuditEntry.objects.get()
    assert entry.changes["asked"] == "POST /sign-in/once/<code>/"
    assert "the-secret-code" not in str(list(AuditEntry.objects.values()))


def test_a_token_that_opens_nothing_is_told_of_by_its_access_key() -> None:
    for _ in range(2):
        Client().get(
            "/api/v1/me/", headers={"Authorization": "Bearer AKNOBODY.topsecret", "User-Agent": "berth/1"}
        )

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_label, entry.count) == ("requests.refuse_token", "AKNOBODY", 2)
    assert entry.via == "cli"
    assert "topsecret" not in str(list(AuditEntry.objects.values()))


def test_request_without_token_is_no_attempt() -> None:
    Client().get("/api/v1/me/")
    Client().get("/no-such-page/")

    assert not AuditEntry.objects.exists()


def test_of_secrets_only_that_they_changed_is_kept() -> None:
    changes = audit_log.changed(
        {"name": "a", "password": "old", "config": {"secret_key": "s"}},
        {"name": "b", "password": "new", "config": {"secret_key": "t", "region": "eu"}},
    )
    audit_log.record(
        actor=SYSTEM, action="common.purge_audit", changes={**changes, "api_token": "x", "at": clock.now()}
    )

    kept = AuditEntry.objects.get().changes
    assert kept["name"] == ["a", "b"]
    assert kept["password"] == kept["api_token"] == "***"
    assert kept["config"] == [{"secret_key": "***"}, {"secret_key": "***", "region": "eu"}]


def test_long_values_are_cut_and_control_bytes_left_out() -> None:
    audit_log.record(actor=SYSTEM, action="common.purge_audit", changes={"text": "x\0" * 5000})

    assert len(AuditEntry.objects.get().changes["text"]) == audit_log.MOST_CHARACTERS


def test_impersonator_is_the_audited_actor(people: People) -> None:
    actor = Actor(
        kind=ActorKind.USER, user_id=people.member.pk, label=people.member.email,
        impersonator_id=people.superadmin.pk, impersonator_label=people.superadmin.email,
    )  # fmt: skip
    audit_log.record_refusal(actor=actor, action="requests.refuse", reason="only_looking")

    entry = AuditEntry.objects.get()
    assert (entry.actor_id, entry.acted_as_id) == (people.superadmin.pk, people.member.pk)
    assert (entry.actor_label, entry.acted_as_label) == (people.superadmin.email, people.member.email)
    with pytest.raises(PermissionDenied):  # in the transaction of the change, which it undoes
        audit_log.record(actor=actor, action="accounts.update_user", target=people.member)


def test_lines_concern_the_domain_of_their_object(people: People) -> None:
    superadmin = actor_for(people.superadmin)
    audit_log.record(actor=superadmin, action="accounts.update_user", target=people.member)
    audit_log.record(actor=superadmin, action="accounts.update_domain", target=people.member.domain)
    audit_log.record(actor=superadmin, action="common.purge_audit")

    domains = AuditEntry.objects.order_by("pk").values_list("domain_id", flat=True)
    assert list(domains) == [people.member.domain_id, people.member.domain_id, None]


def test_what_is_too_old_is_forgotten_in_batches_and_that_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_log, "PURGE_BATCH", 2)
    for age_days in (10, 400, 401, 402):
        audit_log.record(actor=SYSTEM, action="accounts.sign_in")
        newest = AuditEntry.objects.latest("pk")
        AuditEntry.objects.filter(pk=newest.pk).update(recorded_at=clock.now() - timedelta(days=age_days))

    purge_audit()

    told = AuditEntry.objects.filter(action="common.purge_audit").order_by("pk")
    assert [entry.changes["lines"] for entry in told] == [2, 1]
    assert AuditEntry.objects.exclude(action="common.purge_audit").count() == 1


def test_no_days_keep_the_log_for_ever(settings: Settings) -> None:
    settings.BERTH_AUDIT_DAYS = 0
    audit_log.record(actor=SYSTEM, action="accounts.sign_in")
    AuditEntry.objects.update(recorded_at=clock.now() - timedelta(days=4000))

    purge_audit()

    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    "name", ["apiKey", "secret-keys", "key", "Authorization", "passphrase", "client_key", "cookie"]
)
def test_names_of_secrets_are_known_however_they_are_written(name: str) -> None:
    audit_log.record(
        actor=SYSTEM,
        action="tests.kept",
        changes={name: "hidden", "url": "https://me:hidden@registry.example/v2"},
    )

    assert "hidden" not in str(list(AuditEntry.objects.values()))


def test_forms_without_their_token_are_one_line_whatever_they_name() -> None:
    browser = Client(enforce_csrf_checks=True)
    for number in range(3):
        browser.post(f"/people/{number}/")

    assert AuditEntry.objects.filter(reason="no_form_token").count() <= 1
