"""Resource policies, and images on machines, on the command line, on a test transport."""

import json
from typing import Any

import httpx
import pytest

from tests.client.cli.test_people import made, portal
from tests.client.conftest import Command
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
        ("least.cpu=30", {"min_cpu_percent": 30}),
        ("least.device-mem=5%", {"min_device_mem_percent": 5}),
        ("least.mem=", {"min_mem_percent": None}),
        ("low=all", {"use_rule": "all"}),
        ("low=", {"use_rule": "any"}),
        ("window=30m", {"use_window_s": 1800}),
        ("grace=", {"use_grace_s": None}),
        ("mem=64g", {"max_slots": {"cpu": 2.0, "mem": "64g"}}),
    ],
)
def test_limits_are_typed_as_words(portal: Any, command: Command, typed: str, change: dict[str, Any]) -> None:
    wire = portal(page(POLICY), made(IMPACT), made(POLICY))
    assert command("policy", "set", "lab", typed).code == 0
    assert wire.body() == change


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
@pytest.mark.parametrize("is_ending", [True, False])
def test_limits_that_end_running_sessions_say_so(
    portal: Any, command: Command, is_ending: bool, options: tuple[str, ...]
) -> None:
    portal(page(POLICY), made({**IMPACT, "is_ending": is_ending}), made(POLICY))
    told = command("policy", "set", "lab", "least.cpu=5", *options)
    assert ("end by the new idle timeout" in told.err) == is_ending


@pytest.mark.parametrize("typed", ["least.cpu=much", "least.cpu=-1", "window=soon", "sessions=5%"])
def test_what_is_no_amount_is_refused(portal: Any, command: Command, typed: str) -> None:
    portal(page(POLICY))
    refused = command("policy", "set", "lab", typed)
    assert refused.code != 0
    assert "is no amount for" in refused.err


def test_what_sessions_have_to_use_is_shown_in_percent(portal: Any, command: Command) -> None:
    least = {"min_cpu_percent": 30, "min_device_percent": 5, "use_window_s": 1800, "use_grace_s": 3600}
    portal(page({**POLICY, **least, "use_rule": "all"}))
    row = command("policy", "list").out.splitlines()[1].split("\t")
    assert row[4].startswith(
        "sessions 10, least.cpu 30 %, least.devices 5 %, window 30 min, grace 1 h, low all, cpu 2"
    )
    limit = {"level": "user", "scope": "a@berth.example", "policy": "lab", "used": 0}
    rows = [
        {**limit, "limit": "min_cpu_percent", "value": 30, "left": 0},
        {**limit, "limit": "min_mem_percent", "value": 5, "left": 0, "is_joint": True},
        {**limit, "limit": "use_grace_s", "value": 3600, "left": 3600},
    ]
    portal(made({"limits": rows, "levels": []}))
    assert [line.split("\t")[:4] for line in command("limits").out.splitlines()[1:]] == [
        ["min_cpu_percent", "at least 30 %", "", ""], ["min_mem_percent", "at least 5 %, or another", "", ""],
        ["use_grace_s", "1 h", "0 s", "1 h"],
    ]  # fmt: skip


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


# Images on machines

IMAGE = {"id": 7, "reference": "berth/python:1", "machines": 1, "machines_total": 2}
TRANSFER = {
    "id": 1,
    "agent": "gpu-02",
    "state": "running",
    "done_bytes": 2**20,
    "total_bytes": 2**22,
    "error": "",
}
COMING = {"agent": "gpu-02", "resource_group": "gpu", "state": "coming", "image": None, "transfer": TRANSFER}
THERE = {**COMING, "state": "there", "image": {"used_at": None}}
FAILED = {**COMING, "state": "failed", "transfer": {**TRANSFER, "error": "no space left"}}


def test_image_is_brought_to_a_group_and_awaited(
    portal: Any, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.images.time.sleep", lambda seconds: None)
    wire = portal(page(IMAGE), httpx.Response(202, json=[TRANSFER]), page(COMING), page(THERE))
    done = command("image", "pull", "python", "--group", "gpu")
    assert (done.code, done.out.splitlines()[1:]) == (0, ["gpu-02\tthere\t"])
    assert wire.body(1) == {"agents": [], "resource_group": "gpu"}

    portal(page(IMAGE), httpx.Response(202, json=[TRANSFER]), page(FAILED))
    done = command("image", "pull", "python", "--agent", "gpu-02")
    assert (done.code, done.out.splitlines()[1:]) == (1, ["gpu-02\tfailed\tno space left"])


def test_machines_of_an_image_are_listed(portal: Any, command: Command) -> None:
    portal(page(IMAGE), page(COMING))
    assert (
        command("image", "machines", "python").out.splitlines()[1] == "gpu-02\tgpu\tcoming\t1 MiB of 4 MiB\t"
    )
    portal(page(IMAGE), page(COMING))
    assert json.loads(command("image", "machines", "python", "--json").out) == [COMING]
