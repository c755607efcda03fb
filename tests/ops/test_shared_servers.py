"""The servers that test runs share: ownership and shutdown."""

import contextlib
import fcntl
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from portal.ops.paths import CHECKOUT, Layout
from portal.ops.services.supervisor import Service
from portal.ops.setup.env_file import free_port
from tests import servers

WAITS = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); print(flush=True); signal.pause()"


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As if it were `var/test` of another working tree; the servers' account can pass it."""
    with tempfile.TemporaryDirectory(prefix="berth-shared-") as directory:
        place = Path(directory)
        place.chmod(0o711)
        monkeypatch.setattr(servers, "LAYOUT", Layout(checkout=CHECKOUT, data=place))
        monkeypatch.setattr(servers, "STATE_FILE", place / "servers.json")
        monkeypatch.setattr(servers, "USERS_FILE", place / "servers.users")
        yield place
        servers._end_servers()


@contextlib.contextmanager
def seeming(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the command line of a server, that only waits."""
    argv = [f"/somewhere/{program}", "-c", WAITS, *arguments]
    with subprocess.Popen(argv, executable=sys.executable, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield process
        finally:
            process.kill()


def test_servers_of_others_are_left_alone(data: Path) -> None:
    with (
        seeming("postgres", "-D", f"{data}/postgres") as ours,
        seeming("postgres", "-D", f"{data}-of-others/postgres") as theirs,
        seeming("redis-server", "/etc/redis.conf") as foreign,
        seeming("tail", f"{data}/redis/redis.conf") as reader,
    ):
        assert servers.stop_servers()

        assert ours.wait(10) < 0
        assert [each.poll() for each in (theirs, foreign, reader)] == [None] * 3


def test_servers_are_stopped_once_nobody_uses_them(data: Path) -> None:
    with seeming("postgres", "-D", f"{data}/postgres") as postgres:
        with (data / "servers.users").open("w") as users:
            fcntl.flock(users, fcntl.LOCK_SH)
            assert not servers.stop_servers()
            assert postgres.poll() is None

        assert servers.stop_servers()
        assert postgres.wait(10) < 0


def test_a_start_that_was_cut_short_is_no_hindrance_to_the_next(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = servers._start_detached

    def start_postgres_alone(service: Service, *options: str) -> None:
        if service.name == "redis":
            raise KeyboardInterrupt
        start(service, *options)

    with monkeypatch.context() as patch:
        patch.setattr(servers, "_start_detached", start_postgres_alone)
        with pytest.raises(KeyboardInterrupt):
            servers.running_servers()
    assert list(servers._our_servers().values()) == ["postgres"]

    found = servers.running_servers()

    assert not servers.stop_servers(), "we use them"
    with psycopg.connect(f"{found['database_server']}/postgres") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_servers_that_are_too_busy_to_answer_are_not_ended(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "DEADLINE_S", 0.1)
    with (
        seeming("postgres", "-D", f"{data}/postgres") as postgres,
        seeming("redis-server", f"{data}/redis/redis.conf") as redis,
        socket.create_server(("127.0.0.1", free_port())) as silent,
    ):
        address = f"berth:secret@127.0.0.1:{silent.getsockname()[1]}"
        addresses = {"database_server": f"postgres://{address}", "redis_url": f"redis://{address}/0"}
        (data / "servers.json").write_text(json.dumps(addresses))

        with pytest.raises(SystemExit, match="PostgreSQL answers"):
            servers.running_servers()

        assert postgres.poll() is redis.poll() is None
