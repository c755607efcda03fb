"""Folders on the command line, on a test transport."""

from typing import Any

from tests.client.cli.test_people import made, portal
from tests.client.conftest import Command
from tests.client.wires import page

__all__ = ("portal",)
FOLDER: dict[str, Any] = {"id": "f-1", "name": "data", "state": "ready", "mode": "data"}
TRASHED = FOLDER | {"state": "trashed", "expires_at": "2030-01-02T03:04:05Z"}


def test_folders_are_renamed_trashed_restored_and_purged(portal: Any, command: Command) -> None:
    wire = portal(page(FOLDER), made(FOLDER | {"name": "better"}))
    assert "better now" in command("folder", "rename", "data", "better").err
    assert wire.body() == {"name": "better"}
    portal(page(FOLDER), made({}))
    assert "in the trash" in command("folder", "trash", "data").err
    portal(page(TRASHED))
    assert "2030" in command("folder", "ls", "--trash").out
    wire = portal(page(TRASHED), made(FOLDER | {"name": "old"}))
    assert "old is back" in command("folder", "restore", "data", "--name", "old").err
    assert wire.body() == {"name": "old"}
    wire = portal(page(TRASHED), made({}))
    assert "for ever" in command("folder", "purge", "data", "--yes").err
    assert wire.body() == {"name": "data"}


def test_clone_waits_and_says_how_far_it_is(portal: Any, command: Command) -> None:
    copying = FOLDER | {
        "name": "copy",
        "state": "cloning",
        "clone": {"bytes_done": 2**20, "bytes_total": 2**21, "files_done": 3},
    }
    portal(page(FOLDER), made(copying), made(FOLDER | {"name": "copy"}))
    shown = command("folder", "clone", "data", "copy")
    assert "1 MiB of 2 MiB, 3 files" in shown.err
    assert "copy is ready" in shown.err
    portal(page(FOLDER), made(copying | {"clone": {"error": "Copying stopped. (No room.)"}}))
    assert command("folder", "clone", "data", "copy").code == 1
