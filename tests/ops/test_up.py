"""bin/up and bin/down on a data directory and a port of their own."""

import json
import os
import re
import signal
import stat
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from portal.ops.engine.install import SYSTEM_SOCKET
from portal.ops.engine.objects import connect, remove_objects
from portal.ops.paths import CHECKOUT, Layout
from portal.ops.processes import leftover_processes
from portal.ops.setup.env_file import free_port, read_env
from portal.ops.setup.purge import purge_data
from tests.processes import process_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]


class Up:
    """A running bin/up and what it has printed."""

    def __init__(self, data: Path, port: int, environment: dict[str, str]) -> None:
        self.data = data
        self.url = f"http://localhost:{port}"
        command = [CHECKOUT / "bin" / "up", "--data", data, "--port", str(port), "--no-image"]
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str, deadline_s: float = 300) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            match = re.search(pattern, self.output)
            assert match or self._reader.is_alive(), f"bin/up ended:\n{self.output}"
            return match

        return wait_until(found, deadline_s=deadline_s)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def health(self) -> dict[str, object]:
        with urllib.request.urlopen(f"{self.url}/api/v1/health/", timeout=5) as answer:
            return json.load(answer)

    def is_healthy(self) -> bool:
        """Whether web, database and Redis all work; health answers 503 when one of them does not."""
        try:
            return self.health()["status"] == "ok"
        except OSError:
            return False

    def wait_until_healthy(self, *, without: str) -> None:
        """What was killed is back."""
        try:
            wait_until(self.is_healthy, deadline_s=20)
        except AssertionError as error:
            raise AssertionError(f"{without} was killed, and then: {error}\n{self.output}") from error

    def pid_of(self, part: str) -> int | None:
        return process_of(self.data, part)

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)


class Place:
    """A data directory and a port; starts bin/up there and removes all of it at the end."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        names = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
        foreign = {name for name in os.environ if name in names or name.startswith("BERTH_")}
        self.environment = {name: value for name, value in os.environ.items() if name not in foreign}
        self._started: list[Up] = []

    def up(self, **environment: str) -> Up:
        started = Up(self.data, self.port, {**self.environment, **environment})
        self._started.append(started)
        return started

    def down(self) -> str:
        command = [CHECKOUT / "bin" / "down", "--data", self.data]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True
        ).stdout

    def clear(self) -> None:
        self.down()
        for started in self._started:
            started.process.wait(30)
        if installation := read_env(self.data / "env").get("BERTH_INSTALLATION"):
            remove_objects(connect(SYSTEM_SOCKET), installation, silent)
        purge_data(Layout(checkout=CHECKOUT, data=self.data), silent)


def silent(_: str) -> None:
    pass


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path / "data")
    yield one
    one.clear()


def test_a_portal_comes_up_survives_what_may_happen_and_goes_down(place: Place) -> None:
    up = place.up()
    link = up.wait_for(r"Sign in once with:\s+(\S+)")[1]
    assert link.startswith(up.url)
    assert up.health()["status"] == "ok"

    first_run = place.data / "first-run.json"
    written = json.loads(first_run.read_text())
    assert written["url"] == up.url
    assert {frozenset(user) for user in written["users"]} == {
        frozenset(("role", "email", "password", "token"))
    }
    assert [user["role"] for user in written["users"]] == ["superadmin", "domain_admin", "user"]
    for secret in (first_run, place.data / "env"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600

    web = up.pid_of("portal.processes.web_server")
    assert b"DATABASE_URL=postgres://berth:" in (their := Path(f"/proc/{web}/environ").read_bytes())
    assert b"postgres-socket:" in their  # the shortest way

    second = place.up()
    second.wait_for(f"Berth is running already: {re.escape(up.url)}", deadline_s=60)
    assert second.process.wait(15) == 0

    for part in ("postgres", "redis-server", "portal.processes.web_server"):
        killed = up.pid_of(part)
        assert killed
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda part=part, killed=killed: up.pid_of(part) not in (None, killed), deadline_s=60)
        up.wait_until_healthy(without=part)

    up.process.kill()
    up.process.wait(10)
    again = place.up()
    again.wait_for(r"Berth is up after", deadline_s=120)
    assert json.loads(first_run.read_text()) == written

    again.end()
    assert again.process.returncode == 0
    assert leftover_processes(place.data) == []
    assert "was not running" in place.down()


def test_given_servers_replace_the_embedded_ones(place: Place) -> None:
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    name = f"test_berth_{os.getpid()}_up"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')

        up = place.up(DATABASE_URL=f"{server}/{name}", REDIS_URL=os.environ["REDIS_URL"])
        up.wait_for(r"Berth is up after")

        assert up.health()["status"] == "ok"
        assert not (place.data / "postgres").exists()
        assert not (place.data / "redis").exists()
        assert not {"DATABASE_URL", "REDIS_URL"} & read_env(place.data / "env").keys()
        assert up.pid_of("postgres") is up.pid_of("redis-server") is None
        up.end()
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
