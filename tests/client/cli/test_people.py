"""Tokens, users, projects and domains on the command line, on a test transport."""

import json
from typing import Any

import httpx
import pytest

from berth.errors import InvalidInput, NotFound
from tests.client.conftest import Command
from tests.client.wires import TOKEN, Wire, client_on, page

TOKEN_ROW: dict[str, Any] = {
    "id": 7,
    "name": "night",
    "access_key": "bkaaaa",
    "scopes": ["read"],
    "is_active": True,
}
USER_ROW: dict[str, Any] = {
    "id": 3,
    "email": "kim@berth.test",
    "name": "Kim",
    "role": "user",
    "domain": "lab",
    "is_active": True,
}
PROJECT_ROW: dict[str, Any] = {"id": 5, "name": "vision", "title": "", "domain": "lab", "is_active": True}


def made(row: dict[str, Any], status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=row)


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the command talk to a wire with these answers."""

    def talk(*answers: httpx.Response) -> Wire:
        client, wire = client_on(*answers)
        monkeypatch.setattr("berth.cli.context.Client", lambda profile: client)
        return wire

    return talk


def test_a_token_is_made_and_printed_alone(portal: Any, command: Command) -> None:
    wire = portal(made({**TOKEN_ROW, "token": TOKEN}, 201))
    done = command("token", "create", "night", "--scope", "read", "--scope", "sessions", "--expires", "never")
    assert (done.code, done.out.strip()) == (0, TOKEN)
    assert wire.body() == {"name": "night", "scopes": ["read", "sessions"], "expires_at": None}


def test_a_token_lives_as_long_as_was_said(portal: Any, command: Command) -> None:
    wire = portal(made({**TOKEN_ROW, "token": TOKEN}, 201))
    assert command("token", "create", "night", "--expires", "30d").code == 0
    assert wire.body()["expires_at"]
    assert command("token", "create", "night", "--expires", "soon").code == 2


def test_a_token_is_found_by_name_rotated_switched_and_deleted(portal: Any, command: Command) -> None:
    wire = portal(page(TOKEN_ROW), made({**TOKEN_ROW, "token": TOKEN}))
    assert command("token", "rotate", "night", "--grace", "2").out.strip() == TOKEN
    assert wire.body() == {"grace_hours": 2}
    wire = portal(page(TOKEN_ROW), made(TOKEN_ROW))
    assert command("token", "off", "night").code == 0
    assert wire.body() == {"is_active": False}
    wire = portal(page(TOKEN_ROW), httpx.Response(204))
    assert command("token", "delete", "night").code == 2
    wire = portal(page(TOKEN_ROW), httpx.Response(204))
    assert command("token", "delete", "night", "--confirm", "night").code == 0
    assert wire.paths[-1].startswith("DELETE /api/v1/keypairs/7/")


@pytest.mark.parametrize(
    ("arguments", "asked", "body"),
    [
        (("user", "edit", "KIM@berth.test", "--role", "domain_admin"), "PATCH /api/v1/users/3/", {"role": "domain_admin"}),
        (("user", "close", "kim@berth.test", "--confirm", "kim@berth.test"), "POST /api/v1/users/3/closing/", {"folders": "keep", "heir": ""}),
        (("user", "sign-in", "kim@berth.test", "--must-change"), "PATCH /api/v1/users/3/sign-in/", {"must_change_password": True}),
        (("user", "sign-in", "kim@berth.test", "--everywhere"), "PATCH /api/v1/users/3/sign-in/", {"allowed_networks": []}),
        (("user", "sign-in", "kim@berth.test"), "GET /api/v1/users/3/sign-in/", None),
        (("user", "reset-second-factor", "kim@berth.test", "--confirm", "kim@berth.test"), "DELETE /api/v1/users/3/second-factor/", None),
        (("user", "mail-password", "kim@berth.test"), "POST /api/v1/users/3/password-mail/", None),
        (("user", "open", "kim@berth.test"), "DELETE /api/v1/users/3/closing/", None),
        (("user", "purge", "kim@berth.test", "--confirm", "kim@berth.test"), "DELETE /api/v1/users/3/", None),
        (("user", "revoke-token", "kim@berth.test", "9"), "DELETE /api/v1/users/3/keypairs/9/", None),
    ],
)  # fmt: skip
def test_people_are_changed(
    portal: Any, command: Command, arguments: tuple[str, ...], asked: str, body: object
) -> None:
    wire = portal(page(USER_ROW), made(USER_ROW))
    assert command(*arguments).code == 0
    assert wire.paths[-1] == asked
    assert body is None or wire.body() == body


def test_browsers_are_listed_and_signed_out(portal: Any, command: Command) -> None:
    portal(page({"id": "abc", "device": "Firefox", "ip": "192.0.2.1"}))
    assert "Firefox" in command("browser", "list").out
    wire = portal(httpx.Response(204))
    assert command("browser", "revoke", "abc").code == 0
    assert wire.paths == ["DELETE /api/v1/me/logins/abc/"]
    portal(made({"ended": 2}))
    assert "Signed out: 2." in command("browser", "revoke", "--all").err
    assert command("browser", "revoke").code == 2
    wire = portal(page(USER_ROW), made({"ended": 1}))
    assert "Signed out: 1." in command("user", "sign-out", "kim@berth.test").err
    assert wire.paths[-1] == "DELETE /api/v1/users/3/logins/"


def test_a_person_is_added_and_the_first_link_is_printed(portal: Any, command: Command) -> None:
    wire = portal(made({**USER_ROW, "sign_in_url": "https://berth.test/x"}, 201))
    done = command("user", "create", "kim@berth.test", "--project", "vision")
    assert done.out.strip() == "https://berth.test/x"
    assert wire.body() == {"email": "kim@berth.test", "projects": ["vision"]}


@pytest.mark.parametrize(
    ("arguments", "asked", "body"),
    [
        (("project", "edit", "vision", "--title", ""), "PATCH /api/v1/projects/5/", {"title": ""}),
        (("project", "close", "vision"), "PATCH /api/v1/projects/5/", {"is_active": False}),
        (("project", "open", "vision"), "PATCH /api/v1/projects/5/", {"is_active": True}),
        (("project", "purge", "vision", "--confirm", "vision"), "DELETE /api/v1/projects/5/", None),
        (("domain", "close", "vision", "--confirm", "vision"), "PATCH /api/v1/domains/5/", {"is_active": False}),
        (("domain", "edit", "vision", "--name", "sight"), "PATCH /api/v1/domains/5/", {"name": "sight"}),
    ],
)  # fmt: skip
def test_projects_and_domains_are_changed(
    portal: Any, command: Command, arguments: tuple[str, ...], asked: str, body: object
) -> None:
    wire = portal(
        *[page(PROJECT_ROW)] * (2 if arguments[:2] == ("domain", "close") else 1), made(PROJECT_ROW)
    )
    assert command(*arguments).code == 0
    assert wire.paths[-1] == asked
    assert body is None or wire.body() == body


def test_members_come_and_go(portal: Any, command: Command) -> None:
    member = {"id": 3, "email": "kim@berth.test", "name": "Kim", "role": "admin"}
    wire = portal(page(PROJECT_ROW), made(member, 201))
    assert command("project", "add", "vision", "kim@berth.test", "--role", "admin").code == 0
    assert wire.body() == {"email": "kim@berth.test", "role": "admin"}
    wire = portal(page(PROJECT_ROW), page(member), httpx.Response(204))
    assert command("project", "remove", "vision", "kim@berth.test").code == 0
    assert wire.paths[-1] == "DELETE /api/v1/projects/5/members/3/"


RULES = {"rules": [{"kind": "mail", "value": "uni.example"}]}


def test_rules_for_members_are_looked_at_and_set(portal: Any, command: Command) -> None:
    impact = {"joining_count": 12, "leaving_count": 0, "joining": ["kim@berth.test"], "leaving": []}
    wire = portal(page(PROJECT_ROW), made(impact))
    shown = command("project", "rule", "preview", "vision", "--mail", "uni.example").out
    assert "12 join, 0 leave." in shown
    assert "kim@berth.test" in shown
    assert wire.body() == RULES
    portal(page(PROJECT_ROW), made(impact))
    assert json.loads(command("project", "rule", "preview", "vision", "--json").out) == impact
    wire = portal(page(PROJECT_ROW), made(RULES))
    wanted = ("--everybody", "--mail", "uni.example", "--group", "campus:staff")
    assert command("project", "rule", "set", "vision", *wanted).code == 0
    assert wire.paths[-1] == "PUT /api/v1/projects/5/rules/"
    assert [rule["kind"] for rule in wire.body()["rules"]] == ["all", "mail", "group"]
    portal(page(PROJECT_ROW), made(RULES))
    assert "uni.example" in command("project", "rule", "list", "vision").out
    failure = {"email": "ada@uni.example", "reason": "Too many of them."}
    portal(page(PROJECT_ROW), made({"rules": [], "failures": [failure]}))
    listed = command("project", "rule", "list", "vision").out
    assert "Could not be followed for ada@uni.example: Too many of them." in listed
    portal(page(PROJECT_ROW), made({"rules": []}))
    assert json.loads(command("project", "rule", "list", "vision", "--json").out) == {"rules": []}


@pytest.mark.parametrize("what", ["token", "user", "project", "domain"])
def test_lists_are_json_as_the_portal_gave_them(portal: Any, command: Command, what: str) -> None:
    row = {"token": TOKEN_ROW, "user": USER_ROW}.get(what, PROJECT_ROW)
    portal(page(row))
    assert json.loads(command(what, "list", "--json").out) == [row]
    portal(page(row))
    assert str(row["id"]) in command(what, "list").out


def test_the_access_log_is_read_page_by_page_as_far_as_asked(portal: Any, command: Command) -> None:
    lines = [{"id": number, "recorded_at": "2026-01-01T00:00:00Z", "action": "a.b"} for number in (3, 2, 1)]
    first = httpx.Response(
        200, json={"next": "https://berth.test/api/v1/audit/?cursor=xyz", "results": lines[:2]}
    )
    wire = portal(first, httpx.Response(200, json={"next": None, "results": lines[2:]}))
    assert json.loads(command("audit", "--json", "--outcome", "refused").out) == lines
    assert "cursor=xyz" in wire.paths[1]
    assert "outcome=refused" in wire.paths[1]


def test_what_is_not_there_or_there_twice_is_said() -> None:
    client, _wire = client_on(page())
    with pytest.raises(NotFound, match="no user"):
        client.users.find("nobody@berth.test")
    client, _wire = client_on(page(PROJECT_ROW, {**PROJECT_ROW, "id": 6}))
    with pytest.raises(InvalidInput, match="5, 6"):
        client.managed_projects.find("vision")
