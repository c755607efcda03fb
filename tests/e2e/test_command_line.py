"""The command `berth` on a whole portal with a real engine."""

import hashlib
import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from berth import Client
from tests.e2e.command import CommandLine
from tests.e2e.person import Person
from tests.e2e.portal import RunningPortal
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SMALL = ("--cpu", "0.5", "--mem", "256m")


@pytest.fixture
def berth(portal: RunningPortal, user: Person, tmp_path: Path) -> CommandLine:
    return CommandLine(portal.url, user, tmp_path)


def checksum(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_a_run_prints_what_its_command_writes_and_ends_with_its_code(berth: CommandLine) -> None:
    program = "import sys; print(6 * 7); print('oh', file=sys.stderr); sys.exit(7)"
    done = berth.run("run", *SMALL, "--env", "A=b", "python", "--", "python", "-c", program)
    assert done.returncode == 7, done.stderr
    assert sorted(done.stdout.splitlines()) == [b"42", b"oh"]
    assert b"pending" in done.stderr


def test_ctrl_c_stops_the_session_of_a_run(berth: CommandLine, user: Person) -> None:
    running = berth.start("run", *SMALL, "--name", "endless", "python", "--", "echo begun; exec sleep 1d")
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"
        running.send_signal(signal.SIGINT)
        _, told = berth.end_of(running)
    finally:
        running.kill()
    assert running.returncode == 130, told
    assert b"stopping endless" in told
    session = json.loads(berth.say("show", "endless", "--json"))
    assert (session["status"], session["status_reason"]) == ("TERMINATED", "user_requested")


def test_a_log_is_followed_to_the_end_of_its_session(berth: CommandLine) -> None:
    script = "echo one; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo two"
    session_id = berth.say("run", *SMALL, "--detach", "python", "--", script)
    following = berth.start("logs", "-f", session_id)
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == b"one\n"
        assert berth.run("exec", session_id, "--", "touch", "/tmp/go").returncode == 0
        assert berth.end_of(following)[0] == b"two\n"
    finally:
        following.kill()
    assert following.returncode == 0
    assert berth.say("logs", session_id) == "one\ntwo"


def test_commands_run_in_a_session_with_separate_output_and_their_code(
    berth: CommandLine, shared_session: dict[str, Any]
) -> None:
    name = shared_session["name"]
    done = berth.run(
        "exec", name, "--env", "A=7", "-w", "/tmp", "--", "sh", "-c", "echo $A $PWD; echo oh >&2; exit 5"
    )
    assert (done.returncode, done.stdout, done.stderr) == (5, b"7 /tmp\n", b"oh\n")
    assert berth.run("exec", name, "--", "cat", input=b"not handed on").stdout == b""
    data = random.Random(1).randbytes(3_000_000)
    assert berth.run("exec", "-i", name, "--", "cat", input=data).stdout == data
    assert berth.run("exec", name, "--", "no-such-program").returncode == 127
    assert berth.run("exec", "-t", name, "--", "ls").returncode == 2
    assert berth.run("exec", "absent", "--", "ls").returncode == 3


def test_ctrl_c_reaches_a_command_in_a_session(
    berth: CommandLine, portal: RunningPortal, shared_session: dict[str, Any]
) -> None:
    running = berth.start("exec", shared_session["name"], "--", "sh", "-c", "echo begun; exec sleep 4321")
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"
        running.send_signal(signal.SIGINT)
        berth.end_of(running)
    finally:
        running.kill()
    assert running.returncode == 130
    wait_until(
        lambda: not any("4321" in line for line in portal.commands_in(shared_session["id"])), deadline_s=60
    )


def test_a_terminal_in_a_session_is_a_real_one(berth: CommandLine, shared_session: dict[str, Any]) -> None:
    with berth.in_terminal("exec", "-it", shared_session["name"], "--", "bash", "--norc") as terminal:
        terminal.type("stty size; tty; echo $TERM $((6 * 7))\n")
        terminal.expect(r"^30 100$")
        terminal.expect(r"^/dev/pts/\d+$")
        terminal.expect(r"^xterm 42$")
        terminal.resize(90, 20)
        terminal.type("until [ \"$(stty size)\" = '20 90' ]; do sleep 0.1; done; echo resi''zed\n")
        terminal.expect(r"resized$")  # after the line once more, when bash draws it anew just then
        terminal.type("sh -c 'echo sle''eps; exec sleep 4321'\n")  # who says so has the terminal already
        terminal.expect(r"^sleeps$")
        terminal.type("\x03")  # a key like others: it ends the sleep, not us
        terminal.type("echo code $?\n")
        terminal.expect(r"^code 130$")
        terminal.type("exit 9\n")
        assert terminal.exit_code() == 9


def test_a_shell_ends_with_the_command(
    berth: CommandLine, portal: RunningPortal, shared_session: dict[str, Any]
) -> None:
    with berth.in_terminal("shell", shared_session["name"]) as terminal:
        terminal.type("exec sleep 9876\n")
        wait_until(
            lambda: any("sleep 9876" in line for line in portal.commands_in(shared_session["id"])),
            deadline_s=60,
        )
    wait_until(
        lambda: not any("sleep 9876" in line for line in portal.commands_in(shared_session["id"])),
        deadline_s=60,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with a large file, an empty one, an odd name and an empty directory."""
    tree = tmp_path / "tree"
    (tree / "sub dir" / "empty").mkdir(parents=True)
    (tree / "large").write_bytes(random.Random(2).randbytes(5_000_000))
    (tree / "sub dir" / "grüße %20'\".sh").write_text("#!/bin/sh\necho hello\n")
    (tree / "sub dir" / "grüße %20'\".sh").chmod(0o755)
    (tree / "nothing").touch()
    return tree


def contents(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): checksum(path) if path.is_file() else "directory"
        for path in directory.rglob("*")
    }


def test_files_go_to_a_folder_and_back(berth: CommandLine, user: Person, tree: Path) -> None:
    folder = f"copies-{os.getpid()}"
    berth.say("folder", "create", folder)
    berth.say("cp", "tree", f"{folder}:")
    assert json.loads(berth.say("folder", "usage", folder, "--json"))["file_count"] == 3
    berth.say("cp", f"folder:{folder}:tree/.", "back")
    assert contents(berth.home / "back") == contents(tree)
    berth.say("cp", f"{folder}:tree/large", "one")
    assert checksum(berth.home / "one") == checksum(tree / "large")

    output = berth.say("run", *SMALL, "-q", "-m", folder, "python", "--", "md5sum", f"{folder}/tree/large")
    assert output.split()[0] == checksum(tree / "large")
    berth.say("folder", "delete", folder)


def test_files_go_to_a_session_and_back(
    berth: CommandLine, shared_session: dict[str, Any], tree: Path
) -> None:
    name = shared_session["name"]
    berth.say("cp", "tree", f"{name}:copies/tree")
    listing = berth.say("exec", name, "--", "md5sum", "copies/tree/large")
    assert listing.split()[0] == checksum(tree / "large")
    assert berth.say("exec", name, "--", "copies/tree/sub dir/grüße %20'\".sh") == "hello"
    berth.say("cp", f"session:{name}:/home/work/copies/tree/.", "back")
    assert contents(berth.home / "back") == contents(tree)
    berth.say("cp", f"{name}:copies/tree/large", "one")
    assert checksum(berth.home / "one") == checksum(tree / "large")
    berth.say("cp", "one", f"{name}:/tmp/")
    assert berth.say("exec", name, "--", "md5sum", "/tmp/one").split()[0] == checksum(tree / "large")
    assert berth.run("cp", "one", f"{name}:/etc/one").returncode == 4
    assert berth.run("cp", f"{name}:absent", "two").returncode == 3


def test_a_program_does_the_same_by_the_library(portal: RunningPortal, user: Person) -> None:
    with Client(portal.url, user.token) as client:
        image = next(client.images()).reference
        session = client.sessions.start(image, project="demo", cpu=0.5, mem="512m").wait_running(120)
        try:
            assert session.apps
            assert session.exec("cat", input=b"hello").stdout == b"hello"
            session.files.write("notes/one.txt", b"one")
            assert [entry.name for entry in session.files.list("notes").entries] == ["one.txt"]
            assert b"".join(session.files.read("notes/one.txt")) == b"one"
        finally:
            ended = session.stop().wait_ended(120)
        assert [one.to_status for one in ended.history()][-1] == "TERMINATED"
