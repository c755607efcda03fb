"""The documentation of the command agrees with the command."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from berth.cli.main import app
from berth.cli.reference import reference
from tests.client.conftest import Command

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "client" / "src").rglob("*.py"))


def test_the_page_of_the_command_is_made_from_the_command() -> None:
    stale = "Make it anew: .venv/bin/python -m berth.cli.reference > docs/cli.md"
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference(), stale


def test_every_command_and_option_says_what_it_is_for() -> None:
    lines = [line for line in reference().splitlines() if line.startswith("| ")]
    assert [line for line in lines if line.split(" | ")[-1].strip(" |") == ""] == ["| | |"] * lines.count(
        "| | |"
    )


@pytest.mark.parametrize(
    "words", [(), ("run",), ("exec",), ("cp",), ("folder",), ("folder", "upload"), ("agent", "ls")]
)
def test_help_is_there_without_a_portal(words: tuple[str, ...], command: Command) -> None:
    done = command(*words, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: berth")


def test_the_version_is_that_of_the_project(command: Command) -> None:
    from importlib.metadata import version

    assert command("--version").out == f"berth {version('berth')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_is_printed_for_each_shell(shell: str, command: Command) -> None:
    done = command("completion", shell)
    assert done.code == 0
    assert "_BERTH_COMPLETE" in done.out


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("ls", "--nonsense"),
        ("show",),
        ("run", "image"),
        ("start", "image", "--timeout", "0"),
        ("cp", "a", "b"),
        ("cp", "a:b", "c:d"),
        ("api", "BREW", "coffee/"),
        ("api", "POST", "x/", "--data", "{"),
        ("completion", "tcsh"),
    ],
)
def test_a_command_that_cannot_be_understood_is_refused_in_two_lines(
    words: tuple[str, ...], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_URL", "http://localhost:1")
    monkeypatch.setenv("BERTH_TOKEN", "bk.x")
    done = command(*words)
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first.startswith("berth: ")
    assert second.startswith("hint: ")


def test_every_module_says_what_it_is_for() -> None:
    assert [path.name for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))] == []


# They print nothing, or what a program, a file or the portal says word for word.
WITHOUT_JSON = {
    "login", "logout", "logs", "exec", "shell", "cp", "api", "completion", "folder delete", "folder upload",
    "folder rename", "folder mode", "folder clone", "folder trash", "folder restore", "folder purge",
    "folder end-sessions", "folder leave", "folder unshare", "folder unlink", "folder transfer", "folder accept",
    "folder decline",
    "folder cp", "folder restore-files", "folder download", "folder cat", "folder mkdir", "folder rm", "project purge", "project remove", "policy delete",
    "policy assign", "budget delete", "price delete", "profile use", "profile path", "token delete", "ssh-key remove",
    "user purge", "user revoke-token", "user sign-out", "user mail-password", "user reset-second-factor",
    "domain purge", "group delete", "group grant", "group revoke", "group unreserve", "group add-agent", "browser revoke", "dotfile show", "dotfile remove", "template delete", "preset remove", "preset rm",
    "startup-script set", "startup-script show", "startup-script remove", "agent withhold", "agent release",
    "storage-host remove", "agent add", "agent drain", "agent maintenance", "agent remove", "agent resume", "agent retire", "agent ssh-key",
}  # fmt: skip


def test_every_command_that_tells_something_tells_it_as_json() -> None:
    assert {
        name for name, options in commands_below(get_command(app)) if "--json" not in options
    } == WITHOUT_JSON


def commands_below(command: Any, *words: str) -> Iterator[tuple[str, set[str]]]:
    """(words, options) of each."""
    for name, below in getattr(command, "commands", {}).items():
        yield from commands_below(below, *words, name)
    if not hasattr(command, "commands"):
        yield " ".join(words), {option for parameter in command.params for option in parameter.opts}
