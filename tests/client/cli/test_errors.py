"""Every error ends in one line and an exit code, never in a traceback."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from berth import InvalidInput
from berth.cli import main
from berth.cli.exits import FAILED, FAULT, INTERRUPTED, NOT_SIGNED_IN, REFUSED, UNREACHABLE, USAGE
from berth.profiles import ProfileFile, write_profiles
from berth.transport import json_bytes
from tests.client.conftest import Command
from tests.client.wires import TOKEN

BERTH = Path(sys.executable).with_name("berth")
HTML = b"<html>Sign in to the proxy"


def answer(status: str, body: bytes = b"", *heads: str, length: int | None = None) -> bytes:
    told = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *heads]
    return "\r\n".join([*told, "", ""]).encode() + body


class Odd:
    """A server on the loopback that gives one answer to everything and hangs up."""

    def __init__(self) -> None:
        self.said = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://localhost:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(self.said)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Odd]:
    with closing(Odd()) as server:
        monkeypatch.setenv("BERTH_URL", server.url)
        monkeypatch.setenv("BERTH_TOKEN", TOKEN)
        yield server


JSON = "Content-Type: application/json"
ODD_ANSWERS: dict[str, tuple[bytes, int, str]] = {
    "a page": (answer("200 OK", HTML, "Content-Type: text/html"), FAILED, "does not answer like a Berth"),
    "bytes": (answer("200 OK", bytes(range(256)), JSON), FAILED, "does not answer like a Berth"),
    "half of JSON": (answer("200 OK", b'{"results": [', JSON), FAILED, "does not answer like a Berth"),
    "deep JSON": (answer("200 OK", b"[" * 100_000, JSON), FAILED, "does not answer like a Berth"),
    "a list": (answer("200 OK", b"[1]", JSON), FAILED, "sent no list"),
    "null": (answer("200 OK", b"null", JSON), FAILED, "sent no list"),
    "rows of another kind": (
        answer("200 OK", b'{"results": [3], "next": null}', JSON),
        FAILED,
        "something else",
    ),
    "nothing": (answer("204 No Content"), FAILED, "does not answer like a Berth"),
    "no gzip": (answer("200 OK", b"abc", "Content-Encoding: gzip"), FAILED, "cannot be unpacked"),
    "a redirect": (
        answer("302 Found", b"", "Location: https://sso.test/in"),
        FAILED,
        "sends us on to https://sso",
    ),
    "a refusal as a page": (answer("403 Forbidden", HTML), REFUSED, "answered 403"),
    "a refusal as a list": (answer("403 Forbidden", b"[1]", JSON), REFUSED, "answered 403"),
    "a fault": (answer("500 Oops", HTML), FAILED, "answered 500"),
    "away": (answer("503 Service Unavailable", HTML), UNREACHABLE, "answered 503"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", UNREACHABLE, "does not answer"),
    "no answer": (b"", UNREACHABLE, "does not answer"),
    "a body that breaks": (answer("200 OK", b'{"res', JSON, length=99), UNREACHABLE, "does not answer"),
}


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_what_is_no_portal_is_told(name: str, odd: Odd, command: Command, no_pauses: list[float]) -> None:
    odd.said, code, words = ODD_ANSWERS[name]
    for arguments in (("ls",), ("folder", "ls"), ("image", "ls")):
        done = command(*arguments)
        assert (done.code, done.out) == (code, "")
        assert words in done.err
        assert len(done.err.splitlines()) <= 2


@pytest.mark.parametrize(
    "body", [b"[1]", b"3", b"{}", b'{"content": 1}', b'{"ended": "x"}', b'{"results": 1}']
)
def test_answers_of_another_shape_are_told_wherever_they_come(
    body: bytes, odd: Odd, command: Command, no_pauses: list[float]
) -> None:
    odd.said = answer("200 OK", body, JSON)
    for line in (
        "whoami", "limits", "audit", "queue", "events", "startup-script show", "browser revoke --all",
        "dotfile list", "token list", "user show 7", "policy list", "preferences show", "cp s:a .", "folder files d",
    ):  # fmt: skip
        done = command(*line.split())
        assert done.code in (0, FAILED), (line, done.err)
        assert "a fault of this command" not in done.err, (line, done.err)


ENVIRONMENTS: dict[str, tuple[dict[str, str], int, str]] = {
    "no such name": ({"BERTH_URL": "http://nowhere.invalid"}, UNREACHABLE, "does not answer"),
    "no such port": ({"BERTH_URL": "http://localhost:1"}, UNREACHABLE, "does not answer"),
    "an empty label": ({"BERTH_URL": "https://a..b"}, USAGE, "no address that can be asked"),
    "a long label": ({"BERTH_URL": f"https://{'a' * 70}.test"}, USAGE, "no address that can be asked"),
    "a wrong port": ({"BERTH_URL": "https://a:b"}, USAGE, "is not the address of a portal"),
    "no authority": ({"BERTH_CA_FILE": "/nowhere/ca.pem"}, USAGE, "cannot be read"),
    "an odd proxy": ({"BERTH_URL": "http://a.test", "http_proxy": "x"}, USAGE, "proxy of this machine"),
    "a proxy of SOCKS": ({"BERTH_URL": "http://a.test", "http_proxy": "socks5://x"}, USAGE, "proxy of this machine"),
    "an odd token": ({"BERTH_TOKEN": "bk\nx"}, NOT_SIGNED_IN, "not a token"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_that_leads_nowhere_is_told(
    name: str, command: Command, monkeypatch: pytest.MonkeyPatch, no_pauses: list[float]
) -> None:
    variables, code, words = ENVIRONMENTS[name]
    given = {"BERTH_URL": "https://berth.test", "BERTH_TOKEN": TOKEN, **variables}
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    done = command("ls")
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_profiles_that_cannot_be_read_or_written_are_told(
    command: Command, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = empty_home / ".config" / "berth" / "config.toml"
    file.parent.mkdir(parents=True)
    for content in (b"\xff\xfe", b"a = " + b"[" * 5000, b"profiles = 3", b"[profiles.x]\nurl = 1"):
        file.write_bytes(content)
        done = command("ls")
        assert (done.code, "cannot be read" in done.err) == (USAGE, True)
    file.unlink()
    file.mkdir()
    assert "cannot be read: " in command("ls").err
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/nowhere")
    with pytest.raises(InvalidInput, match="cannot be written: No such file"):
        write_profiles(ProfileFile())


def test_without_a_home_the_environment_is_enough(
    command: Command, odd: Odd, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd.said = answer("200 OK", b'{"results": [], "next": null}', JSON)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert command("image", "ls").code == 0
    assert "HOME is not set" in command("ssh-key", "add").err
    assert "HOME is not set" in command("dotfile", "put", ".vimrc").err
    monkeypatch.delenv("BERTH_TOKEN")
    assert "HOME is not set" in command("image", "ls").err


@pytest.mark.parametrize(
    "line",
    [
        "create -f {}", "template save t -f {}", "ssh-key add {}", "dotfile put .x {}", "startup-script set {}",
        "user import {}", "group set gpu --limits {}", "api POST sessions/ --data @{}",
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_are_told_by_every_command(
    line: str, command: Command, odd: Odd, tmp_path: Path, no_pauses: list[float]
) -> None:
    odd.said = answer("200 OK", b'{"results": [], "next": null}', JSON)
    (tmp_path / "utf-16").write_bytes("a: ü".encode("utf-16"))
    for name, words in (("absent", "No such file"), ("", "Is a directory"), ("utf-16", "UTF-8")):
        done = command(*line.format(tmp_path / name).split())
        assert done.code == USAGE, (name, done)
        assert words in done.err
    assert "has more than" in command(*line.format("/dev/zero").split()).err


def test_names_that_no_address_can_hold_are_told(command: Command, odd: Odd) -> None:
    odd.said = answer("200 OK", b'{"results": [], "next": null}', JSON)
    for arguments in (("show", "\udcff"), ("api", "GET", "\udcff"), ("ls", "--name", "\udcff")):
        done = command(*arguments)
        assert (done.code, "is not UTF-8" in done.err) == (USAGE, True)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), INTERRUPTED, ""),
        (EOFError(), INTERRUPTED, ""),
        (BrokenPipeError(), FAILED, ""),
        (OSError(28, "No space left on device"), FAILED, "No space left on device."),
        (PermissionError(13, "Permission denied", "/x"), FAILED, "/x: Permission denied."),
        (ZeroDivisionError("x\ny"), FAULT, "a fault of this command: ZeroDivisionError: x\n"),
        (RecursionError(), FAULT, "RecursionError"),
    ],
)
def test_each_error_ends_in_a_code(
    error: BaseException, code: int, words: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(main, "_command", lambda: fail)
    done = command("ls")
    assert done.code == code
    assert words in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("BERTH_DEBUG", "1")
    assert ("Traceback" in command("ls").err) == (code == FAULT)


def test_output_that_nobody_takes_ends_the_command_quietly(odd: Odd) -> None:
    row = b'{"id": 1, "reference": "%s", "title": "t"}' % (b"x" * 200)
    odd.said = answer("200 OK", b'{"results": [' + b",".join([row] * 2000) + b'], "next": null}', JSON)
    environment = dict(os.environ)

    def shell(line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", line.replace("berth", str(BERTH))],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    assert shell("berth image ls | head -1 >/dev/null; exit ${PIPESTATUS[0]}") == (FAILED, "")
    assert shell("berth image ls --json >/dev/full") == (FAILED, "berth: No space left on device.\n")
    assert shell("berth image ls >&- <&-") == (0, "")
    assert shell("berth image ls 2>&- >/dev/null") == (0, "")
    assert shell("berth absent 2>/dev/full") == (USAGE, "")


def test_what_json_does_not_have_is_refused_at_the_wall_of_the_library_with_its_place() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value, words in (
        ({"a": [1, {"day": date(2026, 12, 1)}]}, "“a.1.day” is a date"),
        ({"a": {1j: 2}}, "“a” has a name that is a complex"),
        ({"a": float("nan")}, "“a” is nan"),
        ({"a": {1, 2}}, "“a” is a set"),
        ({"a": b"x"}, "“a” is a bytes"),
        (endless, "within itself"),
        ({"a": "\ud800"}, "is not UTF-8"),
    ):
        with pytest.raises(InvalidInput, match=words):
            json_bytes(value)
