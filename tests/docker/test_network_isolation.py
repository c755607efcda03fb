"""Addresses that a session reaches from its network on a real machine."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from agents.machines import network_isolation
from agents.models import Agent
from agents.runtime.docker.connection import run_once
from agents.runtime.docker.encoding import helper_config
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import HelperSpec, NetworkSpec, ProcessResult
from portal.ops.engine.objects import connect, remove_isolation_rules
from portal.ops.engine.session_image import ensure_session_image
from tests import engines
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]
POOL = "10.214.32.0/20"
METADATA = "169.254.169.254"
RULES = ("nft", "--json", "list", "table", "inet", "berth")


@dataclass(frozen=True, slots=True)
class Inside:
    """A container of a session."""

    runtime: DockerRuntime
    name: str
    address: str

    def answer_of(self, host: str, port: int, *, wait_s: int = 2) -> str:
        """What a service there says, or the client's complaint; both at once, or "" after `wait_s` of silence."""
        argv = ("timeout", str(wait_s), "nc", host, str(port))
        return self.runtime.run_process(self.name, argv).output.decode()


@pytest.fixture(scope="module")
def image_id(runtime: DockerRuntime, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The session image; built if this engine never had it."""
    reference = ensure_session_image(print, tmp_path_factory.mktemp("data"), address=engines.ADDRESS)
    found = runtime.inspect_image(reference)
    assert found is not None
    return found.image_id


@pytest.fixture
def machine(image_id: str) -> Agent:
    """This machine, behind walls."""
    agent = Agent(name="here", address=engines.ADDRESS)
    assert network_isolation.install_isolation(agent, [image_id]) == ""
    return agent


@pytest.fixture
def make_session(runtime: DockerRuntime) -> Iterator["MakeSession"]:
    make = MakeSession(runtime)
    yield make
    for name in make.containers:
        runtime.remove_container(name)
    for name in make.networks:
        runtime.remove_network(name)


class MakeSession:
    """Containers that say hello on port 8000, the containers of one call in one network."""

    def __init__(self, runtime: DockerRuntime) -> None:
        self._runtime = runtime
        self.containers: list[str] = []
        self.networks: list[str] = []

    def __call__(self, *aliases: str) -> list[Inside]:
        network = NetworkSpec(f"berth-test-{uuid4().hex[:12]}", engines.LABELS, POOL)
        self._runtime.ensure_network(network)
        self.networks.append(network.name)
        return [self._start(network.name, alias) for alias in aliases]

    def _start(self, network: str, alias: str) -> Inside:
        serve = "while true; do echo hello | nc -l -p 8000; done"
        name = f"berth-test-{uuid4().hex[:12]}"
        spec = engines.tiny_spec(name, "sh", "-c", serve, network=network, aliases=(alias,))
        self._runtime.ensure_container(spec)
        self.containers.append(name)
        self._runtime.start_container(name)
        state = self._runtime.inspect_container(name)
        assert state is not None
        return Inside(self._runtime, name, state.addresses[network])


@pytest.fixture
def service() -> Iterator[int]:
    """Port of a service on all addresses of this machine; it says "secret"."""
    listener = socket.create_server(("0.0.0.0", 0))

    def serve() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller:
                caller.sendall(b"secret\n")

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def main_address() -> str:
    """The address by which this machine speaks to others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def call(address: str, port: int) -> bytes:
    try:
        with socket.create_connection((address, port), timeout=2) as connection:
            return connection.recv(100)
    except OSError:
        return b""


def on_machine(runtime: DockerRuntime, image_id: str, *command: str) -> str:
    spec = HelperSpec(
        name=f"berth-test-{uuid4().hex[:12]}",
        image=image_id,
        labels=engines.LABELS,
        command=command,
        capabilities=("NET_ADMIN",),
        has_network=True,
    )
    return runtime.run_helper(spec).output.decode()


def test_session_does_not_reach_the_machine_and_fails_at_once(
    machine: Agent, make_session: MakeSession, service: int
) -> None:
    (inside,) = make_session("main1")
    gateway = (
        inside.address.rpartition(".")[0] + "." + str((int(inside.address.rpartition(".")[2]) & ~15) + 1)
    )

    for address in (gateway, main_address()):
        assert call(address, service) == b"secret\n"
        said = inside.answer_of(address, service)
        assert "secret" not in said
        assert said, f"silence from {address}: the session waits instead of being refused"


def test_session_does_not_reach_the_metadata_of_a_cloud(machine: Agent, make_session: MakeSession) -> None:
    (inside,) = make_session("main1")
    assert "No route to host" in inside.answer_of(METADATA, 80)


def test_session_reaches_its_own_containers_by_name_and_no_other_session(
    machine: Agent, make_session: MakeSession
) -> None:
    main, sub = make_session("main1", "sub1")
    (stranger,) = make_session("main1")

    wait_until(lambda: main.answer_of("sub1", 8000) == "hello\n")
    wait_until(lambda: sub.answer_of("main1", 8000) == "hello\n")
    wait_until(lambda: stranger.answer_of("127.0.0.1", 8000) == "hello\n")
    assert "hello" not in main.answer_of(stranger.address, 8000)


def test_machine_reaches_apps_of_sessions(machine: Agent, make_session: MakeSession) -> None:
    (inside,) = make_session("main1")
    wait_until(lambda: call(inside.address, 8000) == b"hello\n")


def test_nothing_but_traffic_of_sessions_is_judged(
    machine: Agent, runtime: DockerRuntime, image_id: str
) -> None:
    listed = json.loads(on_machine(runtime, image_id, "nft", "--json", "list", "table", "inet", "berth"))
    chains = [each["chain"] for each in listed["nftables"] if "chain" in each]
    rules = [each["rule"] for each in listed["nftables"] if "rule" in each]

    for chain in chains:
        assert chain["policy"] == "accept"
        first = next(rule["expr"] for rule in rules if rule["chain"] == chain["name"])
        assert first[0]["match"] == {"op": "!=", "left": {"meta": {"key": "iifname"}}, "right": "bth*"}
        assert first[1] == {"accept": None}
    forward = [rule["expr"] for rule in rules if rule["chain"] == "forward"][1:]
    assert all(
        "daddr" in json.dumps(expressions) or "@engines" in json.dumps(expressions) for expressions in forward
    )


class InNetworkOf(DockerRuntime):
    """Helpers work in the network of a container, which stands for a machine: while the walls of the real one are down, everybody's
    sessions are without."""

    def __init__(self, container: str) -> None:
        super().__init__(engines.ADDRESS)
        self._network = f"container:{container}"

    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        return run_once(self._client, spec, moved(helper_config(spec), self._network), timeout_s)


def moved(config: dict[str, Any], network: str) -> dict[str, Any]:
    return {**config, "HostConfig": {**config["HostConfig"], "NetworkMode": network}}


def test_removed_isolation_is_set_up_again(
    image_id: str, make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, machine = make_session("main1", "machine")
    there = InNetworkOf(machine.name)
    monkeypatch.setattr(network_isolation, "runtime_of", lambda _: there)
    agent = Agent(name="there", address=engines.ADDRESS)
    like_a_bridge = "ip link set eth0 down && ip link set eth0 name bth0 && ip link set bth0 up"
    assert on_machine(there, engines.TINY_IMAGE, "sh", "-c", like_a_bridge) == ""
    wait_until(lambda: inside.answer_of(machine.address, 8000) == "hello\n")

    assert network_isolation.install_isolation(agent, [image_id]) == ""
    assert "hello" not in inside.answer_of(machine.address, 8000)

    said: list[str] = []
    with contextlib.closing(connect(engines.ADDRESS)) as engine:
        remove_isolation_rules(
            engine, engines.INSTALLATION, said.append, network_mode=f"container:{machine.name}"
        )
    assert said == ["removed the walls"]
    wait_until(lambda: inside.answer_of(machine.address, 8000) == "hello\n")

    assert network_isolation.install_isolation(agent, [image_id]) == ""
    assert "hello" not in inside.answer_of(machine.address, 8000)
    there.close()


def test_links_to_other_machines_are_removed_with_their_bridge(
    image_id: str, make_session: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine,) = make_session("machine")
    there = InNetworkOf(machine.name)
    monkeypatch.setattr(network_isolation, "runtime_of", lambda _: there)
    left_over = (
        "ip link add bth1 type bridge; ip link add btx1 master bth1 type vxlan id 5001 dstport 4799;"
        "ip link add btx2 type vxlan id 5002 dstport 4799; for each in 1 2 3; do nft add table inet btx$each; done"
    )
    assert on_machine(there, image_id, "sh", "-c", left_over) == ""
    assert network_isolation.install_isolation(Agent(name="there", address=engines.ADDRESS), [image_id]) == ""
    listed = on_machine(there, image_id, "sh", "-c", "ls /sys/class/net; nft list tables inet")
    assert [word for word in listed.split() if word.startswith("btx")] == ["btx1", "btx1"]
    there.close()


def test_second_set_up_changes_nothing_and_leaves_no_container(
    machine: Agent, runtime: DockerRuntime, image_id: str
) -> None:
    before = on_machine(runtime, image_id, *RULES)
    assert network_isolation.install_isolation(machine, [image_id]) == ""
    assert sorted_rules(on_machine(runtime, image_id, *RULES)) == sorted_rules(before)
    ours = {"io.berth.role": "walls", "io.berth.installation": settings.BERTH_INSTALLATION}
    assert runtime.list_containers(ours) == []


def sorted_rules(text: str) -> list[str]:
    """Our own rules without their numbers, which count up."""
    rules = [each["rule"] for each in json.loads(text)["nftables"] if "rule" in each]
    return sorted(json.dumps(rule["expr"]) for rule in rules if rule["table"] == "berth")


def test_image_without_the_tool_is_named_as_the_reason(runtime: DockerRuntime) -> None:
    tiny = runtime.inspect_image(engines.TINY_IMAGE)
    assert tiny is not None
    assert "nft" in network_isolation.install_isolation(
        Agent(name="here", address=engines.ADDRESS), [tiny.image_id]
    )
