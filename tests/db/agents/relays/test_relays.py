"""Relays follow the machines, and routes of the gateway follow the relays."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from tempfile import NamedTemporaryFile
from threading import Thread
from typing import Any

import pytest

from agents.connections.authority import own_client, trusted_authorities
from agents.core.relay_names import relay_domain
from agents.core.states import AgentState
from agents.models import Agent, AgentRelay, Realm, RelayRoute
from agents.relays import containers
from agents.relays.containers import (
    certificate_of,
    check_relay,
    client_context,
    reconcile_relays,
    record_relay,
    relay_name,
    tunnel_name,
)
from agents.relays.routes import route_to
from agents.relays.tunnel import TunnelRoute
from agents.runtime.registry import adopt_runtime
from agents.runtime.simulated.runtime import SimulatedRuntime
from common import clock
from tests.factories_sessions import make_place
from transport.proxy import DIRECT, TlsRelayRoute

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_redis")]
IMAGE, REMOTE, PLACE, SESSION = (
    "berth/python:helper",
    "tcp://127.0.0.1:2376",
    ("127.0.0.1", 2378),
    "10.213.0.2",
)


def machine() -> tuple[Agent, SimulatedRuntime]:
    agent = make_place().agent
    runtime = SimulatedRuntime(name="real", images=(IMAGE,))
    adopt_runtime(REMOTE, runtime)
    Agent.objects.filter(pk=agent.pk).update(address=REMOTE, engine_id="real")
    return loaded(agent), runtime


def loaded(agent: Agent) -> Agent:
    return Agent.objects.select_related("relay").get(pk=agent.pk)


@pytest.fixture
def closed_port(settings: Any) -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.BERTH_RELAY_PORT = server.getsockname()[1]
    return int(settings.BERTH_RELAY_PORT)


@pytest.fixture
def listener(closed_port: int) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", closed_port)) as server:
        yield server


def serve_once(listener: socket.socket, agent: Agent) -> None:
    """Shake hands as the agent's relay would."""
    own = certificate_of(agent)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=trusted_authorities(Realm.RELAY))
    context.verify_mode = ssl.CERT_REQUIRED
    with NamedTemporaryFile("w") as file:
        file.write(own.certificate + own.key)
        file.flush()
        context.load_cert_chain(file.name)

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as plain:
            context.wrap_socket(plain, server_side=True).close()

    Thread(target=serve, daemon=True).start()


def helpers(runtime: SimulatedRuntime) -> set[str]:
    return {state.name for state in runtime.list_containers({})}


def test_a_machine_whose_port_is_closed_gets_a_tunnel_until_its_relay_answers(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers.time, "sleep", lambda _s: None)
    agent, runtime = machine()
    reconcile_relays([IMAGE])
    row = AgentRelay.objects.get(agent=agent)
    assert (row.route, row.host, row.port) == (RelayRoute.TUNNEL, "127.0.0.1", closed_port)
    assert "refused" in row.error
    assert helpers(runtime) == {relay_name(), tunnel_name()}

    with socket.create_server(("127.0.0.1", closed_port)) as listener:
        serve_once(listener, agent)
        reconcile_relays([IMAGE])
    row.refresh_from_db()
    assert (row.route, row.error) == (RelayRoute.RELAY, "")
    assert helpers(runtime) == {relay_name()}


def test_a_relay_that_refuses_the_gateway_is_not_used(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "ATTEMPTS", 1)
    agent, _runtime = machine()
    serve_once(listener, agent)
    stranger = client_context(certificate_of(agent).authority, own_client(Realm.ENGINE))
    error = check_relay(listener.getsockname(), stranger, f"check.{relay_domain(agent.pk)}")
    assert "unknown ca" in error


def test_a_retired_machine_keeps_no_relay(listener: socket.socket) -> None:
    agent, runtime = machine()
    serve_once(listener, agent)
    reconcile_relays([IMAGE])
    assert helpers(runtime) == {relay_name()}
    Agent.objects.filter(pk=agent.pk).update(state=AgentState.RETIRED, state_changed_at=clock.now())
    reconcile_relays([IMAGE])
    assert helpers(runtime) == set()
    assert not AgentRelay.objects.exists()


def test_a_certificate_is_issued_once_and_again_before_it_ends(settings: Any) -> None:
    agent, _ = machine()
    first = certificate_of(agent)
    assert certificate_of(agent) == first
    AgentRelay.objects.update(ends_at=clock.now() + timedelta(days=29))
    second = certificate_of(agent)
    assert second.certificate != first.certificate
    settings.SECRET_KEY = "another"
    assert certificate_of(agent).certificate != second.certificate


def test_routes_follow_what_the_last_check_found() -> None:
    agent, _ = machine()
    assert route_to(loaded(agent), SESSION) is None
    certificate_of(agent)
    assert route_to(loaded(agent), SESSION) is None

    record_relay(agent.pk, PLACE, "")
    relay = route_to(loaded(agent), SESSION)
    assert isinstance(relay, TlsRelayRoute)
    assert route_to(loaded(agent), SESSION) is relay

    record_relay(agent.pk, PLACE, "no answer")
    assert isinstance(route_to(loaded(agent), SESSION), TunnelRoute)
    record_relay(agent.pk, PLACE, "")
    assert route_to(loaded(agent), SESSION) is not relay


@pytest.mark.parametrize(
    "address", ["10.213.0.1", "10.213.0.15", "10.213.0.16", "127.0.0.1", "8.8.8.8", "::1"]
)
def test_no_route_leads_to_what_is_no_container_of_a_session(address: str) -> None:
    agent, _ = machine()
    certificate_of(agent)
    record_relay(agent.pk, PLACE, "")
    assert route_to(loaded(agent), address) is None


def test_containers_of_the_portals_own_machine_are_reached_directly() -> None:
    agent, _ = machine()
    agent.address = "unix:///var/run/docker.sock"
    assert route_to(agent, "172.17.0.9") is DIRECT


def test_relays_know_another_client_than_engines() -> None:
    relay, engine = own_client(Realm.RELAY), own_client(Realm.ENGINE)
    assert relay.authority != engine.authority
    assert client_context(relay.authority, relay).check_hostname
