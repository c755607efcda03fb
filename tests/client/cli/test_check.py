"""`berth check`, and `berth show` of a pending session, on a test transport."""

import json
from typing import Any

from tests.client.cli.test_people import made, portal
from tests.client.conftest import Command
from tests.client.wires import page, session_row

__all__ = ("portal",)
IMAGE = {"id": 1, "reference": "python:3", "is_allowed": True}
RANGE = {"earliest_s": 60, "latest_s": 600, "message": "It will probably start in 1 min to 10 min."}
CHECK: dict[str, Any] = {
    "starts_now": False, "message": "Waits for 2 cores.", "queue_position": 3, "expected_start": RANGE,
    "best_room": {"cpu": 1000}, "other_groups": ["lab"], "resource_group": "default", "resources": {"cpu": 2000},
}  # fmt: skip


def test_a_check_says_when_and_where_and_starts_nothing(portal: Any, command: Command) -> None:
    options = ("--project", "vision", "--cpu", "2", "--group", "default", "-t", "2h")
    wire = portal(page(IMAGE), made(CHECK))
    said = command("check", "python:3", *options).out
    for words in ("later", "Waits for 2 cores.", RANGE["message"], "cpu 1", "lab", "3"):
        assert words in said
    body = wire.body()
    assert (body["resources"], body["timeout_s"]) == ({"cpu": "2", "mem": "1g"}, 7200)

    wire = portal(page(IMAGE), made(CHECK))
    command(
        "check", "python:3", "--project", "vision", "--nodes-on", "spread", "--role", "worker=2,cpu=1,mem=1g"
    )
    roles = [{"name": "worker", "count": 2, "resources": {"cpu": "1", "mem": "1g"}}]
    assert (wire.body()["cluster_mode"], wire.body()["roles"]) == ("spread", roles)
    wire = portal(page(IMAGE), made(CHECK))
    command("check", "python:3", "--project", "vision", "--nodes", "0")
    assert wire.body()["cluster_size"] == 0  # the portal refuses it

    portal(page(IMAGE), made({**CHECK, "expected_start": None}))
    assert "unknown" in command("check", "python:3", "--project", "vision").out
    portal(page(IMAGE), made(CHECK))
    assert json.loads(command("check", "python:3", "--project", "vision", "--json").out) == CHECK


def test_a_session_that_waits_says_when_it_will_start(portal: Any, command: Command) -> None:
    for found, words in ((RANGE, RANGE["message"]), (None, "unknown")):
        waiting = session_row(status="PENDING")
        portal(made(waiting), made({"status": "PENDING", "expected_start": found}))
        assert words in command("show", waiting["id"]).out


def test_a_session_that_waits_says_what_would_let_it_start(portal: Any, command: Command) -> None:
    waiting = session_row(status="PENDING")
    more = {"who_may_raise": "A superadmin may.", "best_room": {"cpu": 1000}, "other_groups": ["lab"]}
    portal(made(waiting), made({"status": "PENDING", "expected_start": None, **more}))
    said = command("show", waiting["id"]).out
    for words in ("A superadmin may.", "cpu 1", "lab"):
        assert words in said


def test_a_priority_is_changed(portal: Any, command: Command) -> None:
    wire = portal(page(session_row(status="PENDING")), made(session_row(status="PENDING", priority=-5)))
    assert "waits with priority -5" in command("priority", session_row()["name"], "--", "-5").err
    assert (wire.paths[-1].split(" ")[0], wire.body()) == ("PUT", {"priority": -5})


STAY = {
    "since": "2027-01-31T14:00:00Z",
    "until": None,
    "reason": "no_capacity",
    "message": "Waits.",
    "position": 4,
}
PAST: dict[str, Any] = {
    "at": "2027-01-31T14:05:00Z", "since": STAY["since"], "reason": "no_capacity", "message": "Waits.",
    "tick": {"planned_at": STAY["since"], "position": 3, "waiting": 9, "placed": 2, "is_same": True, "message": "Waits."},
}  # fmt: skip


def test_why_it_waited_is_told(portal: Any, command: Command) -> None:
    name, then = session_row()["name"], ("--at", "2027-01-31T14:05+00:00")

    def said(*options: str, **answer: Any) -> str:
        portal(page(session_row()), made({"stays": [], "wait": None, **answer}))
        return command("why", name, *options).out

    assert "Waits." in said(stays=[STAY])
    assert said().splitlines() == ["since\tuntil\tposition\twhy"]
    for words in ("Waits.", "3 of 9"):
        assert words in said(*then, wait=PAST)
    assert "Waits." in said(*then, wait={**PAST, "tick": None})
    assert "did not wait" in said(*then)
    assert '"stays"' in said("--json", stays=[STAY])
