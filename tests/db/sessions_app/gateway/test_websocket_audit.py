"""Accepted and refused websockets of sessions are in the audit log."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from accounts.models import KeyPair, User
from common.errors import Conflict, NotFound, PermissionDenied
from common.models import AuditEntry
from sessions_app.gateway.auth.websocket_auth import OPEN_TERMINAL, RUN_PROCESS, enter_session
from tests.conftest import People
from tests.factories import make_token, make_user
from tests.factories_sessions import make_place

pytestmark = pytest.mark.django_db


def scope_of(session_id: object, query: bytes = b"") -> dict[str, Any]:
    return {
        "path": "/ws/sessions/x/terminal/", "query_string": query, "client": ("10.0.0.7", 1),
        "headers": [(b"user-agent", b"Firefox")], "url_route": {"kwargs": {"session_id": session_id}},
    }  # fmt: skip


def test_accepted_websocket_is_audited_with_address_and_client() -> None:
    place = make_place()
    session = place.run()
    make_token(place.owner)
    keypair = KeyPair.objects.get(user=place.owner)
    enter_session(scope_of(session.pk), place.owner, action=OPEN_TERMINAL)
    enter_session(scope_of(session.pk), place.owner, action=RUN_PROCESS, keypair=keypair)
    entries = AuditEntry.objects.filter(action__in=(OPEN_TERMINAL, RUN_PROCESS)).order_by("pk")
    assert [(each.action, each.actor_kind, each.ip, each.via) for each in entries] == [
        (OPEN_TERMINAL, "user", "10.0.0.7", "websocket"),
        (RUN_PROCESS, "token", "10.0.0.7", "websocket"),
    ]


@pytest.mark.usefixtures("standing_clock")
def test_refused_websocket_is_audited_once_a_minute() -> None:
    place = make_place()
    session = place.run()
    admin = make_user(admin_of=place.project)
    for error, session_id, query in (
        (PermissionDenied, session.pk, b""),
        (NotFound, uuid4(), b""),
        (NotFound, uuid4(), b""),
    ):
        with pytest.raises(error):
            enter_session(scope_of(session_id, query), admin, action=OPEN_TERMINAL)
    entries = AuditEntry.objects.filter(action="requests.refuse", actor_id=admin.pk).order_by("pk")
    assert [(each.reason, each.count) for each in entries] == [("permission_denied", 1), ("not_found", 2)]
    place.end(session)
    with pytest.raises(Conflict):
        enter_session(scope_of(session.pk), place.owner, action=OPEN_TERMINAL)


def test_a_refusal_of_one_among_many_is_recorded(
    people: People, browser_of: Callable[[User], Client]
) -> None:
    browser = browser_of(people.domain_admin)
    asked = {"person": [people.superadmin.pk, people.member.pk], "confirm": "close 2"}
    assert "1 of 2 closed" in browser.post("/people/close/", asked).content.decode()
    entry = AuditEntry.objects.get(action="requests.refuse", actor_id=people.domain_admin.pk)
    assert (entry.target_label, entry.changes["asked"]) == (people.superadmin.email, "POST /people/close/")
