"""The embedded PostgreSQL and Redis survive SIGKILL and restarts."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from portal.ops.processes import is_alive, leftover_processes
from portal.ops.services.postgres import can_be_socket
from portal.ops.setup.service_account import server_account
from portal.ops.system import is_root
from tests.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Servers:
    """A supervisor with both servers, in a process of its own."""

    process: subprocess.Popen[str]
    database_url: str
    redis_url: str
    database_by_socket: str

    def query(self, statement: str, *, by_port: bool = False) -> list[tuple[object, ...]]:
        url = self.database_url if by_port else self.database_by_socket
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.redis_url, socket_timeout=5, decode_responses=True)


@contextlib.contextmanager
def servers_in(data: Path) -> Iterator[Servers]:
    command = [sys.executable, "-m", "tests.ops.supervised_servers", str(data)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if line.startswith("ready ")), None)
        assert ready is not None, "the supervisor ended before its servers were ready"
        yield Servers(process, *ready.split()[1:])
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(30)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the servers' account can pass. Not pytest's own, which each run of pytest closes at its start."""
    with tempfile.TemporaryDirectory(prefix="berth-servers-") as directory:
        Path(directory).chmod(0o711)
        yield Path(directory)


@pytest.fixture
def data(place: Path) -> Iterator[Path]:
    """A data directory whose every parent the servers' account can pass."""
    directory = place / "open" / "data"
    for each in (directory.parent, directory):
        each.mkdir()
        each.chmod(0o711)
    yield directory
    assert leftover_processes(directory) == []


def test_servers_start_and_keep_rows_over_a_stop(data: Path) -> None:
    with servers_in(data) as servers:
        servers.query("CREATE TABLE kept (n int)")
        servers.query("INSERT INTO kept VALUES (7)")
        servers.redis().set("kept", "7")

    with servers_in(data) as servers:
        assert servers.query("SELECT n FROM kept") == [(7,)]
        assert servers.redis().get("kept") == "7"


def test_a_killed_server_comes_back_with_its_rows(data: Path) -> None:
    with servers_in(data) as servers:
        servers.query("CREATE TABLE kept (n int)")
        servers.query("INSERT INTO kept VALUES (7)")
        servers.redis().set("kept", "7")
        wait_until(lambda: "7" in append_only_file(data))
        killed = leftover_processes(data)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

        wait_until(lambda: answers(servers), deadline_s=20)
        assert servers.query("SELECT n FROM kept") == [(7,)]
        assert servers.redis().get("kept") == "7"
        assert not set(killed) & set(leftover_processes(data))


def test_nothing_outlives_a_killed_supervisor_and_the_next_start_has_the_rows(data: Path) -> None:
    with servers_in(data) as servers:
        servers.query("CREATE TABLE kept (n int)")
        servers.query("INSERT INTO kept VALUES (7)")
        children = leftover_processes(data)
        servers.process.kill()
        wait_until(lambda: not any(is_alive(pid) for pid in children))

    with servers_in(data) as servers:
        assert servers.query("SELECT n FROM kept") == [(7,)]


def test_the_portals_role_is_no_superuser_and_nobody_else_comes_in(data: Path) -> None:
    with servers_in(data) as servers:
        assert servers.query("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == [(False,)]
        for url in (servers.database_url, servers.database_by_socket):
            with pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry"):
                psycopg.connect(url.replace("berth:", "postgres:"))
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(url.replace("berth:", "berth:wrong"))
        with pytest.raises(redis.AuthenticationError):
            redis.Redis.from_url(servers.redis_url.split("@")[1].join(("redis://", ""))).ping()


def test_the_database_has_a_socket_that_only_its_account_can_reach_and_a_port(data: Path) -> None:
    with servers_in(data) as servers:
        for by_port in (False, True):
            assert servers.query("SELECT inet_server_addr() IS NULL", by_port=by_port) == [(not by_port,)]
        assert (data / "postgres-socket").stat().st_mode & 0o777 == 0o700


def test_a_cluster_of_a_berth_without_sockets_gets_one_and_a_stale_lock_of_a_socket_is_no_matter(
    data: Path,
) -> None:
    with servers_in(data) as servers:
        port = urlsplit(servers.database_url).port
    (data / "postgres" / "pg_hba.conf").write_text("host all berth 127.0.0.1/32 scram-sha-256\n")
    account = server_account()
    with subprocess.Popen(
        ["sleep", "60"], user=account.uid if account else None
    ) as other:  # as the server was
        (data / "postgres-socket" / f".s.PGSQL.{port}.lock").write_text(f"{other.pid}\n")
        try:
            with servers_in(data) as servers:
                assert urlsplit(servers.database_url).port == port
                assert servers.query("SELECT 1") == [(1,)]
        finally:
            other.kill()


def test_what_an_operator_added_to_who_may_come_in_stays_and_a_link_is_not_written_through(
    data: Path,
) -> None:
    with servers_in(data):
        pass
    access, theirs = data / "postgres" / "pg_hba.conf", data / "theirs"
    added = f"{access.read_text()}host all berth 192.0.2.1/32 scram-sha-256\n"
    access.write_text(added)
    with servers_in(data):
        assert access.read_text() == added

    theirs.write_text("of somebody else")
    access.unlink()
    access.symlink_to(theirs)
    with servers_in(data) as servers:
        assert servers.query("SELECT 1") == [(1,)]
    assert theirs.read_text() == "of somebody else"


def test_a_directory_that_can_have_no_socket_is_known(place: Path) -> None:
    odd, absent = place / "a, b", place / "absent"
    odd.mkdir()
    assert [can_be_socket(each / ".s.PGSQL.1") for each in (place, odd, absent)] == [True, False, False]
    assert list(place.rglob("*")) == [odd]  # nothing that was tried stays


def test_a_path_that_is_too_long_for_a_socket_leaves_the_port(data: Path) -> None:
    far = data / ("long" * 25)
    far.mkdir()
    far.chmod(0o711)
    with servers_in(far) as servers:
        assert servers.database_by_socket == servers.database_url
        assert servers.query("SELECT 1") == [(1,)]


def test_no_password_stands_in_the_list_of_processes(data: Path) -> None:
    with servers_in(data) as servers:
        passwords = [url.split(":")[2].split("@")[0] for url in (servers.database_url, servers.redis_url)]
        for pid in leftover_processes(data):
            command = Path(f"/proc/{pid}/cmdline").read_text()
            assert not any(password in command for password in passwords)


@pytest.mark.skipif(
    not is_root(), reason="an ordinary user's servers run as that user and see its directories"
)
def test_servers_find_quarters_when_their_account_cannot_reach_the_data(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    data = closed / "data"
    data.mkdir()

    with servers_in(data) as servers:
        assert servers.query("SELECT 1") == [(1,)]
        assert (data / "quarters").resolve().parent == place / "quarters"
        assert not (data / "postgres").exists()

    with servers_in(data) as servers:
        assert servers.redis().ping()


def append_only_file(data: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in (data / "redis").glob("appendonly*"))


def answers(servers: Servers) -> bool:
    try:
        return bool(servers.query("SELECT 1")) and bool(servers.redis().ping())
    except (psycopg.OperationalError, redis.ConnectionError):
        return False
