"""Resource groups on the command line, on a test transport."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.cli.test_people import made, portal
from tests.client.conftest import Command
from tests.client.wires import page

__all__ = ("portal",)
GROUP: dict[str, Any] = {
    "id": 3, "name": "gpu", "description": "", "is_default": True, "is_active": False, "is_public": False,
    "scheduler": "drf", "strategy": "dispersed", "session_types": ["batch"], "max_session_slots": {"cpu": 8000},
    "max_lifetime_s": 3600, "ageing_s": 60, "patience_s": 600, "usage_half_life_s": 604800, "agents": 2,
    "max_idle_s": 7200, "min_cpu_percent": 5, "min_mem_percent": 10, "use_rule": "any", "use_window_s": 1800,
    "use_grace_s": 600, "ends_idle_batch": True, "max_extensions": 2, "extension_s": 900,
}  # fmt: skip
GRANT = {"id": 7, "level": "user", "of": 5, "name": "ada@uni.example"}
LIMITS: list[dict[str, Any]] = [
    {"name": "By day", "session_types": ["batch"], "together": {"cuda": 8000}, "each": {"cuda": 2000},
     "days": [1, 2, 3, 4, 5], "begins": "08:00", "ends": "18:00", "time_zone": "Europe/Berlin"},
    {"name": "Fair", "session_types": [], "together": {}, "each": {"mem": 2**36, "cpu": 8000}, "days": [],
     "begins": "", "ends": "", "time_zone": ""},
    {"name": "Off", "session_types": ["batch", "interactive"], "together": {"cuda": 0}, "each": {},
     "days": [1, 2, 4, 5, 6], "begins": "22:00", "ends": "06:00", "time_zone": "UTC"},
]  # fmt: skip
STANDING = {
    "level": "user", "id": 5, "name": "ada@uni.example", "above": ["uni", "vision"], "weight": 2.5, "target": 0.4,
    "held": 0.25, "lately": 0.1, "counts": 0.14,
}  # fmt: skip
PERSON = {"id": 5, "email": "ada@uni.example"}


def test_groups_are_listed_and_shown(portal: Any, command: Command) -> None:
    portal(page(GROUP))
    assert command("group", "list").out.splitlines()[1] == "gpu\t2\tdrf\tdispersed\tdefault paused granted"
    portal(page(GROUP))
    shown = command("group", "show", "gpu").out
    for words in ("largest session", "7200 s", "cpu 5 % or mem 10 %", "2 of 900 s"):
        assert words in shown
    portal(page(GROUP))
    assert json.loads(command("group", "show", "3", "--json").out) == GROUP
    portal(page())
    assert "There is no resource group" in command("group", "show", "absent").err


def test_a_group_that_wants_no_use_shows_what_it_says_for_policies_that_do(
    portal: Any, command: Command
) -> None:
    for is_batch_too in (True, False):
        row = {**GROUP, "min_cpu_percent": None, "min_mem_percent": None, "ends_idle_batch": is_batch_too}
        portal(page(row))
        facts = dict(line.split("\t") for line in command("group", "show", "gpu").out.splitlines())
        assert (facts["measured over"], facts["grace"]) == ("1800 s", "600 s")
        assert facts.get("batch too") == ("yes" if is_batch_too else None)
        assert "ends below" not in facts


def test_limits_of_a_group_are_shown_in_words(portal: Any, command: Command) -> None:
    portal(page({**GROUP, "limits": LIMITS}))
    assert [
        line for line in command("group", "show", "gpu").out.splitlines() if line.startswith("limit ")
    ] == [
        "limit 1\tBy day: batch, together cuda 8, each cuda 2, Mon-Fri 08:00-18:00 Europe/Berlin",
        "limit 2\tFair: all sessions, each cpu 8, mem 64 GiB, always",
        "limit 3\tOff: batch and interactive, together cuda 0, Mon,Tue,Thu-Sat 22:00-06:00 UTC",
    ]


def test_limits_are_read_from_a_file(portal: Any, command: Command, tmp_path: Path) -> None:
    typed = [{"name": "Fair", "each": {"cuda": 2, "mem": "64g"}}]
    file = tmp_path / "limits.json"
    file.write_text(json.dumps(typed))
    wire = portal(page(GROUP), made(GROUP))
    assert command("group", "set", "gpu", "--limits", str(file)).code == 0
    assert wire.body() == {"limits": typed}
    wire = portal(made(GROUP))
    assert command("group", "create", "gpu", "--limits", "-", stdin=json.dumps(typed)).code == 0
    assert wire.body() == {"name": "gpu", "limits": typed}
    wire = portal(page(GROUP), made(GROUP))
    assert command("group", "set", "gpu", "--limits", "none").code == 0
    assert wire.body() == {"limits": []}


def test_a_file_that_is_no_list_of_limits_is_refused_here(
    portal: Any, command: Command, tmp_path: Path
) -> None:
    portal()
    for text, words in (("[", "cannot be read as JSON"), ("{}", "is no list of limits")):
        assert words in command("group", "set", "gpu", "--limits", "-", stdin=text).err
    assert "cannot be read" in command("group", "set", "gpu", "--limits", str(tmp_path / "absent")).err


@pytest.mark.parametrize(
    ("typed", "change"),
    [
        (["--paused"], {"is_active": False}),
        (["--rdma", "--no-gpudirect-storage"], {"allows_rdma": True, "allows_gpudirect_storage": False}),
        (["--sandbox", "kata"], {"sandbox": "kata"}),
        (["--public", "--default"], {"is_public": True, "is_default": True}),
        (["--largest", "cpu=8,mem=64g"], {"max_session_slots": {"cpu": "8", "mem": "64g"}}),
        (["--largest", "none"], {"max_session_slots": {}}),
        (["--lifetime", "12h", "--ageing", "none"], {"max_lifetime_s": 43200, "ageing_s": None}),
        (["--types", "interactive,batch"], {"session_types": ["interactive", "batch"]}),
        (["--name", "big", "--scheduler", "fifo"], {"name": "big", "scheduler": "fifo"}),
        (
            ["--scheduler", "fair_share", "--half-life", "2d"],
            {"scheduler": "fair_share", "usage_half_life_s": 172800},
        ),
        (
            ["--ends-up-to", "-5", "--undisturbed", "1h", "--notice", "2m"],
            {"preemptible_priority": -5, "preemption_after_s": 3600, "preemption_grace_s": 120},
        ),
        (
            ["--cpu-overcommit", "2.5x", "--mem-overcommit", "1.2"],
            {"cpu_overcommit": "2.5", "mem_overcommit": "1.2"},
        ),
        (["--ends-up-to", "none"], {"preemptible_priority": None}),
        (
            ["--ends", "idle=2h,cpu=5%,device-mem=10,low=any,window=30m,grace=10m,batch=yes"],
            {
                "max_idle_s": 7200,
                "min_cpu_percent": 5,
                "min_device_mem_percent": 10,
                "use_rule": "any",
                "use_window_s": 1800,
                "use_grace_s": 600,
                "ends_idle_batch": True,
            },
        ),
        (["--ends", "idle=none,mem=none"], {"max_idle_s": None, "min_mem_percent": None}),
        (
            ["--ends", "extensions=none, extension=1h, batch=no"],
            {"max_extensions": 0, "extension_s": 3600, "ends_idle_batch": False},
        ),
    ],
)
def test_what_is_typed_is_sent(portal: Any, command: Command, typed: list[str], change: Any) -> None:
    wire = portal(page(GROUP), made(GROUP))
    assert command("group", "set", "gpu", *typed).code == 0
    assert wire.body() == change


@pytest.mark.parametrize(
    "typed",
    [
        ["--lifetime", "soon"],
        ["--largest", "cpu"],
        ["--ends-up-to", "low"],
        ["--ends", "sleep=2h"],
        ["--ends", "idle"],
        ["--ends", "cpu=much"],
        ["--ends", "batch=maybe"],
    ],
)
def test_what_cannot_be_read_is_refused_here(portal: Any, command: Command, typed: list[str]) -> None:
    portal()
    assert command("group", "create", "gpu", *typed).code != 0


def test_a_group_is_made_granted_filled_and_deleted(portal: Any, command: Command) -> None:
    wire = portal(made(GROUP))
    command("group", "create", "gpu", "--granted", "--json")
    assert wire.body() == {"name": "gpu", "is_public": False}
    wire = portal(page(GROUP), page(PERSON), made(GRANT))
    assert command("group", "grant", "gpu", "--user", "ada@uni.example").code == 0
    assert wire.body() == {"level": "user", "id": 5}
    portal(page(GROUP), page(GRANT))
    assert command("group", "grants", "gpu").out.splitlines()[1] == "user\tada@uni.example"
    portal(page(GROUP), page(GRANT))
    assert json.loads(command("group", "grants", "gpu", "--json").out) == [GRANT]
    portal(page(GROUP), page(GRANT), made({}))
    assert command("group", "revoke", "gpu", "--user", "ada@uni.example").code == 0
    portal(page(GROUP), page())
    assert command("group", "revoke", "gpu", "--project", "vision").code != 0
    assert command("group", "grant", "gpu").code != 0
    wire = portal(page(GROUP), made({}))
    assert command("group", "add-agent", "gpu", "gpu-01").code == 0
    assert wire.body() == {"agent": "gpu-01"}
    portal(page(GROUP), made({}))
    assert command("group", "delete", "gpu").code == 0


def test_weights_are_listed_and_set(portal: Any, command: Command) -> None:
    wire = portal(page(GROUP), page(STANDING, {**STANDING, "target": None}))
    listed = command("group", "weights", "gpu", "--level", "user").out.splitlines()
    assert listed[1] == "uni/vision/ada@uni.example\t2.5\t40.0%\t25.0%\t10.0%\t14.0%"
    assert listed[2].split("\t")[2] == ""
    portal(page(GROUP), page(STANDING))
    assert json.loads(command("group", "weights", "gpu", "--json").out) == [STANDING]
    wire = portal(page(GROUP), page(PERSON), made({}))
    assert command("group", "weight", "gpu", "3", "--user", "ada@uni.example").code == 0
    assert wire.body() == {"level": "user", "id": 5, "weight": "3"}


def test_ticks_and_who_had_to_leave_are_listed(portal: Any, command: Command) -> None:
    tick = {"id": 9, "planned_at": "2026-05-01T08:00:00Z", "read_us": 1000, "decide_us": 500, "commit_us": 2000,
            "placed": 3, "waiting": 2, "reasons": {"no_capacity": 2}, "is_replayable": True}  # fmt: skip
    wire = portal(page(GROUP), page(tick, tick))
    listed = command("group", "ticks", "gpu", "--limit", "1").out.splitlines()
    assert [line.split("\t")[1:] for line in listed[1:]] == [["3", "2", "no_capacity 2", "3.5 ms"]]
    assert "/resource-groups/3/ticks/" in str(wire.requests[-1].url)
    portal(page(GROUP), page(tick))
    assert json.loads(command("group", "ticks", "gpu", "--json").out) == [tick]
    waits = {"started": 9, "half_s": 0.02, "nine_of_ten_s": 4.0, "longest_s": 61.5}
    wire = portal(page(GROUP), made(waits))
    assert command("group", "waits", "gpu").out.splitlines()[1] == "9\t0.02 s\t4.00 s\t61.50 s"
    assert "/resource-groups/3/waits/" in str(wire.requests[-1].url)
    portal(page(GROUP), made(waits))
    assert json.loads(command("group", "waits", "gpu", "--json").out) == waits
    left = {"session": "a" * 32, "name": "low", "by": "b" * 32, "by_name": "high", "agent": "gpu-01",
            "decided_at": "2026-05-01T08:00:00Z", "ends_at": "2026-05-01T08:01:00Z", "outcome": "spared"}  # fmt: skip
    portal(page(GROUP), page(left))
    listed = command("group", "preemptions", "gpu").out.splitlines()
    assert listed[1].split("\t")[1:] == ["low", "high", "gpu-01", "spared"]
    portal(page(GROUP), page(left))
    assert json.loads(command("group", "preemptions", "gpu", "--json").out) == [left]


def test_a_queue_names_own_sessions_alone(portal: Any, command: Command) -> None:
    own = {"position": 1, "name": "train", "is_own": True, "resources": {"cpu": 1000}, "message": "More."}
    theirs = {"position": 2, "resources": {"cpu": 2000}, "containers": 2, "message": "More."}
    wire = portal(page(own, theirs))
    lines = [line.split("\t") for line in command("queue", "gpu").out.splitlines()[1:]]
    assert [line[:4] for line in lines] == [
        ["1", "train", "you", "cpu 1"],
        ["2", "someone", "", "cpu 2 x 2"],
    ]
    assert "resource_group=gpu" in str(wire.requests[-1].url)
    portal(page(own))
    assert json.loads(command("queue", "--json").out) == [own]
