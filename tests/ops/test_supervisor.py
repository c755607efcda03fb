"""Promises of the supervisor, shown on small real processes."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from portal.ops.processes import is_alive
from portal.ops.services.sockets import listen
from portal.ops.services.supervisor import Service, ServiceFailed, Supervisor, run_once
from tests.waiting import wait_until

SPEAKS_AND_STAYS = """
import pathlib, os, time
pathlib.Path("pid").write_text(str(os.getpid()))
print("hello from the child", flush=True)
time.sleep(60)
"""
IGNORES_SIGTERM = """
import pathlib, os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("pid").write_text(str(os.getpid()))
time.sleep(60)
"""

SERVES_AN_INHERITED_SOCKET = """
import os, pathlib, socket, sys
pathlib.Path("pid").write_text(str(os.getpid()))
listener = socket.socket(fileno={descriptor})
listener.setblocking(True)
while True:
    connection, _ = listener.accept()
    connection.sendall(str(os.getpid()).encode())
    connection.close()
"""


def service(directory: Path, code: str, **options: object) -> Service:
    defaults: dict[str, object] = {"is_ready": lambda: pid_in(directory) is not None, "stop_grace_s": 5.0}
    return Service(
        "part", (sys.executable, "-c", code), dict(os.environ), directory, **{**defaults, **options}
    )


def pid_in(directory: Path) -> int | None:
    """None until it is written: a file is there before its text."""
    file = directory / "pid"
    text = file.read_text() if file.exists() else ""
    return int(text) if text else None


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    one = Supervisor()
    yield one
    await one.stop()


async def test_output_appears_under_the_name_of_its_part(
    supervisor: Supervisor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await supervisor.start(service(tmp_path, SPEAKS_AND_STAYS))
    seen: list[str] = []

    def has_spoken() -> bool:
        seen.append(capsys.readouterr().out)
        return "part      | hello from the child\n" in "".join(seen)

    await asyncio.to_thread(wait_until, has_spoken)


async def test_what_dies_is_started_again(supervisor: Supervisor, tmp_path: Path) -> None:
    await supervisor.start(service(tmp_path, SPEAKS_AND_STAYS))
    first = pid_in(tmp_path)
    assert first

    os.kill(first, signal.SIGKILL)

    await asyncio.to_thread(wait_until, lambda: pid_in(tmp_path) not in (None, first))


async def test_a_part_that_never_gets_ready_is_named_with_its_last_words(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with pytest.raises(ServiceFailed, match="part did not start: no such luck"):
        await supervisor.start(service(tmp_path, "raise SystemExit('no such luck')"))


async def test_a_part_that_ignores_the_stop_is_killed(tmp_path: Path) -> None:
    supervisor = Supervisor()
    await supervisor.start(service(tmp_path, IGNORES_SIGTERM, stop_grace_s=0.2))

    await supervisor.stop()

    ended = pid_in(tmp_path)
    assert ended
    assert not is_alive(ended)


async def test_a_failed_command_of_the_set_up_says_why(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "raise SystemExit('the table is gone')")
    with pytest.raises(ServiceFailed, match="step failed with exit code 1: the table is gone"):
        await run_once("step", command, environment=dict(os.environ), directory=tmp_path)


async def test_who_comes_while_a_server_starts_anew_waits_and_is_served(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with listen("127.0.0.1", 0) as listener:
        descriptor = listener.fileno()
        code = SERVES_AN_INHERITED_SOCKET.format(descriptor=descriptor)
        await supervisor.start(service(tmp_path, code, descriptors=(descriptor,)))
        killed = pid_in(tmp_path)
        assert killed
        os.kill(killed, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: not is_alive(killed))

        answers = await asyncio.to_thread(lambda: [said_by(listener) for _ in range(20)])

    assert len(set(answers)) == 1
    assert answers[0] != str(killed)


def said_by(listener: socket.socket) -> str:
    with socket.create_connection(listener.getsockname(), timeout=60) as connection:
        return connection.recv(100).decode()
