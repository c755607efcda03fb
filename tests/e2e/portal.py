"""A portal of its own: bin/up on a free port, with its own data and labels."""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from portal.ops.engine.install import SYSTEM_SOCKET
from portal.ops.engine.objects import (
    INSTALLATION_LABEL,
    PORTAL_LABEL,
    connect,
    labelled_objects,
    remove_objects,
)
from portal.ops.paths import CHECKOUT, Layout
from portal.ops.processes import leftover_processes
from portal.ops.setup.env_file import free_port, interface_addresses, read_env
from portal.ops.setup.purge import purge_data
from tests.e2e.person import Person
from tests.processes import process_of
from tests.waiting import wait_until

# Includes the session image, where bin/test has not built it before.
FIRST_START_S = 420
ON_ALL_ADDRESSES = ("--host", "0.0.0.0")


class RunningPortal:
    """One data directory and one port; `start` and `stop` may follow each other as often as one likes."""

    def __init__(
        self, data: Path, *, environment: Mapping[str, str] | None = None, options: Sequence[str] = ()
    ) -> None:
        """`environment` and `options` are given to bin/up as well."""
        self.data = data
        self.port = free_port()
        self.url = f"http://localhost:{self.port}"
        self.environment = {**own_environment(), **(environment or {})}
        self.engine = connect(self.environment.get("DOCKER_HOST") or SYSTEM_SOCKET)
        self._options = options
        self.kept_sessions: set[str] = set()  # those of the module that runs, which its tests share
        self._people: dict[str, Person] = {}
        self._process: subprocess.Popen[str] | None = None
        self._lines: list[str] = []

    def start(self, deadline_s: float = FIRST_START_S) -> None:
        """Run bin/up; returns when it greets."""
        command: list[str | Path] = [
            CHECKOUT / "bin" / "up",
            "--data",
            self.data,
            "--port",
            str(self.port),
            *self._options,
        ]
        process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._process, self._lines = process, []
        threading.Thread(target=self._read, args=(process, self._lines), daemon=True).start()

        def greets() -> re.Match[str] | None:
            assert process.poll() is None, f"bin/up ended:\n{self.output}"
            return re.search(r"Berth is up after", self.output)

        wait_until(greets, deadline_s=deadline_s)

    def stop(self) -> int:
        """End bin/up as a service manager does, by SIGTERM; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def remove(self) -> None:
        """Stop, and leave nothing on the engine and on the disk; images and what the checkout holds stay."""
        if self._process is not None and self._process.poll() is None:
            self.stop()
        installation = self.installation
        if installation:
            remove_objects(self.engine, installation, lambda line: None)
        purge_data(Layout(checkout=CHECKOUT, data=self.data), lambda line: None)
        assert leftover_processes(self.data) == []
        assert not self.data.exists()
        assert self.engine_objects(installation) == []
        assert not self.engine.volumes.list(filters={"label": f"{PORTAL_LABEL}={installation}"})

    @property
    def output(self) -> str:
        return "".join(self._lines)

    @property
    def installation(self) -> str:
        return read_env(self.data / "env").get("BERTH_INSTALLATION", "")

    def person(self, role: str) -> Person:
        """One of the people whom the first run made: superadmin, domain_admin, user."""
        if role not in self._people:
            users = json.loads((self.data / "first-run.json").read_text())["users"]
            found = next(user for user in users if user["role"] == role)
            self._people[role] = Person(self.url, found["email"], found["password"], found["token"])
        return self._people[role]

    def pid_of(self, part: str) -> int | None:
        return process_of(self.data, part)

    def engine_objects(self, installation: str = "") -> list[str]:
        """Names of containers, networks and volumes of sessions of this installation."""
        label = f"{INSTALLATION_LABEL}={installation or self.installation}"
        containers, networks, volumes = labelled_objects(self.engine, label)
        names = [container.attrs["Names"][0] for container in containers]
        return sorted([*names, *(thing.attrs["Name"] for thing in [*networks, *volumes])])

    def commands_in(self, session_id: str) -> list[str]:
        """Command lines of all processes in the session's container, as the engine tells them."""
        filters: dict[str, str | list[str] | bool] = {"label": f"io.berth.session={session_id}"}
        (container,) = self.engine.containers.list(sparse=True, filters=filters)
        return [" ".join(process[1:]) for process in container.top(ps_args="-eo pid,args")["Processes"]]

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: list[str]) -> None:
        assert process.stdout is not None
        lines.extend(iter(process.stdout.readline, ""))


def local_url() -> str:
    """One of this machine's own, not of the loopback where it has one; 127.0.0.2, which browsers trust more, else."""
    return min(interface_addresses() - {"127.0.0.1"}, default="127.0.0.2")


def own_environment() -> dict[str, str]:
    """The environment of the tests without what points to the servers of the tests."""
    theirs = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in theirs and not name.startswith("BERTH_")
    }
