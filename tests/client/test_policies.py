"""Resource policies on the command line, on wires of their own."""

import json
from typing import Any

import pytest

from tests.client.conftest import Command
from tests.client.test_people import made, portal
from tests.client.wires import page

__all__ = ("portal",)
POLICY: dict[str, Any] = {
    "id": 3, "name": "lab", "max_sessions": 10, "max_slots": {"cpu": 2000}, "max_pending_slots": {},
    "allowed_images": ["berth/*", "python"], "allowed_registries": None, "allowed_storage_hosts": [],
}  # fmt: skip
IMPACT = {"counts": {"user": 2}, "above": [], "above_count": 0}


def test_a_policy_is_listed_with_what_it_limits_and_allows(portal: Any, command: Command) -> None:
    portal(page(POLICY))
    row = command("policy", "list").out.splitlines()[1].split("\t")
    assert row == ["3", "lab", "all", "", "sessions 10, cpu 2, images berth/* python, hosts none"]
    portal(page(POLICY))
    assert json.loads(command("policy", "show", "lab", "--json").out) == POLICY


@pytest.mark.parametrize(
    ("typed", "change"),
    [
        ("images=berth/*, python", {"allowed_images": ["berth/*", "python"]}),
        ("images=", {"allowed_images": None}),
        ("hosts=none", {"allowed_storage_hosts": []}),
        ("registries=ghcr.io,local", {"allowed_registries": ["ghcr.io", "local"]}),
        ("requests=600", {"max_requests": 600}),
        ("priority=10", {"max_priority": 10}),
        ("lifetime=12h", {"max_lifetime_s": 43200}),
        ("storage=500G", {"max_folder_bytes": 500 * 2**30}),
        ("mem=64g", {"max_slots": {"cpu": 2.0, "mem": "64g"}}),
    ],
)
def test_limits_are_typed_as_words(portal: Any, command: Command, typed: str, change: dict[str, Any]) -> None:
    wire = portal(page(POLICY), made(IMPACT), made(POLICY))
    assert command("policy", "set", "lab", typed).code == 0
    assert wire.body() == change


def test_effective_lists_stand_below_the_limits(portal: Any, command: Command) -> None:
    row = {"list": "images", "level": "project", "scope": "vision", "policy": "lab", "entries": ["berth/*"]}
    found = {"limits": [], "levels": [], "allow_lists": [row, {**row, "level": "user", "entries": []}]}
    portal(made(found))
    assert command("limits").out.splitlines()[1:] == [
        "images\tberth/*\tproject vision\tlab", "images\tnone\tuser vision\tlab",
    ]  # fmt: skip
    portal(made({"limits": [], "levels": []}))
    assert command("limits").out == "limit\tmost\tused\tleft\tset by\tpolicy\n"


def test_images_say_whether_one_may_use_them(portal: Any, command: Command) -> None:
    row = {"id": 1, "reference": "python:3", "is_allowed": False, "objections": ["No."]}
    wire = portal(page(row))
    assert command("image", "ls", "--project", "vision").out.splitlines()[1].endswith("\tno")
    assert wire.requests[-1].url.params["project"] == "vision"
