"""Images on machines on the command line, on a test transport."""

import json
from typing import Any

import httpx
import pytest

from tests.client.cli.test_people import portal
from tests.client.conftest import Command
from tests.client.wires import page

__all__ = ("portal",)
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
