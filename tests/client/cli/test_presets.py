"""Presets on the command line, on a test transport."""

import json
from typing import Any

import pytest

from tests.client.cli.test_people import made, portal
from tests.client.conftest import Command
from tests.client.wires import page, session_row

__all__ = ("portal",)
PRESET: dict[str, Any] = {
    "id": 4, "name": "half", "sharing": "project", "project": "vision", "domain": None,
    "resources": {"cpu": 4000, "mem": 2**34, "cuda": 500}, "shm_bytes": 2**30, "changed_by": "ada@uni.example",
}  # fmt: skip
OF_ALL = {
    **PRESET,
    "id": 5,
    "sharing": "everybody",
    "project": None,
    "resources": {"cpu": 1000, "mem": 2**30},
}
IMAGE = {"id": 1, "reference": "berth/python:1"}
SESSION = session_row(status="PENDING")


def test_presets_are_listed_added_and_removed(portal: Any, command: Command) -> None:
    portal(page(PRESET, OF_ALL))
    lines = command("preset", "ls").out.splitlines()
    assert lines[1] == "4\thalf\tvision\tcpu 4, mem 16 GiB, cuda 0.5, shm 1 GiB"
    assert lines[2].split("\t")[2] == "everybody"
    portal(page(PRESET))
    assert json.loads(command("preset", "list", "--json").out) == [PRESET]
    wire = portal(made(PRESET))
    typed = ("--cpu", "4", "--mem", "16g", "--shm", "1g", "--resource", "cuda=0.5", "--project", "vision")
    assert command("preset", "add", "half", *typed).out == "4\n"
    resources = {"cpu": "4", "mem": "16g", "shm": "1g", "cuda": "0.5"}
    assert wire.body() == {"name": "half", "sharing": "project", "place": "vision", "resources": resources}
    own = PRESET | {"sharing": "own", "project": None}
    wire = portal(made(own))
    assert command("preset", "add", "half", "--cpu", "4", "--mem", "16g").out == "4\n"
    assert (wire.body()["sharing"], wire.body()["place"]) == ("own", "")
    portal(page(own))
    assert command("preset", "ls").out.splitlines()[1].split("\t")[2] == "only you"
    portal()
    both = ("--project", "vision", "--everybody")
    assert "For whom?" in command("preset", "add", "half", "--cpu", "4", "--mem", "16g", *both).err
    wire = portal(page(PRESET, OF_ALL), made({}))
    assert command("preset", "rm", "half").code == 0
    assert wire.requests[-1].url.path.endswith("/presets/4/")
    portal(page())
    assert "There is no preset" in command("preset", "rm", "absent").err


@pytest.mark.parametrize(
    ("typed", "resources"),
    [
        ([], {"cpu": "4", "mem": str(2**34), "cuda": "0.5", "shm": str(2**30)}),
        (["--cpu", "2", "--shm", "2g"], {"cpu": "2", "mem": str(2**34), "cuda": "0.5", "shm": "2g"}),
    ],
)
@pytest.mark.parametrize("verb", [("start",), ("run",)])
def test_a_session_is_started_with_a_preset(
    portal: Any, command: Command, verb: tuple[str], typed: list[str], resources: dict[str, str]
) -> None:
    wire = portal(page(IMAGE), page(PRESET, OF_ALL), made(SESSION))
    words = ["python", "--project", "vision", "--preset", "half", "--detach", *typed]
    words += ["--", "true"] if verb == ("run",) else []
    assert command(*verb, *words).code == 0
    assert wire.body()["resources"] == resources


def test_presets_of_other_projects_are_not_meant(portal: Any, command: Command) -> None:
    wire = portal(page(IMAGE), page(PRESET, OF_ALL), made(SESSION))
    words = ("python", "--project", "speech", "--preset", "half", "--detach")
    assert command("start", *words).code == 0
    assert wire.body()["resources"]["cpu"] == "1"
