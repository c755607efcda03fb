"""Start PostgreSQL and Redis for tests; a pytest plugin (`-p tests.servers`).

It is loaded before the settings. The first run in a working tree starts one pair of servers; all
runs share it and leave it running. Each run has its own database and Redis keys. `DATABASE_URL` and
`REDIS_URL`, if set, replace the servers.

    python -m tests.servers stop        # stops the pair, unless a run uses it
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import redis

from portal.ops.console import speaker
from portal.ops.paths import CHECKOUT, Layout
from portal.ops.processes import is_alive
from portal.ops.services.postgres import EmbeddedPostgres
from portal.ops.services.redis import EmbeddedRedis
from portal.ops.services.supervisor import Service
from portal.ops.setup.env_file import ServerAddress, free_port, new_installation_id, parse_server_address
from portal.ops.setup.preflight import bind_fault
from portal.ops.setup.service_account import prepare_server_directories

LAYOUT = Layout(checkout=CHECKOUT, data=CHECKOUT / "var" / "test")
STATE_FILE = LAYOUT.data / "servers.json"
USERS_FILE = LAYOUT.data / "servers.users"  # each run that uses the pair holds a shared lock of this file
# Identifies this working tree; several may share a machine or, by DATABASE_URL, a server.
TREE = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]
DEADLINE_S = 30.0
# No durability: rows of tests need not survive a power cut, and several runs share the server.
POSTGRES_OPTIONS = (
    "--fsync=off",
    "--synchronous_commit=off",
    "--full_page_writes=off",
    "--max_connections=300",
    "--track_commit_timestamp=on",  # a bench reads when another process committed
)


def prepare_environment() -> None:
    """Set the environment variables of portal.settings.

    A worker of pytest-xdist keeps its controller's database.
    """
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker and ("DATABASE_URL" not in os.environ or "REDIS_URL" not in os.environ):
        servers = running_servers()
        os.environ.setdefault("DATABASE_URL", f"{servers['database_server']}/berth_{os.getpid()}")
        os.environ.setdefault("REDIS_URL", servers["redis_url"])
    os.environ["BERTH_INSTALLATION"] = new_installation_id()
    os.environ["BERTH_DATA"] = str(LAYOUT.data / "data" / str(os.getpid()))
    os.environ.setdefault("BERTH_SECRET_KEY", secrets.token_urlsafe(32))
    os.environ.setdefault("BERTH_URL", "http://localhost:8080")
    os.environ.setdefault("BERTH_LOG_LEVEL", "WARNING")


def running_servers() -> dict[str, Any]:
    """Return the addresses of the shared pair; starts it if it does not run.

    The pair is not stopped before this process ends.
    """
    with _one_at_a_time():
        servers = _read_state()
        if not (servers and _are_running(servers)):
            _end_servers()
            servers = _start_servers()
        _wait("PostgreSQL answers", lambda: _database_answers(servers))
        _wait("Redis answers", lambda: _redis_answers(servers))
        _clear_away_abandoned_runs(servers)
        _use_until_the_end()
        return servers


def stop_servers() -> bool:
    """Stop the pair of this working tree and delete its files outside of the tree.

    Returns False if another run uses it.
    """
    with _one_at_a_time(), USERS_FILE.open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        _end_servers()
        return True


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Lock the state of the pair while it is looked up, started or stopped."""
    LAYOUT.data.mkdir(parents=True, exist_ok=True)
    with (LAYOUT.data / "servers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _use_until_the_end() -> None:
    """Hold the shared lock of USERS_FILE until this process ends; child processes do not inherit
    it.
    """
    fcntl.flock(os.open(USERS_FILE, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_SH)


def _end_servers() -> None:
    for pid in _our_servers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        _wait("a server stops", lambda pid=pid: not is_alive(pid))  # type: ignore[misc]
    STATE_FILE.unlink(missing_ok=True)
    if LAYOUT.service_home_link.is_symlink():
        shutil.rmtree(LAYOUT.service_home_link.resolve(), ignore_errors=True)
        LAYOUT.service_home_link.unlink()


def _are_running(servers: dict[str, Any]) -> bool:
    """Return True if both servers exist and listen.

    A busy server that does not answer is not restarted: other runs use it.
    """
    ports = [parse_server_address(servers[name]).port for name in ("database_server", "redis_url")]
    are_there = set(_our_servers().values()) == {"postgres", "redis-server"}
    return are_there and all(bind_fault("127.0.0.1", port) for port in ports)


def _start_servers() -> dict[str, Any]:
    """Start both servers.

    Writes their addresses first, so that an interrupted start can be found.
    """
    database = ServerAddress(free_port(), _kept_password())
    cache = ServerAddress(free_port(), database.password)
    directories = prepare_server_directories(LAYOUT, f"tests-{TREE}")
    postgres = EmbeddedPostgres(directories, database, os.environ)
    redis_server = EmbeddedRedis(directories, cache, os.environ)
    postgres.prepare()
    redis_server.prepare()
    servers = {
        "database_server": postgres.socket_url(
            f"postgres://berth:{database.password}@127.0.0.1:{database.port}"
        ),
        "redis_url": f"redis://:{cache.password}@127.0.0.1:{cache.port}/0",
    }
    _write_private(STATE_FILE, json.dumps(servers))
    _start_detached(postgres.service(), *POSTGRES_OPTIONS)
    _start_detached(redis_server.service(), "--appendonly", "no")
    return servers


def _kept_password() -> str:
    """Return the cluster's password, which persists over restarts."""
    file = LAYOUT.data / "servers.password"
    if not file.exists():
        _write_private(file, secrets.token_hex(16))
    return file.read_text()


def _write_private(file: Path, text: str) -> None:
    """Write a private file atomically: an interrupted write leaves no partial text."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.replace(file)


def _start_detached(service: Service, *options: str) -> None:
    """Start a server that outlives this run, in its own process session, out of reach of Ctrl-C."""
    with (LAYOUT.data / f"{service.name}.log").open("ab") as output:
        process = subprocess.Popen(
            [*service.argv, *options],
            env=service.environment,
            cwd=service.directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=service.account.uid if service.account else None,
            group=service.account.gid if service.account else None,
            extra_groups=[] if service.account else None,
        )
    process.returncode = 0  # Popen would warn at exit that its child still runs


def _our_servers() -> dict[int, str]:
    """Return this working tree's server processes as {process id: program}.

    Finds them by the paths in their command lines: a recorded process id may be reused, and an
    interrupted start records none.
    """
    home = LAYOUT.service_home_link.readlink() if LAYOUT.service_home_link.is_symlink() else LAYOUT.data
    places = {"postgres": f"{home}/postgres", "redis-server": f"{home}/redis/redis.conf"}
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            program, *arguments = os.fsdecode((entry / "cmdline").read_bytes()).split("\0")
            if places.get(Path(program).name) in arguments:
                found[int(entry.name)] = Path(program).name
    return found


def _read_state() -> dict[str, Any] | None:
    try:
        return dict(json.loads(STATE_FILE.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def _database_answers(servers: dict[str, Any]) -> bool:
    try:
        psycopg.connect(f"{servers['database_server']}/postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _redis_answers(servers: dict[str, Any]) -> bool:
    try:
        return bool(redis.Redis.from_url(servers["redis_url"], socket_connect_timeout=2).ping())
    except redis.RedisError:
        return False


def _clear_away_abandoned_runs(servers: dict[str, Any]) -> None:
    """Remove databases and directories of ended runs; their names contain the process id."""
    with psycopg.connect(f"{servers['database_server']}/postgres", autocommit=True) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'test_berth_%'")
        for (name,) in rows.fetchall():
            process = name.split("_")[2]
            if process.isdecimal() and not is_alive(int(process)):
                connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    for directory in (LAYOUT.data / "data").glob("*"):
        if directory.name.isdecimal() and not is_alive(int(directory.name)):
            shutil.rmtree(directory, ignore_errors=True)


def _wait(what: str, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise SystemExit(f"Waited {DEADLINE_S:.0f} s until {what}. See the logs in {LAYOUT.data}.")
        time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[1:] != ["stop"]:
        raise SystemExit(__doc__)
    if not stop_servers():
        speaker("test")("another run uses PostgreSQL and Redis: they are left running")
else:
    prepare_environment()
