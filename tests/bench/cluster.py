"""Compare machines of a cluster with plain Docker, and with the portal's own machine.

Three engines in network namespaces of this machine, in a swarm, are machines of a whole portal.
Portal, engines and load share the processors, so only ratios say something.
"""

import contextlib
import json
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import psycopg

from portal.ops.cluster import machines
from portal.ops.cluster.images import share_image
from portal.ops.cluster.layout import Cluster, ClusterMachine
from portal.ops.cluster.layout import Options as Shape
from portal.ops.errors import PreflightFailed
from portal.ops.paths import CHECKOUT
from portal.ops.setup.env_file import read_env
from tests.bench import load, terminal_stage
from tests.bench.frame import Measure, Options, Row, at_least, at_most, measure_in_turns, never_above, say
from tests.bench.start import Bare, Portal, docker, own_portal
from tests.bench.terminal import Duel
from tests.e2e.portal import own_environment
from tests.faults.visitor import Browser
from tests.prepare import ensure_program
from tests.waiting import wait_until

MACHINES = 3
AT_ONCE = 100
GROUP = "cluster"
USER = "user@berth.example"
APP_PORT = 8000
STREAM_S = 3
PATIENCE_S = 180
DISK_MIB = 6000  # sparse; goes at once, unlike the thousands of files of an image
RESOURCES = {"cpu": 0.9, "mem": "256m"}

UP = f"{MACHINES} machines up"
LAUNCHES = f"{AT_ONCE} launches at once on {MACHINES} engines"
REQUESTS = "requests over a relay, beside the portal's own machine"
ECHO = "terminal echo on another machine, beside the portal's own"
STREAM = "one stream between two machines, beside an overlay of swarm"

NEW_GROUP = f"""
from agents.resource_groups.service import create_resource_group
from common.actors import SYSTEM
create_resource_group(actor=SYSTEM, name="{GROUP}")
"""
RELAYS = "SELECT count(*) FROM agents_agentrelay WHERE route = 'relay' AND checked_at IS NOT NULL"
# 100 bytes, as the app of the gateway bench answers, by a program that costs little.
APP = f"""
global
    maxconn 1000
defaults
    mode http
    timeout client 1h
    timeout server 1h
    timeout connect 1s
frontend app
    bind :{APP_PORT}
    http-request return status 200 content-type text/plain string {"x" * 100}
"""
RECEIVE = """
import socket, time
connection, _ = socket.create_server(("", 9001)).accept()
size, piece, began_at = 0, bytearray(2**20), time.monotonic()
while count := connection.recv_into(piece):
    size += count
print(size / 1e6 / (time.monotonic() - began_at))
"""
SEND = f"""
import socket, sys, time
gives_up_at = time.monotonic() + 30
while True:
    try:
        connection = socket.create_connection((sys.argv[1], 9001), 2)
        break
    except OSError:
        if time.monotonic() > gives_up_at:
            raise
        time.sleep(0.05)
ends_at, piece = time.monotonic() + {STREAM_S}, bytes(2**18)
while time.monotonic() < ends_at:
    connection.sendall(piece)
"""


def bench(options: Options) -> list[Row]:
    rows = measure_in_turns([Measure(UP, "s", seconds_up, target=never_above(10))], options)
    stages = [stage for stage, names in STAGES if any(options.only in name for name in names)]
    options.offered.extend(name for _, names in STAGES for name in names)
    if not stages:
        return rows
    try:
        ensure_program("wrk", "wrk", say)
        with contextlib.ExitStack() as cleanup:
            stage = cleanup.enter_context(staged())
            for measures in stages:
                rows += measure_in_turns(measures(stage, cleanup), options)
            return rows
    except PreflightFailed as fault:
        raise SystemExit(f"{fault.message}\nfix: {fault.fix}") from fault


def seconds_up() -> float:
    """Return how long it takes until the engines of a new cluster answer. Removes it."""
    cluster = Cluster(uuid.uuid4().hex[:6])
    began_at = monotonic()
    try:
        machines.bring_up(cluster, MACHINES)
        return monotonic() - began_at
    finally:
        machines.remove_cluster(cluster)


def launches(stage: "Stage", cleanup: contextlib.ExitStack) -> list[Measure]:
    portal = cleanup.enter_context(Portal(stage.data, GROUP).listening())
    engines = [engine_of(machine) for machine in stage.made]
    bare = cleanup.enter_context(Bare(portal.image, portal.user, engines).network())
    say("warming up")
    portal.launch(MACHINES)
    bare.run(MACHINES)

    def ours() -> float:
        return AT_ONCE / portal.launch(AT_ONCE)

    return [Measure(LAUNCHES, "1/s", ours, lambda: AT_ONCE / bare.run(AT_ONCE), at_least(0.8))]


def connections(stage: "Stage", cleanup: contextlib.ExitStack) -> list[Measure]:
    """Start a session on each side, and one on two machines beside an overlay of the same two."""
    here = stage.start_session("here", resource_group="default")
    there = stage.start_session("there", resource_group=GROUP)
    serve("", docker(*containers_of(here)).strip())
    serve(*stage.places_of(there)[0])
    here_app, there_app = (stage.app_door(session) for session in (here, there))
    terminals = Two(stage.terminal_door(there), stage.terminal_door(here))
    duel = Duel(terminals)
    pair = stage.start_session("pair", resource_group=GROUP, cluster_size=2, cluster_mode="spread")
    ours = stage.places_of(pair)
    peer = cleanup.enter_context(overlay_pair(stage.made[:2], stage.portal.image, like=ours))

    requests, echo = load.requests_per_s, duel.number_of
    return [
        Measure(REQUESTS, "1/s", lambda: requests(there_app), lambda: requests(here_app), at_least(0.8)),
        Measure(ECHO, "µs", lambda: echo(terminals.ours), lambda: echo(terminals.peer), at_most(1.5)),
        Measure(
            STREAM, "MB/s", lambda: stream_mb_per_s(*ours), lambda: stream_mb_per_s(*peer), at_least(0.8)
        ),
    ]


STAGES = ((launches, (LAUNCHES,)), (connections, (REQUESTS, ECHO, STREAM)))


@dataclass(frozen=True, slots=True)
class Two:
    """Ways to terminals that are compared."""

    ours: terminal_stage.Door
    peer: terminal_stage.Door


Place = tuple[str, str]  # address of an engine ("": the usual one), name of a container there


@dataclass(frozen=True, slots=True)
class Stage:
    """A portal with its machines, and its user's browser."""

    data: Path
    made: Sequence[ClusterMachine]
    portal: Portal
    browser: Browser

    def start_session(self, name: str, **request: Any) -> dict[str, Any]:
        """Start an interactive session and return it when it runs."""
        body = {
            "name": name,
            "project": "demo",
            "image": self.portal.image,
            "resources": RESOURCES,
            **request,
        }
        self.portal.reconnect()
        session_id = self.portal.call("POST", "sessions/", body)["id"]

        def running() -> dict[str, Any] | None:
            session = self.portal.call("GET", f"sessions/{session_id}/")
            if session["status"] in ("CANCELLED", "ERROR", "TERMINATED"):
                raise SystemExit(f"A session did not start: {session['status_message']}")
            return session if session["status"] == "RUNNING" else None

        found = wait_until(running, deadline_s=PATIENCE_S, interval_s=0.2)
        assert found
        return found

    def places_of(self, session: dict[str, Any]) -> list[Place]:
        """Return where the containers of a session of the cluster are, main1 first."""
        found = []
        for machine in self.made:
            engine = engine_of(machine)
            found += [(engine, name) for name in docker(*containers_of(session), engine=engine).split()]
        return sorted(found, key=lambda place: hostname(place) != "main1")

    def app_door(self, session: dict[str, Any]) -> load.Door:
        """Return the way to the app at APP_PORT, opened by the user."""
        _, _, label = urlsplit(session["apps"][0]["url"]).netloc.partition("-")
        host = f"p{APP_PORT}-{label}"
        wait_until(lambda: self.browser.visit(f"http://{host}/small")[0] == 200, deadline_s=60)
        return load.Door(self.browser.port, self.browser.headers(host))

    def terminal_door(self, session: dict[str, Any]) -> terminal_stage.Door:
        host = f"localhost:{self.browser.port}"
        url = f"http://127.0.0.1:{self.browser.port}/ws/sessions/{session['id']}/terminal/"
        headers = {**self.browser.headers(host), "Origin": f"http://{host}"}
        return terminal_stage.Door((url,), headers, is_ours=True)


@contextlib.contextmanager
def staged() -> Iterator[Stage]:
    """Start a portal and machines with its session image, in a resource group of their own."""
    cluster = Cluster(uuid.uuid4().hex[:6])
    with own_portal() as data, contextlib.ExitStack() as cleanup:
        cleanup.callback(machines.remove_cluster, cluster)
        made = machines.bring_up(cluster, MACHINES, Shape(disk_mib=DISK_MIB, has_swarm=True))
        portal = Portal(data)
        say("copying the session image to the machines")
        share_image(portal.image, made)
        manage(data, "shell", "--command", NEW_GROUP)
        for machine in made:
            told = ("--tls", str(cluster.certificates), "--group", GROUP)
            manage(data, "register_agent", machine.name, machine.url, *told)
        browser = Browser(urlsplit(read_env(data / "env")["BERTH_URL"]).port or 80)
        browser.sign_in(manage(data, "sign_in_link", "--email", USER).split()[-1])
        say("waiting for the relays")
        with psycopg.connect(read_env(data / "env")["DATABASE_URL"], autocommit=True) as database:
            wait_until(
                lambda: database.execute(RELAYS).fetchone() == (MACHINES,),
                deadline_s=PATIENCE_S,
                interval_s=0.5,
            )
        yield Stage(data, made, portal, browser)


@contextlib.contextmanager
def overlay_pair(made: Sequence[ClusterMachine], image: str, like: Sequence[Place]) -> Iterator[list[Place]]:
    """Run a container on each of two machines of the swarm, joined by an overlay of it, with the limits of
    the containers `like`: a stream costs a core at each end.
    """
    name = f"berth-bench-{uuid.uuid4().hex[:8]}"
    places = [(engine_of(machine), f"{name}-{machine.number}") for machine in made]
    manager = places[0][0]
    limits = {engine: limits_of((engine, container)) for engine, container in like}
    docker("network", "create", "--driver", "overlay", "--attachable", name, engine=manager)
    try:
        for engine, container in places:
            told = ("run", "-d", "--init", "--name", container, "--network", name, *limits[engine])
            docker(*told, image, "sleep", "3600", engine=engine)
        yield places
    finally:
        for engine, container in places:
            subprocess.run(
                ["docker", "--host", engine, "rm", "-fv", container], check=False, capture_output=True
            )
        subprocess.run(["docker", "--host", manager, "network", "rm", name], check=False, capture_output=True)


def limits_of(place: Place) -> list[str]:
    """Return the options of `docker run` with the limits of a container."""
    engine, container = place
    names = {
        "CpusetCpus": "cpuset-cpus",
        "CpuQuota": "cpu-quota",
        "CpuPeriod": "cpu-period",
        "CpuShares": "cpu-shares",
        "Memory": "memory",
    }
    found = json.loads(docker("inspect", "--format", "{{json .HostConfig}}", container, engine=engine))
    return [f"--{option}={found[name]}" for name, option in names.items()]


def stream_mb_per_s(sender: Place, receiver: Place) -> float:
    """Return the rate of one TCP stream from one container to the other by its name."""
    target = hostname(receiver) if "berth-bench-" not in receiver[1] else receiver[1]
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(run_python, receiver, RECEIVE)
        run_python(sender, SEND, target)
        return float(received.result())


def run_python(place: Place, program: str, *arguments: str) -> str:
    engine, container = place
    return docker("exec", container, "python3", "-c", program, *arguments, engine=engine)


def hostname(place: Place) -> str:
    engine, container = place
    return docker("exec", container, "hostname", engine=engine).strip()


def serve(engine: str, container: str) -> None:
    """Start the app in the container of a session."""
    docker("exec", container, "sh", "-c", f"cat >/tmp/app.cfg <<'END'\n{APP}END\n", engine=engine)
    docker("exec", "-d", container, "/usr/sbin/haproxy", "-db", "-f", "/tmp/app.cfg", engine=engine)


def containers_of(session: dict[str, Any]) -> tuple[str, ...]:
    """Return the arguments of docker that list the names of a session's containers."""
    return ("ps", "--filter", f"label=io.berth.session={session['id']}", "--format", "{{.Names}}")


def engine_of(machine: ClusterMachine) -> str:
    return f"unix://{machine.socket}"


def manage(data: Path, *arguments: str) -> str:
    """Return what a command of Django says about the portal on `data`."""
    return subprocess.run(
        [CHECKOUT / "bin" / "manage", *arguments],
        check=True,
        env={**own_environment(), "BERTH_DATA": str(data)},
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
