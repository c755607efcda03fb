"""Storage hosts on the command line, on a test transport."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.cli.test_people import made, portal
from tests.client.conftest import Command
from tests.client.wires import page

__all__ = ("portal",)
HOST: dict[str, Any] = {
    "id": 3, "name": "nas", "is_default": False, "is_active": True, "reach": "path", "agent_path": "/srv/folders",
    "volume_options": {}, "has_secret": False,
    "machines": [
        {"agent": "here", "is_reached": True, "error": "", "checked_at": None},
        {"agent": "gpu-2", "is_reached": False, "error": "The machine cannot mount it.", "checked_at": None},
    ],
}  # fmt: skip


def test_hosts_are_listed_with_each_machine(portal: Any, command: Command) -> None:
    portal(page(HOST))
    lines = command("storage-host", "list").out.splitlines()
    assert lines[1:] == [
        "nas\tpath /srv/folders\there\tyes\t\t",
        "nas\tpath /srv/folders\tgpu-2\tno\t\tThe machine cannot mount it.",
    ]
    portal(page(HOST))
    assert json.loads(command("storage-host", "ls", "--json").out) == [HOST]


def test_a_host_is_reached_by_a_path_or_a_volume_or_not(
    portal: Any, command: Command, tmp_path: Path
) -> None:
    wire = portal(page(HOST), made(HOST))
    assert command("storage-host", "change", "nas", "--path", "/srv/folders").code == 0
    assert wire.paths[-1] == "PATCH /api/v1/storage-hosts/3/"
    assert wire.body() == {"reach": "path", "agent_path": "/srv/folders"}
    password = tmp_path / "password"
    password.write_text("hunter2\n")
    wire = portal(page(HOST), made(HOST))
    typed = ("--volume", "cifs", "--share", "//nas/f", "--options", "username=b,password={secret}")
    assert command("storage-host", "change", "3", *typed, "--password-file", str(password)).code == 0
    options = {"type": "cifs", "device": "//nas/f", "o": "username=b,password={secret}"}
    assert wire.body() == {"reach": "volume", "volume_options": options, "secret": "hunter2"}
    wire = portal(page(HOST), made(HOST))
    assert command("storage-host", "change", "nas", "--local").code == 0
    assert wire.body() == {"reach": "local"}


@pytest.mark.parametrize("typed", [(), ("--local", "--path", "/x"), ("--path", "/x", "--share", ":/y")])
def test_a_change_that_says_nothing_or_two_things_is_refused(
    portal: Any, command: Command, typed: tuple[str, ...]
) -> None:
    wire = portal(page(HOST))
    assert command("storage-host", "change", "nas", *typed).code == 2
    assert wire.requests == []


def test_machines_prove_a_host_again(portal: Any, command: Command) -> None:
    wire = portal(page(HOST), made(HOST, 202))
    assert command("storage-host", "check", "nas").code == 0
    assert wire.paths[-1] == "POST /api/v1/storage-hosts/3/check/"
    portal(page())
    assert "There is no storage host" in command("storage-host", "check", "absent").err


def test_a_host_is_added_restricted_and_removed(portal: Any, command: Command, tmp_path: Path) -> None:
    wire = portal(made(HOST))
    (tmp_path / "key").write_text("hunter2\n")
    typed = ("--kind", "smb", "--set", "server=nas", "--set-file", f"password={tmp_path / 'key'}")
    assert command("storage-host", "add", "nas", *typed).code == 0
    assert wire.body() == {
        "name": "nas", "kind": "smb", "settings": {"server": "nas", "password": "hunter2"},
    }  # fmt: skip
    wire = portal(page(HOST), made(HOST))
    assert command("storage-host", "rights", "nas", "--grant", "project:a/b=create,mount").code == 0
    grant = {"holder": "project", "name": "a/b", "rights": ["create", "mount"]}
    assert wire.body() == {"is_restricted": True, "grants": [grant]}
    wire = portal(page(HOST), made(HOST))
    assert command("storage-host", "settings", "nas", "--inactive").code == 0
    assert wire.body() == {"is_active": False}
    assert command("storage-host", "settings", "nas").code == 2
    wire = portal(page(HOST), made(HOST))
    assert command("storage-host", "remove", "nas").code == 0
    assert wire.paths[-1] == "DELETE /api/v1/storage-hosts/3/"
