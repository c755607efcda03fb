"""REST of the audit log."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest

from common import clock
from common.actors import SYSTEM
from common.audit import audit_log
from common.models import AuditEntry
from tests.conftest import People
from tests.factories import actor_for, api_client

pytestmark = pytest.mark.django_db
AUDIT = "/api/v1/audit/"


@pytest.fixture(autouse=True)
def _empty_log(people: People) -> None:
    AuditEntry.objects.all().delete()


def test_a_line_says_all_that_is_known(people: People) -> None:
    changes = {"role": ["user", "domain_admin"]}
    audit_log.record(
        actor=actor_for(people.superadmin),
        action="accounts.update_user",
        target=people.member,
        changes=changes,
    )

    line = api_client(people.superadmin).get(AUDIT, {"object_id": people.member.pk}).json()["results"][0]
    assert line["actor"] == people.superadmin.email
    assert (line["action"], line["object_kind"]) == ("accounts.update_user", "accounts.user")
    assert (line["outcome"], line["count"], line["changes"]) == ("done", 1, changes)


def test_people_get_what_is_theirs_to_see(people: People) -> None:
    for person in (people.member, people.outsider, people.stranger):
        audit_log.record(actor=actor_for(person), action="accounts.sign_in", target=person)

    def actors(reader: object, **asked: str) -> set[str]:
        lines = api_client(reader).get(AUDIT, {"action": "accounts.sign_in", **asked}).json()["results"]  # type: ignore[arg-type]
        return {line["actor"] for line in lines}

    assert actors(people.superadmin) == {people.member.email, people.outsider.email, people.stranger.email}
    assert actors(people.domain_admin) == {people.member.email, people.outsider.email}
    assert actors(people.member) == {people.member.email}
    assert actors(people.superadmin, own="1") == set()


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ({"outcome": "refused"}, 1),
        ({"outcome": "done"}, 1),
        ({"actor": "system"}, 2),
        ({"object_kind": "accounts.user"}, 0),
        ({"since": "2026-01-01T00:00:00+00:00"}, 1),
        ({"until": "2026-01-01T00:00:00Z"}, 1),
        ({"request_id": "none"}, 0),
    ],
)
def test_filters(people: People, asked: dict[str, str], count: int) -> None:
    audit_log.record(actor=SYSTEM, action="common.purge_audit")
    AuditEntry.objects.update(recorded_at="2025-01-01T00:00:00Z")
    audit_log.record_refusal(actor=SYSTEM, action="requests.refuse", reason="not_found")
    AuditEntry.objects.filter(outcome="refused").update(recorded_at="2026-06-01T00:00:00Z")

    assert (
        len(api_client(people.superadmin).get(AUDIT, {**asked, "actor": "system"}).json()["results"]) == count
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "yesterday"},
        {"until": ""},
        {"until": "2026-11-22T07:00:00"},
        {"until": "0001-01-01T00:00:00+18:00"},
        {"cursor": "abc"},
        {"cursor": "cD14eXo="},
        {"own": "perhaps"},
    ],
)
def test_what_is_no_filter_is_refused(people: People, asked: dict[str, str]) -> None:
    answer = api_client(people.superadmin).get(AUDIT, asked)

    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == set(asked)


def test_a_zone_may_be_as_far_from_utc_as_it_likes(people: People) -> None:
    audit_log.record(actor=SYSTEM, action="common.purge_audit")
    client = api_client(people.superadmin)

    assert client.get(AUDIT, {"until": "2026-08-13T09:48:12-18:18"}).status_code == 200
    assert client.get(AUDIT, {"since": "2026-08-13T09:48:12+23:59"}).status_code == 200


def test_a_plus_that_was_not_escaped_is_understood(people: People) -> None:
    assert api_client(people.superadmin).get(f"{AUDIT}?since=2026-01-01T00:00:00+00:00").status_code == 200


def test_pages_follow_each_other_while_lines_are_added(people: People) -> None:
    for number in range(5):
        audit_log.record(actor=SYSTEM, action="common.purge_audit", changes={"lines": number})
    AuditEntry.objects.update(recorded_at=clock.now() - timedelta(days=1))  # all at the same instant
    superadmin = api_client(people.superadmin)

    first = superadmin.get(f"{AUDIT}?{urlencode({'page_size': 3, 'actor': 'system'})}").json()
    audit_log.record(actor=SYSTEM, action="common.purge_audit", changes={"lines": 9})
    second = superadmin.get(first["next"]).json()

    told = [line["changes"]["lines"] for line in (*first["results"], *second["results"])]
    assert told == [4, 3, 2, 1, 0]
    assert second["next"] is None
