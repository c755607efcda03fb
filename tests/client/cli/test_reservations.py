"""Reservations on the command line, on a test transport."""

import json
from typing import Any

import pytest

from tests.client.cli.test_people import made, portal
from tests.client.cli.test_resource_groups import GROUP, PERSON
from tests.client.conftest import Command
from tests.client.wires import page

__all__ = ("portal",)
OWN: dict[str, Any] = {
    "id": 4, "name": "Course", "reason": "", "starts_at": "2030-01-01T08:00:00Z", "ends_at": "2030-01-01T10:00:00Z",
    "level": "user", "grantee": "ada@uni.example", "agents": ["gpu-1", "gpu-2"], "is_open": False,
}  # fmt: skip
OTHERS = {**OWN, "id": 5, "name": "", "level": "", "grantee": ""}
MAINTENANCE = {**OWN, "id": 6, "name": "Disks", "level": "", "grantee": ""}


def test_they_are_listed(portal: Any, command: Command) -> None:
    portal(page(GROUP), page(OWN, OTHERS, MAINTENANCE))
    lines = [line.split("\t") for line in command("group", "reservations", "gpu").out.splitlines()[1:]]
    assert [(line[0], line[1], line[4], line[5]) for line in lines] == [
        ("4", "Course", "user ada@uni.example", "gpu-1, gpu-2"),
        ("5", "reserved", "others", "gpu-1, gpu-2"),
        ("6", "Disks", "nobody (maintenance)", "gpu-1, gpu-2"),
    ]
    portal(page(GROUP), page(OWN))
    assert [each["id"] for each in json.loads(command("group", "reservations", "gpu", "--json").out)] == [4]


def test_machines_are_reserved_and_given_back(portal: Any, command: Command) -> None:
    typed = (
        "group",
        "reserve",
        "gpu",
        "Course",
        "--to",
        "2030-01-01T10:00Z",
        "--agent",
        "gpu-1",
        "--agent",
        "gpu-2",
    )
    wire = portal(page(GROUP), page(PERSON), made(OWN))
    assert command(*typed, "--from", "2030-01-01T08:00Z", "--user", "ada@uni.example").out.strip() == "4"
    sent = wire.body()
    assert (sent["level"], sent["id"], sent["agents"]) == ("user", 5, ["gpu-1", "gpu-2"])
    wire = portal(page(GROUP), made(MAINTENANCE))
    assert json.loads(command(*typed, "--json").out)["id"] == 6
    assert (wire.body()["starts_at"], "level" in wire.body()) == (None, False)
    wire = portal(page(GROUP), made({}))
    assert command("group", "unreserve", "gpu", "4").code == 0
    assert str(wire.requests[-1].url).endswith("/resource-groups/3/reservations/4/")


def test_one_is_changed(portal: Any, command: Command) -> None:
    wire = portal(page(GROUP), made({**OWN, "name": "Exam"}))
    typed = ("group", "change-reservation", "gpu", "4")
    assert (
        command(*typed, "--name", "Exam", "--to", "2030-01-01T11:00Z", "--agent", "gpu-1").out.strip() == "4"
    )
    assert wire.body() == {"name": "Exam", "ends_at": "2030-01-01T11:00:00+00:00", "agents": ["gpu-1"]}
    assert wire.requests[-1].method == "PATCH"
    wire = portal(page(GROUP), made(OWN))
    assert json.loads(command(*typed, "--reason", "", "--json").out)["id"] == 4
    assert wire.body() == {"reason": ""}
    portal(page(GROUP))
    refused = command(*typed)
    assert refused.code != 0
    assert "Say what to change" in refused.err


@pytest.mark.parametrize("wrong", [["--to", "soon"], ["--to", "2030-01-01", "--user", "a", "--project", "b"]])
def test_what_cannot_be_read_is_refused_here(portal: Any, command: Command, wrong: list[str]) -> None:
    portal(page(GROUP))
    assert command("group", "reserve", "gpu", "Course", "--agent", "gpu-1", *wrong).code != 0
