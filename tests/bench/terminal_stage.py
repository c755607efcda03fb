"""Start a web process with running sessions in real containers, and
Jupyter in the first of them.
"""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import aiohttp
from django.conf import settings

from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerSpec, MountSpec, NetworkSpec
from common.actors import SYSTEM
from portal.ops.engine.session_image import ensure_session_image
from sessions_app.core.states import Reason, Status
from sessions_app.lifecycle import transitions
from sessions_app.models import ComputeSession
from tests import engines
from tests.bench.frame import say
from tests.bench.gateway_stage import web_process
from tests.bench.own_django import own_database
from tests.factories_scheduler import Cluster, make_cluster
from tests.ws.stage import sign_in

SESSIONS = 4  # each may have 32 terminals
JUPYTER_PORT = 8888
POOL = "10.214.48.0/20"
STARTS_WITHIN_S = 120
OWNER = (1000, 1000)
LAUNCH = (
    (Status.SCHEDULED, Reason.PLACED),
    (Status.PREPARING, Reason.PREPARING),
    (Status.STARTING, Reason.IMAGE_READY),
    (Status.RUNNING, Reason.CONTAINERS_UP),
)

Speak = Callable[[bytes], bytes]
Hear = Callable[[aiohttp.WSMessage], bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Door:
    """Way to open terminals, with the format of its messages."""

    urls: tuple[str, ...]
    headers: dict[str, str]
    is_ours: bool

    def spoken(self, text: str) -> bytes | str:
        return text.encode() if self.is_ours else json.dumps(["stdin", text])

    def heard(self, message: aiohttp.WSMessage) -> str:
        """Return the terminal output in this message."""
        if message.type is aiohttp.WSMsgType.BINARY:
            return bytes(message.data).decode(errors="replace")
        if self.is_ours or message.type is not aiohttp.WSMsgType.TEXT:
            raise SystemExit(f"The terminal says {message.data}")
        kind, *rest = json.loads(message.data)
        return str(rest[0]) if kind == "stdout" else ""


@dataclass(frozen=True, slots=True)
class Theatre:
    ours: Door
    peer: Door
    pid: int
    runtime: DockerRuntime
    containers: tuple[str, ...]

    def shells(self) -> int:
        """Return the number of shells in all containers, Berth's and Jupyter's."""
        script = (
            "n=0; for f in /proc/[0-9]*/comm; do read -r c <$f && [ $c = bash ] && n=$((n+1)); done; echo $n"
        )
        found = (
            self.runtime.run_process(name, ("sh", "-c", f"({script}) 2>/dev/null"))
            for name in self.containers
        )
        return sum(int(result.output) for result in found)


@contextlib.contextmanager
def theatre() -> Iterator[Theatre]:
    """Start all of it; stop and remove it at the end of the context."""
    with contextlib.ExitStack() as cleanup:
        environment = cleanup.enter_context(own_database())
        runtime = DockerRuntime(engines.ADDRESS)
        cleanup.callback(runtime.close)
        with tempfile.TemporaryDirectory() as directory:
            image = ensure_session_image(say, Path(directory), address=engines.ADDRESS)
        cluster = make_cluster()
        agent = cluster.add_agent({"cpu": 8000, "mem": 2**34})
        agent.address = engines.ADDRESS
        agent.save(update_fields=["address"])
        network = NetworkSpec(f"berth-bench-{uuid4().hex[:12]}", engines.LABELS, pool=POOL)
        runtime.ensure_network(network)
        cleanup.callback(runtime.remove_network, network.name)
        sessions = [running_session(cluster, agent.pk) for _ in range(SESSIONS)]
        names = tuple(session.kernels.get().container_name for session in sessions)
        for name in names:
            cleanup.callback(runtime.remove_volume, name)
            cleanup.callback(runtime.remove_container, name)
            start_container(runtime, image, name, network.name)
        port, pid = cleanup.enter_context(web_process(environment))
        portal_host = settings.BERTH_URL.partition("://")[2]
        cookie = f"{settings.SESSION_COOKIE_NAME}={sign_in(cluster.owner)}"
        ours = Door(
            urls=tuple(f"http://127.0.0.1:{port}/ws/sessions/{each.pk}/terminal/" for each in sessions),
            headers={"Host": portal_host, "Origin": settings.BERTH_URL, "Cookie": cookie},
            is_ours=True,
        )
        yield Theatre(ours, jupyter(runtime, names[0]), pid, runtime, names)


def running_session(cluster: Cluster, agent_id: int) -> ComputeSession:
    session = cluster.add_pending({"cpu": 1000, "mem": 2**29})
    session.kernels.update(agent_id=agent_id, address="127.0.0.1")
    for status, reason in LAUNCH:
        transitions.transition(session.pk, to=status, reason=reason, actor=SYSTEM)
    return session


def start_container(runtime: DockerRuntime, image: str, name: str, network: str) -> None:
    spec = ContainerSpec(
        name=name,
        image=image,
        labels=engines.LABELS,
        command=("sleep", "infinity"),
        user=":".join(map(str, OWNER)),
        environment={"HOME": "/home/work"},
        working_dir="/home/work",
        network=network,
        cpu_milli=2000,
        mem_bytes=2**30,
        mounts=(MountSpec(kind="volume", source=name, target="/home/work", owner=OWNER),),
    )
    runtime.ensure_volume(name, engines.LABELS)
    runtime.ensure_container(spec)
    runtime.start_container(name)


def jupyter(runtime: DockerRuntime, container: str) -> Door:
    """Start Jupyter in the container, reached at its own port, with one terminal."""
    token = uuid4().hex
    options = f"--no-browser --ip=0.0.0.0 --port={JUPYTER_PORT} --IdentityProvider.token={token}"
    runtime.start_process(container, ["sh", "-c", f"exec jupyter lab {options} >/tmp/jupyter.log 2>&1"])
    state = runtime.inspect_container(container)
    assert state is not None
    address = f"{next(iter(state.addresses.values()))}:{JUPYTER_PORT}"
    say("starting Jupyter")
    name = asyncio.run(new_jupyter_terminal(address, token))
    url = f"http://{address}/terminals/websocket/{name}?token={token}"
    return Door((url,), {"Authorization": f"token {token}"}, is_ours=False)


async def new_jupyter_terminal(address: str, token: str) -> str:
    give_up_at = time.monotonic() + STARTS_WITHIN_S
    headers = {"Authorization": f"token {token}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        while True:
            try:
                async with http.post(f"http://{address}/api/terminals") as answer:
                    answer.raise_for_status()
                    return str((await answer.json())["name"])
            except aiohttp.ClientError as error:
                if time.monotonic() > give_up_at:
                    raise SystemExit(f"Jupyter does not start: {error}") from error
            await asyncio.sleep(0.2)
