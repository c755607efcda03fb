"""A portal on engines of its own whose processes are killed by name, and the requests of a user."""

import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from portal.ops.paths import CHECKOUT
from portal.ops.processes import is_alive, leftover_processes
from portal.ops.setup.env_file import read_env, write_env
from tests.e2e.portal import RunningPortal
from tests.faults.cleanup import MARK, pool_of
from tests.faults.engines import IMAGE
from tests.waiting import wait_until

SMALL = {"cpu": 0.05, "mem": "64m"}
PARTS = {
    "web": ("portal.processes.web_server", "uvicorn"),
    "worker": ("worker@berth",),
    "ends": ("ends@berth",),
    "tick": ("tick@berth",),
    "beat": ("portal.processes.periodic",),
    "postgres": ("/bin/postgres",),
    "redis": ("redis-server",),
}
PATIENCE_S = 90
SECOND = "second"
REGISTER_SECOND = """
from agents.resource_groups.service import create_resource_group
from agents.machines.service import register_agent
from common.actors import SYSTEM
group = create_resource_group(actor=SYSTEM, name="second")
register_agent(actor=SYSTEM, name="second", address="{address}", resource_group=group)
"""
ENDED = ("TERMINATED", "CANCELLED", "ERROR")


class FaultPortal(RunningPortal):
    """bin/up on an engine of the tests."""

    def __init__(self, home: Path, engine: str, **settings: str) -> None:
        """`engine` is its address; `settings` are given to bin/up as well."""
        self.pauses = home / "pauses"
        self.pauses.mkdir()
        environment = {
            "DOCKER_HOST": engine,
            "BERTH_WALLS": "best-effort",
            "BERTH_SESSION_POOL": str(pool_of(home)),
            "BERTH_PAUSES": str(self.pauses),
            "BERTH_DB_SILENCE_S": "5",
            MARK: str(home),
            **settings,
        }
        self._stopped: list[int] = []
        super().__init__(home / "portal", environment=environment, options=("--no-image",))

    def begin(self) -> None:
        """Start for the first time: with people, the image of the tests, and this machine."""
        self.start()
        self.manage("first_run", "--json", str(self.data / "first-run.json"), "--image", IMAGE)

    def register_second(self, address: str) -> None:
        """Add a second engine in a group of its own."""
        self.manage("shell", "-c", REGISTER_SECOND.format(address=address))

    def manage(self, *arguments: str) -> str:
        return subprocess.run(
            [CHECKOUT / ".venv" / "bin" / "python", CHECKOUT / "manage.py", *arguments],
            env={**self.environment, "BERTH_DATA": str(self.data)},
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    @property
    def sign_in_link(self) -> str:
        found = re.search(r"Sign in once with:\s+(\S+)", self.output)
        assert found, self.output
        return found.group(1)

    @property
    def database_url(self) -> str:
        return read_env(self.data / "env")["DATABASE_URL"]

    @property
    def database_files(self) -> Path:
        """The directory of PostgreSQL's files, where its account can reach them."""
        quarters = self.data / "quarters"
        return (quarters if quarters.exists() else self.data).resolve() / "postgres"

    def ensure_running(self) -> None:
        """Start it if a test has left it stopped."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    @property
    def redis_url(self) -> str:
        return read_env(self.data / "env")["REDIS_URL"]

    def pids_of(self, name: str) -> list[int]:
        """The processes of one part, the one that bin/up started first."""
        found = []
        for pid in sorted(leftover_processes(self.data)):
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                if any(word in command for word in PARTS[name]) and "child.py" not in command:
                    found.append(pid)
        return found

    def signal(self, name: str, number: signal.Signals) -> list[int]:
        """Send it to all processes of a part, children too; which ones."""
        pids = self._family(name)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return pids

    def kill(self, *names: str) -> None:
        """By SIGKILL; returns when they are gone. The supervisor starts them anew."""
        pids = [pid for name in names for pid in self.signal(name, signal.SIGKILL)]
        assert pids, f"nothing runs as {names}"
        wait_until(lambda: not any(is_alive(pid) for pid in pids), deadline_s=30)

    def kill_supervisor(self) -> None:
        """Everything dies with it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)
        wait_until(lambda: not leftover_processes(self.data), deadline_s=60)

    def hang(self, name: str) -> None:
        """By SIGSTOP, until `go_on`."""
        self._stopped += self.signal(name, signal.SIGSTOP)

    def go_on(self) -> None:
        for pid in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()

    def wait_for(self, name: str) -> int:
        """Its process, once there is one."""
        return wait_until(lambda: (self.pids_of(name) or [0])[0], deadline_s=PATIENCE_S)

    def _family(self, name: str) -> list[int]:
        """PostgreSQL's backends rename themselves: they are found as children."""
        family = self.pids_of(name)
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                stat = (entry / "stat").read_text()
                if int(stat.rpartition(")")[2].split()[1]) in family and int(entry.name) not in family:
                    family.append(int(entry.name))
        return family

    # Pause points

    def hold(self, points: Iterable[str]) -> None:
        """Whoever passes one of these next stays there."""
        for point in points:
            (self.pauses / f"hold.{point}").touch()

    def held(self) -> dict[str, int]:
        """{point: process that is held there}."""
        found = {path.name.removeprefix("held."): path.read_text() for path in self.pauses.glob("held.*")}
        return {point: int(pid) for point, pid in found.items() if pid}

    def release(self) -> None:
        """Nobody is held any more, nor will be."""
        for path in (*self.pauses.glob("hold.*"), *self.pauses.glob("held.*")):
            path.unlink(missing_ok=True)

    def passed(self) -> list[str]:
        """Points that were passed since `forget_passed`, each once, in order."""
        file = self.pauses / "passed"
        lines = file.read_text().splitlines() if file.exists() else []
        return list(dict.fromkeys(line.split()[0] for line in lines))

    def beats(self) -> int:
        """How often the reconciler has looked at an engine since `forget_passed`."""
        return (self.pauses / "passed").read_text().count("reconcile.list_containers ")

    def forget_passed(self) -> None:
        (self.pauses / "passed").unlink(missing_ok=True)


class JoinedPortal(FaultPortal):
    """bin/up with the role web or worker, on the database, Redis and folders of another portal."""

    def __init__(self, first: FaultPortal, role: str) -> None:
        self.pauses = first.pauses
        self._stopped = []
        data = first.data.with_name(role)
        RunningPortal.__init__(self, data, environment=first.environment, options=("--role", role))
        data.mkdir(mode=0o711)
        write_env(data / "env", read_env(first.data / "env"))
        (data / "folders").symlink_to(first.data / "folders")

    def end(self) -> None:
        """Stop it, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self.stop()


class Client:
    """A program that uses REST through any fault: it asks again, and asks for each session once by its name."""

    def __init__(self, portal: FaultPortal, url: str = "", *, role: str = "superadmin") -> None:
        """`url` is that of another web process of the installation."""
        users = json.loads((portal.data / "first-run.json").read_text())["users"]
        user = next(user for user in users if user["role"] == role)
        self.email, token = str(user["email"]), user["token"]
        self._http = httpx.Client(
            base_url=f"{url or portal.url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=40
        )
        self._numbers = itertools.count(1)

    def start(self, **request: Any) -> str:
        """Ask for a small session until it is there; its id."""
        name = request.get("name", f"s{next(self._numbers)}")
        body = {"name": name, "project": "demo", "image": IMAGE, "resources": SMALL, **request}

        def ask() -> str:
            answer = self._ask("POST", "sessions/", json=body)
            if answer is None or answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return ""
            if answer.status_code == HTTPStatus.CONFLICT:  # an earlier answer was lost
                return str(next(row["id"] for row in self.sessions() if row["name"] == name))
            assert answer.status_code == HTTPStatus.CREATED, answer.text
            return str(answer.json()["id"])

        return str(wait_until(ask, deadline_s=PATIENCE_S, interval_s=0.1))

    def start_many(self, count: int, **request: Any) -> list[str]:
        return [self.start(**request) for _ in range(count)]

    def start_running(self, count: int = 1, **request: Any) -> list[str]:
        started = self.start_many(count, **request)
        self.wait_for(started, "RUNNING")
        return started

    def stop(self, session_ids: Iterable[str]) -> None:
        for session_id in session_ids:
            wait_until(
                lambda key=session_id: self._succeeds("DELETE", f"sessions/{key}/"),  # type: ignore[misc]
                deadline_s=PATIENCE_S,
                interval_s=0.1,
            )

    def session(self, session_id: str) -> dict[str, Any]:
        return dict(self._get(f"sessions/{session_id}/"))

    def sessions(self) -> list[dict[str, Any]]:
        return list(self._get("sessions/?page_size=200")["results"])

    def agents(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self._get("agents/")["results"]}

    def wait_for(self, session_ids: Sequence[str], *statuses: str, deadline_s: float = PATIENCE_S) -> None:
        """All of these have one of the statuses; AssertionError as soon as one has ended otherwise."""

        def have_all() -> bool:
            now = {row["id"]: row for row in self.sessions()}
            mine = [now.get(key) or self.session(key) for key in session_ids]
            for row in mine:
                assert row["status"] in statuses or row["status"] not in ENDED, row
            return all(row["status"] in statuses for row in mine)

        wait_until(have_all, deadline_s=deadline_s, interval_s=0.1)

    def request_head(self, method: str, path: str, length: int) -> bytes:
        """The head of a request whose body is sent by hand."""
        request = self._http.build_request(method, path, headers={"Content-Type": "application/octet-stream"})
        request.headers["Content-Length"] = str(length)
        lines = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        return f"{method} {request.url.raw_path.decode()} HTTP/1.1\r\n{lines}\r\n".encode()

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request, as it comes."""
        return self._http.request(method, path, **options)

    def _get(self, path: str) -> Any:
        def ask() -> list[Any]:
            answer = self._ask("GET", path)
            if answer is None or answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return []
            answer.raise_for_status()
            return [answer.json()]

        return wait_until(ask, deadline_s=PATIENCE_S, interval_s=0.1)[0]

    def _succeeds(self, method: str, path: str) -> bool:
        answer = self._ask(method, path)
        return answer is not None and answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        try:
            return self._http.request(method, path, **options)
        except httpx.HTTPError:
            return None
