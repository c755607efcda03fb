"""A real relay and a tunnel, in front of containers of this machine, whose engine is taken for a remote one."""

import asyncio
import hashlib
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from agents.connections.certificates import Issued, make_authority, sign_client, sign_server
from agents.core.relay_names import relay_domain, server_name
from agents.relays import containers
from agents.relays.containers import check_relay, client_context, relay_spec, tunnel_spec
from agents.relays.tunnel import TunnelRoute
from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import NetworkSpec
from common import clock
from tests import engines
from tests.waiting import wait_until
from transport.proxy import Route, Target, Timeouts, TlsRelayRoute, Transport, UpstreamUnreachable
from transport.proxy.connection import Connection

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

POOL, AGENT, PORT, UNUSED = "10.214.48.0/20", 7, 8000, 8001
CLUSTERS, CLUSTER_BRIDGE, CLUSTER_MAIN = "10.214.64.0/20", "10.214.65.254", "10.214.65.1"
OpenRoute = Callable[[], AbstractAsyncContextManager[Route]]
DAY = timedelta(days=1)
SIZE = 64 * 2**20
SERVE = f"cd /tmp; echo $HOSTNAME >name; head -c {SIZE} /dev/zero >big; exec httpd -f -p {PORT}"


@dataclass(frozen=True)
class Machine:
    """Relay of agent 7, with two containers of sessions."""

    runtime: DockerRuntime
    address: tuple[str, int]
    own: Issued
    client: Issued
    sessions: dict[str, str]

    @property
    def tls(self) -> ssl.SSLContext:
        return client_context(self.own.authority, self.client)

    @property
    def route(self) -> Route:
        return TlsRelayRoute(self.address, self.tls, lambda host, port: server_name(AGENT, host, port))

    def says(self, name: str, tls: ssl.SSLContext | None = None) -> bytes:
        """The answer to a request of the page /name at this server name; b"" if the relay closes."""
        with (
            socket.create_connection(self.address, 5) as plain,
            (tls or self.tls).wrap_socket(plain, server_hostname=name) as stream,
        ):
            stream.sendall(b"GET /name HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: stream.recv(2**16), b""))


@pytest.fixture(scope="module")
def machine(runtime: DockerRuntime, image: str) -> Iterator[Machine]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.BERTH_INSTALLATION", engines.INSTALLATION)
        patch.setattr("django.conf.settings.BERTH_SESSION_POOL", POOL)
        patch.setattr("django.conf.settings.BERTH_CLUSTER_POOL", CLUSTERS)
        now = clock.now()
        own = sign_server(make_authority("machine", now, DAY), [f"*.{relay_domain(AGENT)}"], now, DAY)
        clients = make_authority("clients", now, DAY)
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = free.getsockname()[:2]
        runtime.ensure_helper(relay_spec(image, AGENT, address, own, clients.certificate))
        sessions = dict(serving_container(runtime) for _ in range(2))
        made = Machine(runtime, address, own, sign_client(clients, "portal", now, DAY), sessions)
        assert check_relay(address, made.tls, f"check.{relay_domain(AGENT)}") == ""
        yield made


def serving_container(runtime: DockerRuntime, address: str = "", **network: str) -> tuple[str, str]:
    """Name and address of a session's container that serves /name and /big."""
    name = f"relay-{uuid4().hex[:8]}"
    runtime.ensure_network(NetworkSpec(name=name, labels=engines.LABELS, pool=POOL, **network))
    runtime.ensure_container(
        engines.tiny_spec(
            name, "sh", "-c", SERVE, network=name, hostname=name, mem_bytes=2**27, address=address
        )
    )
    runtime.start_container(name)
    state = runtime.inspect_container(name)
    assert state
    address = state.addresses[name]
    wait_until(lambda: is_open(address, PORT))
    return name, address


def is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


async def fetch(transport: Transport, target: Target, path: str) -> bytes:
    connection = await transport.pool.connect(target)
    connection.start("GET", f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (await connection.response()).status == 200
    body = bytearray()
    while chunk := await connection.next_chunk():
        body += chunk
    transport.pool.release(connection)
    return bytes(body)


def test_each_server_name_leads_to_its_own_container(machine: Machine) -> None:
    for name, address in machine.sessions.items():
        assert machine.says(server_name(AGENT, address, PORT)).endswith(f"{name}\n".encode())


def test_first_container_of_a_session_on_several_machines_is_reached_but_not_its_bridge(
    machine: Machine,
) -> None:
    network = {"subnet": "10.214.65.0/24", "gateway": CLUSTER_BRIDGE}
    name, address = serving_container(machine.runtime, CLUSTER_MAIN, **network)
    assert machine.says(server_name(AGENT, address, PORT)).endswith(f"{name}\n".encode())
    with socket.create_server((CLUSTER_BRIDGE, 0)) as service:
        service.settimeout(0.2)
        assert machine.says(server_name(AGENT, CLUSTER_BRIDGE, service.getsockname()[1])) == b""
        with pytest.raises(TimeoutError):
            service.accept()


def test_only_containers_of_sessions_are_reached(machine: Machine, subtests: Any) -> None:
    address = next(iter(machine.sessions.values()))
    bridge = address.rpartition(".")[0] + "." + str(int(address.rpartition(".")[2]) - 1)
    with socket.create_server(("", 0)) as service:  # of the machine, on each of its addresses
        service.settimeout(0.2)
        port = service.getsockname()[1]
        places = {
            "the bridge": server_name(AGENT, bridge, port),
            "loopback": server_name(AGENT, "127.0.0.1", port),
            "the machine": server_name(AGENT, own_address(), port),
            "any address": server_name(AGENT, "0.0.0.0", port),
            "outside": server_name(AGENT, "192.0.2.77", 80),
            "metadata": server_name(AGENT, "169.254.169.254", 80),
            "no address": f"{PORT}-10-214-48-999.{relay_domain(AGENT)}",
            "too short": f"{PORT}-10-214-48.{relay_domain(AGENT)}",
            "port 0": server_name(AGENT, address, 0),
            "large port": server_name(AGENT, address, 73536),
            "words": f"anything.{relay_domain(AGENT)}",
        }
        for place, name in places.items():
            with subtests.test(place):
                assert machine.says(name) == b""
        with pytest.raises(TimeoutError):
            service.accept()


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def test_who_has_no_certificate_for_relays_is_refused(machine: Machine, subtests: Any) -> None:
    now, address = clock.now(), next(iter(machine.sessions.values()))
    name = server_name(AGENT, address, PORT)
    stranger = sign_client(make_authority("clients", now, DAY), "portal", now, DAY)
    none = ssl.create_default_context(cadata=machine.own.authority)
    past = now - 3 * DAY
    cases = {
        "of another authority": client_context(machine.own.authority, stranger),
        "none": none,
        "the relay's own": client_context(machine.own.authority, machine.own),
        "expired": client_context(
            machine.own.authority, sign_client(make_authority("clients", past, DAY), "portal", past, DAY)
        ),
    }
    for case, tls in cases.items():
        with subtests.test(case):
            assert is_refused(machine, name, tls)
    with subtests.test("no TLS"), socket.create_connection(machine.address, 5) as plain:
        plain.sendall(b"GET /name HTTP/1.0\r\n\r\n")
        assert b"HTTP" not in plain.recv(2**16)


def is_refused(machine: Machine, name: str, tls: ssl.SSLContext) -> bool:
    """TLS 1.3 refuses a client's certificate after the handshake only."""
    try:
        return machine.says(name, tls) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_a_relay_is_not_taken_for_that_of_another_machine(machine: Machine) -> None:
    with pytest.raises(ssl.SSLError):
        machine.says(server_name(AGENT + 1, next(iter(machine.sessions.values())), PORT))
    now = clock.now()
    other = sign_server(make_authority("machine", now, DAY), [f"*.{relay_domain(AGENT)}"], now, DAY)
    with pytest.raises(ssl.SSLCertVerificationError):
        machine.says(server_name(AGENT, "10.214.48.2", PORT), client_context(other.authority, machine.client))


def test_a_killed_relay_comes_back_and_requests_wait_for_it(machine: Machine) -> None:
    before = {name: machine.runtime.inspect_container(name) for name in machine.sessions}
    pid = next(iter(machine.runtime.process_ids(containers.relay_name())))

    async def request_while_killed() -> bytes:
        transport = Transport()
        name, address = next(iter(machine.sessions.items()))
        target = Target(address, PORT, name, machine.route)
        assert await fetch(transport, target, "/name") == f"{name}\n".encode()
        kill(machine.runtime, pid)
        while transport.pool.reuse(target):  # the connections of before are lost
            await asyncio.sleep(0)
        body = await fetch(transport, target, "/name")
        await transport.close()
        return body

    assert asyncio.run(request_while_killed()).decode().strip() in machine.sessions
    assert {name: machine.runtime.inspect_container(name) for name in machine.sessions} == before


def kill(runtime: DockerRuntime, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


@pytest.fixture(params=["relay", "tunnel"])
def opened(request: pytest.FixtureRequest, machine: Machine, image: str) -> OpenRoute:
    """Gives the route to a running event loop."""

    @asynccontextmanager
    async def over_relay() -> AsyncIterator[Route]:
        yield machine.route

    @asynccontextmanager
    async def over_tunnel() -> AsyncIterator[Route]:
        engine = DockerAsyncRuntime(engines.ADDRESS)
        yield TunnelRoute(lambda: engine, containers.tunnel_name())
        await engine.close()

    machine.runtime.ensure_helper(tunnel_spec(image))
    return over_relay if request.param == "relay" else over_tunnel


def test_requests_and_large_bodies_pass(machine: Machine, opened: OpenRoute) -> None:
    async def load(route: Route) -> None:
        transport = Transport()
        for name, address in machine.sessions.items():
            target = Target(address, PORT, name, route)
            assert await fetch(transport, target, "/name") == f"{name}\n".encode()
            body = await fetch(transport, target, "/big")
            assert hashlib.md5(body).digest() == hashlib.md5(bytes(SIZE)).digest()
        await transport.close()

    asyncio.run(over(opened, load))


async def over(opened: OpenRoute, work: Callable[[Route], Awaitable[None]]) -> None:
    async with opened() as route:
        await work(route)


def test_a_port_where_nothing_listens_is_told_from_an_app_that_breaks_off(
    machine: Machine, opened: OpenRoute
) -> None:
    async def ask(port: int, route: Route) -> None:
        transport = Transport(Timeouts(response_head_s=5))
        name, address = next(iter(machine.sessions.items()))
        connection = await transport.pool.connect(Target(address, port, name, route))
        assert await connection.ends_within(5) or port == PORT
        connection.abort()
        await transport.pool.require_listener(connection)

    asyncio.run(over(opened, partial(ask, PORT)))
    with pytest.raises(UpstreamUnreachable):
        asyncio.run(over(opened, partial(ask, UNUSED)))


def test_a_connection_is_never_kept_for_another_container(machine: Machine) -> None:
    async def reuse() -> Connection | None:
        transport, route = Transport(), machine.route
        name, address = next(iter(machine.sessions.items()))
        await fetch(transport, Target(address, PORT, name, route), "/name")
        later = transport.pool.reuse(Target(address, PORT, "a later container", route))
        await transport.close()
        return later

    assert asyncio.run(reuse()) is None


@pytest.mark.parametrize("opened", ["tunnel"], indirect=True)
def test_a_tunnel_leaves_no_process(machine: Machine, opened: OpenRoute) -> None:
    async def load(route: Route) -> None:
        transport = Transport()
        for name, address in machine.sessions.items():
            await fetch(transport, Target(address, PORT, name, route), "/name")
        await transport.close()

    asyncio.run(over(opened, load))
    wait_until(lambda: len(machine.runtime.process_ids(containers.tunnel_name())) == 1, deadline_s=10)


def test_a_relay_is_left_alone_until_a_part_of_it_changes(
    machine: Machine, image: str, settings: Any
) -> None:
    def ensured(authority: str, image: str) -> str:
        spec = relay_spec(image, AGENT, machine.address, machine.own, authority)
        return machine.runtime.ensure_helper(spec).container_id

    now, [authority] = clock.now(), [machine.client.authority]
    authorities = authority + make_authority("clients", now, DAY).certificate
    found = machine.runtime.inspect_image(image)
    assert found is not None
    made = [ensured(authority, image)]
    assert ensured(authority, image) == made[0]
    made.append(ensured(authorities, image))
    made.append(ensured(authorities, found.image_id))
    settings.BERTH_CLUSTER_POOL = "10.214.80.0/20"  # a part of the configuration
    made.append(ensured(authorities, found.image_id))
    assert len(set(made)) == len(made)
    assert check_relay(machine.address, machine.tls, f"check.{relay_domain(AGENT)}") == ""
