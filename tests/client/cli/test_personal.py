"""SSH keys, dotfiles and preferences on the command line, on a test transport."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.client.conftest import Command
from tests.client.wires import Wire, client_on, page

KEY_ROW: dict[str, Any] = {
    "id": 4,
    "name": "laptop",
    "key_type": "ssh-ed25519",
    "fingerprint": "SHA256:abc",
    "public_key": "ssh-ed25519 AAAA",
    "created_at": "2026-11-20T08:00:00Z",
    "expires_at": None,
    "last_used_at": None,
    "last_used_ip": None,
}


@pytest.fixture
def portal(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets the command talk to a wire with these answers."""

    def talk(*answers: httpx.Response) -> Wire:
        client, wire = client_on(*answers)
        monkeypatch.setattr("berth.cli.context.Client", lambda profile: client)
        return wire

    return talk


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def test_the_usual_public_key_is_added(portal: Any, command: Command, home: Path) -> None:
    (home / ".ssh" / "id_ed25519.pub").write_text("ssh-ed25519 AAAA kim@laptop\n")
    wire = portal(httpx.Response(201, json=KEY_ROW))
    done = command("ssh-key", "add")
    assert (done.code, done.out.strip()) == (0, "SHA256:abc")
    assert wire.body() == {"public_key": "ssh-ed25519 AAAA kim@laptop\n", "name": ""}


def test_without_a_key_one_is_told_how_to_make_one(portal: Any, command: Command, home: Path) -> None:
    portal()
    done = command("ssh-key", "add")
    assert done.code == 2
    assert "ssh-keygen" in done.err


def test_a_private_key_never_leaves_the_machine(portal: Any, command: Command, home: Path) -> None:
    file = home / ".ssh" / "id_ed25519"
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
    wire = portal()
    done = command("ssh-key", "add", str(file))
    assert done.code == 2
    assert "private key; it was not sent" in done.err
    assert wire.requests == []


def test_files_that_are_no_keys_are_not_sent(portal: Any, command: Command, home: Path) -> None:
    (home / "long").write_text("x" * 9000)
    portal()
    assert "has more than 8 KiB" in command("ssh-key", "add", str(home / "long")).err
    assert "cannot be read" in command("ssh-key", "add", str(home / "absent")).err


def test_keys_are_listed_and_removed_by_name(portal: Any, command: Command) -> None:
    portal(page(KEY_ROW))
    assert "SHA256:abc" in command("ssh-key", "list").out
    wire = portal(page(KEY_ROW), httpx.Response(204))
    assert command("ssh-key", "remove", "laptop").code == 0
    assert wire.requests[-1].method == "DELETE"


# Dotfiles and the start-up script


FILE_ROW: dict[str, Any] = {"path": ".vimrc", "mode": "0600", "size_bytes": 3, "changed_at": None}


def test_a_file_of_the_home_directory_is_kept_with_its_mode(
    portal: Any, command: Command, home: Path
) -> None:
    (home / ".vimrc").write_text("set\n")
    (home / ".vimrc").chmod(0o660)
    wire = portal(httpx.Response(201, json=FILE_ROW))
    assert command("dotfile", "put", ".vimrc").code == 0
    assert wire.body() == {"path": ".vimrc", "content": "set\n", "mode": "0640"}
    wire = portal(httpx.Response(200, json=FILE_ROW))
    assert command("dotfile", "put", ".vimrc", str(home / ".vimrc"), "--mode", "0600", "--json").code == 0
    assert wire.body()["mode"] == "0600"


def test_files_that_cannot_be_kept_are_not_sent(portal: Any, command: Command, home: Path) -> None:
    (home / "binary").write_bytes(b"\xff\xfe")
    (home / "long").write_text("x" * 70_000)
    wire = portal()
    assert "cannot be read as text" in command("dotfile", "put", "binary").err
    assert "has more than 64 KiB" in command("dotfile", "put", "long").err
    assert "cannot be read" in command("startup-script", "set", str(home / "absent")).err
    assert wire.requests == []


def test_dotfiles_are_listed_shown_and_removed(portal: Any, command: Command) -> None:
    portal(page(FILE_ROW))
    assert ".vimrc" in command("dotfile", "list").out
    portal(httpx.Response(200, json={**FILE_ROW, "content": "set\n"}))
    assert command("dotfile", "show", ".vimrc").out == "set\n"
    wire = portal(httpx.Response(204))
    assert command("dotfile", "remove", ".config/a b").code == 0
    assert wire.paths[-1] == "DELETE /api/v1/dotfiles/file/?path=.config%2Fa+b"


def test_a_script_is_set_shown_and_removed(portal: Any, command: Command, home: Path) -> None:
    (home / "s.sh").write_text("date\n")
    wire = portal(httpx.Response(200, json={"content": "date\n"}))
    assert command("startup-script", "set", str(home / "s.sh")).code == 0
    assert wire.body() == {"content": "date\n"}
    portal(httpx.Response(200, json={"content": "date\n"}))
    assert command("startup-script", "show").out == "date\n"
    wire = portal(httpx.Response(204))
    assert command("startup-script", "remove").code == 0
    assert wire.requests[-1].method == "DELETE"


PREFERENCES: dict[str, Any] = {
    "language": "",
    "muted_notifications": ["finished"],
    "mailed_notifications": [],
    "no_mail_because": "No mail is set up here.",
}


def test_preferences_are_shown_and_changed(portal: Any, command: Command) -> None:
    portal(httpx.Response(200, json=PREFERENCES))
    shown = command("preferences", "show").out
    assert "as the browser asks" in shown
    assert "No mail is set up here." in shown

    wire = portal(httpx.Response(200, json=PREFERENCES))
    done = command("preferences", "set", "--mail", "failed, safety", "--mute", "", "--json")
    assert done.code == 0
    assert wire.body() == {"mailed_notifications": ["failed", "safety"], "muted_notifications": []}


def test_to_change_nothing_is_a_mistake(portal: Any, command: Command) -> None:
    portal()
    assert command("preferences", "set").code == 2
