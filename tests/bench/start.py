"""Measure the time from request to RUNNING beside the bare engine: single, and thirty at once.

Both run the same image and command (`sleep`) with the same limits, network isolation and volumes.
The peer is `docker run` on one existing bridge network, while each session has its own network; in
the last row the peer creates one too. Sessions are batch sessions: interactive ones also start the
image's apps, which costs more than a launch.
"""

import contextlib
import http.client
import json
import os
import stat
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agents.runtime.profiles import seccomp
from portal.ops.locks import holder
from portal.ops.paths import CHECKOUT, find_layout
from portal.ops.setup.env_file import read_env
from tests.bench.frame import Measure, Options, Row, at_least, at_most, measure_in_turns, say
from tests.e2e.portal import RunningPortal, own_environment

AT_ONCE = 30
CONCURRENCY = 8  # of bare runs: as many as a portal's worker launches in parallel
DEADLINE_S = 300.0
SETTLED_S = 15.0
SLEEP = "sleep 600"
CPU, MEM_MIB = 0.05, 64  # small enough to run all on two cores, and a hundred on three machines


def bench(options: Options) -> list[Row]:
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(mock_device())  # before the portal looks for devices
        data = options.layout.data if options.is_given else cleanup.enter_context(own_portal())
        if holder(find_layout(str(data))) is None:
            raise SystemExit(f"No portal runs on {data}. Start it: bin/up --data {data}")
        portal = cleanup.enter_context(Portal(data).listening())
        peer = cleanup.enter_context(Bare(portal.image, portal.user).network())
        say("warming up")
        portal.launch(1)
        peer.run(1)
        return measure_in_turns(
            [
                Measure(
                    f"{AT_ONCE} at once, the first of the day",
                    "1/s",
                    lambda: AT_ONCE / portal.launch(AT_ONCE),
                    lambda: AT_ONCE / peer.run(AT_ONCE),
                    most_rounds=1,  # later bursts find pooled networks
                ),
                Measure("submit → RUNNING", "s", lambda: portal.launch(1), lambda: peer.run(1), at_most(1.3)),
                Measure(
                    f"{AT_ONCE} at once",
                    "1/s",
                    lambda: AT_ONCE / portal.launch(AT_ONCE),
                    lambda: AT_ONCE / peer.run(AT_ONCE),
                    at_least(0.8),
                    most_rounds=5,
                ),
                Measure(
                    "submit → RUNNING, bare with a network of its own",
                    "s",
                    lambda: portal.launch(1),
                    lambda: peer.run(1, has_own_network=True),
                ),
                Measure(
                    "submit → RUNNING with a device, beside without",
                    "s",
                    lambda: portal.launch(1, {"mock": 1}),
                    lambda: portal.launch(1),
                    at_most(1.05),
                ),
            ],
            options,
        )


@contextlib.contextmanager
def mock_device() -> Iterator[None]:
    """Make a device file that is found as an accelerator: another /dev/null."""
    node = Path("/dev/berth-mock0")
    made = not node.exists()
    if made:
        os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    try:
        yield
    finally:
        if made:
            node.unlink()


@contextlib.contextmanager
def own_portal() -> Iterator[Path]:
    """Start a portal for this run on a free port; removes it at the end."""
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as directory:
        portal = RunningPortal(Path(directory) / "data")
        try:
            say("starting a portal")
            portal.start()
            allow_small_sessions(portal.data)
            yield portal.data
        finally:
            portal.remove()


def allow_small_sessions(data: Path) -> None:
    """Lower the minimum resources of the image, so that all sessions fit on a small machine."""
    change = "from images.models import ContainerImage; ContainerImage.objects.update(min_slots={})"
    subprocess.run(
        [CHECKOUT / "bin" / "manage", "shell", "--command", change],
        check=True,
        env={**own_environment(), "BERTH_DATA": str(data)},
        stdout=subprocess.DEVNULL,
    )


class Portal:
    """REST API and event stream, with the token of the demo user."""

    def __init__(self, data: Path, resource_group: str = "") -> None:
        """Sessions start in the default resource group unless another is given."""
        self._place = {"resource_group": resource_group} if resource_group else {}
        first_run = json.loads((data / "first-run.json").read_text())
        self._address = urlsplit(first_run["url"])
        self._token = next(user["token"] for user in first_run["users"] if user["role"] == "user")
        values = read_env(data / "env")
        self.user = f"{values['BERTH_CONTAINER_UID']}:{values['BERTH_CONTAINER_GID']}"
        self._statuses: dict[str, tuple[str, float]] = {}
        self._changed = threading.Condition()
        self._kept = self._connect()
        self.image = self.call("GET", "images/")["results"][0]["reference"]

    @contextlib.contextmanager
    def listening(self) -> Iterator["Portal"]:
        """Follow the event stream within the context; polling would slow what is measured."""
        connection = self._connect()
        connection.request("GET", "/api/v1/events/", headers=self._headers())
        stream = connection.getresponse()
        assert stream.status == http.HTTPStatus.OK, stream.read()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()
        yield self

    def launch(self, count: int, devices: Mapping[str, float] | None = None) -> float:
        """Return the seconds until `count` sessions with these devices, submitted one by one, run.
        Removes them.
        """
        stem = f"bench-{uuid.uuid4().hex[:8]}"
        self.reconnect()
        began_at = time.monotonic()
        ids = [
            self.call("POST", "sessions/", self._request(f"{stem}-{n}", devices))["id"] for n in range(count)
        ]
        took_s = self._wait_for(ids, "RUNNING") - began_at
        self.reconnect()
        for session_id in ids:
            self.call("DELETE", f"sessions/{session_id}/")
        self._wait_for(ids, "TERMINATED")
        if count > 1:
            # The network pool is refilled after a burst, which is part of neither the peer nor the next.
            time.sleep(SETTLED_S)
        return took_s

    def reconnect(self) -> None:
        """Open the connection anew: it may have been idle for longer than the server allows."""
        self._kept.close()
        self.call("GET", "images/")

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self._kept.request(
            method, f"/api/v1/{path}", json.dumps(body) if body else None, headers=self._headers()
        )
        answer = self._kept.getresponse()
        told = json.load(answer)
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {told}")
        return dict(told)

    def _request(self, name: str, devices: Mapping[str, float] | None) -> dict[str, Any]:
        return {
            "name": name,
            "project": "demo",
            "image": self.image,
            "type": "batch",
            "command": SLEEP,
            "resources": {"cpu": CPU, "mem": f"{MEM_MIB}m", **(devices or {})},
            **self._place,
        }

    def _wait_for(self, ids: list[str], status: str) -> float:
        """Return when the last of the sessions reached `status`."""
        give_up_at = time.monotonic() + DEADLINE_S
        with self._changed:
            while not all(self._statuses.get(each, ("", 0.0))[0] == status for each in ids):
                if not self._changed.wait(give_up_at - time.monotonic()):
                    raise SystemExit(f"Not {status} after {DEADLINE_S:.0f} s: {self._statuses}")
            return max(self._statuses[each][1] for each in ids)

    def _read(self, stream: http.client.HTTPResponse) -> None:
        for line in stream:
            if line.startswith(b"data: "):
                news = json.loads(line[6:])
                if news["kind"] == "session-changed":
                    with self._changed:
                        self._statuses[news["id"]] = (news["status"], time.monotonic())
                        self._changed.notify_all()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._address.port, timeout=DEADLINE_S)

    def _headers(self) -> dict[str, str]:
        return {
            "Host": self._address.netloc,
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }


class Bare:
    """Bare engines: the command `docker run`, with the flags that affect the time. `engines` are
    addresses, which get containers in turn; "" is the usual one.
    """

    def __init__(self, image: str, user: str, engines: Sequence[str] = ("",)) -> None:
        self._name = f"berth-bench-{uuid.uuid4().hex[:8]}"
        self._image = image
        self._user = user
        self._engines = engines
        self._profile = ""

    @contextlib.contextmanager
    def network(self) -> Iterator["Bare"]:
        for engine in self._engines:
            docker("network", "create", "--label", self._name, self._name, engine=engine)
        try:
            with tempfile.NamedTemporaryFile("w", suffix=".json") as profile:
                profile.write(seccomp.profile_text())
                profile.flush()
                self._profile = profile.name
                yield self
        finally:
            with contextlib.suppress(
                subprocess.CalledProcessError
            ):  # an engine under load has endpoints left
                self._clear(has_networks=True)

    def run(self, count: int, *, has_own_network: bool = False) -> float:
        """Return the seconds until `count` containers run. Removes them."""
        began_at = time.monotonic()
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(lambda number: self._run_one(number, has_own_network), range(count)))
        took_s = time.monotonic() - began_at
        self._clear()
        return took_s

    def _run_one(self, number: int, has_own_network: bool) -> None:
        engine, network = self._engines[number % len(self._engines)], self._name
        if has_own_network:
            network = f"{self._name}-{number}"
            docker("network", "create", "--label", self._name, network, engine=engine)
        place = ("--network", network, "--label", self._name, "-v", "/home/work", "-v", "/var/tmp")
        words = ("run", "-d", "--init", *self._limits(), *place, self._image, *SLEEP.split())
        docker(*words, engine=engine)

    def _limits(self) -> list[str]:
        """Return the limits of sessions that `docker run` supports
        (sessions_app/core/container_spec.py).
        """
        told = {
            "memory": f"{MEM_MIB}m",
            "memory-swap": f"{MEM_MIB}m",
            "cpus": str(CPU),
            "pids-limit": "4096",
            "cap-drop": "ALL",
            "user": self._user,
            "oom-score-adj": "300",
            "tmpfs": "/tmp",
            "workdir": "/home/work",
        }
        profile = ("--security-opt", f"seccomp={self._profile}", "--security-opt", "no-new-privileges:true")
        return [*(f"--{name}={value}" for name, value in told.items()), "--read-only", *profile]

    def _clear(self, *, has_networks: bool = False) -> None:
        """Remove the containers and their own networks; the common network too with `has_networks`."""
        for engine in self._engines:
            containers = docker("ps", "-aq", "--filter", f"label={self._name}", engine=engine).split()
            if containers:
                docker("rm", "-fv", *containers, engine=engine)
            shown = ("network", "ls", "--format", "{{.Name}}", "--filter", f"label={self._name}")
            names = docker(*shown, engine=engine).split()
            if gone := [name for name in names if has_networks or name != self._name]:
                docker("network", "rm", *gone, engine=engine)


def docker(*arguments: str, engine: str = "") -> str:
    """Return the output of the command line of the engine at this address."""
    host = ("--host", engine) if engine else ()
    return subprocess.run(["docker", *host, *arguments], check=True, capture_output=True, text=True).stdout
