"""Services of connections: refusals, certificates that Berth issues, and their end."""

import os
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.test import Client, override_settings

from agents.connections import authority, invitations, service
from agents.connections.service import NewAgent
from agents.core.states import AgentState
from agents.machines.observation import observe
from agents.models import Agent, ConnectionKind, MachineInvitation, Realm, ResourceGroup
from agents.models.connection import KEYS
from agents.resource_groups.service import create_resource_group
from agents.runtime import registry
from agents.runtime.port import TlsMaterial
from common import clock
from common.actors import SYSTEM
from common.errors import Conflict, InvalidInput, NotFound, Unavailable
from common.values.encryption import encrypt
from tests.doubles.runtimes import LostRuntime

pytestmark = pytest.mark.django_db
ANSWER = b'HTTP/1.0 200 OK\r\n\r\n{"ApiVersion": "1.41", "Version": "24.0.9", "Arch": "amd64"}'


@pytest.fixture(autouse=True)
def group() -> ResourceGroup:
    return create_resource_group(actor=SYSTEM, name="default", is_default=True)


@contextmanager
def machine(script: str, home: Path, port: int) -> Iterator[None]:
    """Run an engine with the certificates that a script brings, for one call."""
    pem = {
        name: re.search(f"echo '([^']+)' >/etc/docker/berth/{name}.pem", script)
        for name in ("ca", "cert", "key")
    }
    texts = {name: found[1] for name, found in pem.items() if found}
    (home / "server.pem").write_text(texts["cert"] + "\n" + texts["key"] + "\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=texts["ca"])
    context.load_cert_chain(home / "server.pem")

    def serve(listener: socket.socket) -> None:
        plain, _address = listener.accept()
        try:
            with context.wrap_socket(plain, server_side=True) as guest:
                guest.recv(2**12)
                guest.sendall(ANSWER)
        except OSError:
            plain.close()

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield
        thread.join(5)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def invite(port: int) -> tuple[MachineInvitation, str]:
    return invitations.invite_machine(
        actor=SYSTEM, name="gpu-01", address=f"tcp://127.0.0.1:{port}", is_confirmed=True
    )


def admitted(port: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """Invite a machine, set it up, and admit it."""
    _invitation, token = invite(port)
    script = Client().get(f"/join/{token}/").content.decode()
    engine = LostRuntime(name=f"issued-{port}", cpu_milli=4000, mem_bytes=2**33)
    monkeypatch.setattr(registry, "_make", lambda *_arguments: engine)
    with machine(script, home, port):
        invitations.admit_machines()
    return Agent.objects.get(name="gpu-01")


@pytest.mark.parametrize(
    ("new", "field", "words"),
    [
        (NewAgent("gpu-01", "tcp://127.0.0.1:2376"), "address", "whichever machine a process of Berth runs on"),
        (NewAgent("gpu-01", "tcp://169.254.169.254:2376"), "address", "names no machine"),
        (NewAgent("gpu-01", "tcp://0.0.0.0:2376"), "address", "names no machine"),
        (NewAgent("gpu-01", "tcp://localhost:8080"), "address", "is Berth itself"),
        (NewAgent("gpu-01", "tcp://10.1.1.1:99999"), "address", "Ports are from 1 to 65535"),
        (NewAgent("gpu-01", "ssh://10.1.1.1"), "address", "not the address of an engine"),
        (NewAgent("gpu-01", "tcp://10.1.1.1:2376"), "certificate", "reached with certificates"),
        (NewAgent("gpu-01", "tcp://10.1.1.1:2375", is_plain_text=True), "is_confirmed", "owns the machine"),
    ],
    ids=["loopback", "link-local", "unspecified", "the portal", "port", "no user", "no certificates", "plain text"],
)  # fmt: skip
@override_settings(BERTH_URL="http://localhost:8080")
def test_address_that_cannot_be_meant_is_refused(new: NewAgent, field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        service.add_agent(actor=SYSTEM, new=new)
    assert field in caught.value.fields
    assert words in f"{caught.value.message} {caught.value.fields}"


def test_machine_that_fetched_its_certificate_is_admitted_when_it_answers(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = admitted(port, tmp_path, monkeypatch)
    assert (agent.state, agent.connection["kind"]) == (AgentState.CONNECTED, "issued")
    assert not MachineInvitation.objects.exists()
    material = agent.credentials
    assert isinstance(material, TlsMaterial)
    assert Path(material.key_file).stat().st_mode & 0o777 == 0o600


def test_machine_whose_facts_no_row_can_hold_is_told_so(port: int) -> None:
    invite(port)
    seen = observe(LostRuntime(name=f"liar-{port}", cpu_milli=4000, mem_bytes=2**33))
    unusable = replace(seen, info=replace(seen.info, version="1" * 100))
    invitations._admit(MachineInvitation.objects.get(), unusable)
    assert MachineInvitation.objects.get().last_error
    assert not Agent.objects.exists()


def test_machine_that_does_not_answer_is_told_why(port: int) -> None:
    invite(port)
    invitations.admit_machines()
    assert "refused" in MachineInvitation.objects.get().last_error
    assert not Agent.objects.exists()


def test_machine_whose_invitation_is_withdrawn_while_its_engine_is_asked_is_not_added(port: int) -> None:
    invitation, _token = invite(port)
    stale = MachineInvitation.objects.get()
    invitations.cancel_invitation(actor=SYSTEM, invitation_id=invitation.pk)
    engine = LostRuntime(name=f"withdrawn-{port}", cpu_milli=4000, mem_bytes=2**33)
    invitations._admit(stale, observe(engine))
    assert not Agent.objects.exists()


def test_script_is_given_once(port: int) -> None:
    _invitation, token = invite(port)
    assert "BEGIN PRIVATE KEY" in invitations.fetch_script(token)
    assert MachineInvitation.objects.get().key == ""
    with pytest.raises(NotFound):
        invitations.fetch_script(token)


def test_script_is_not_given_after_an_hour(port: int) -> None:
    _invitation, token = invite(port)
    with clock.frozen_at(clock.now() + invitations.TOKEN_LIFETIME), pytest.raises(NotFound):
        invitations.fetch_script(token)
    with clock.frozen_at(clock.now() + 2 * invitations.TOKEN_LIFETIME):
        invitations.admit_machines()
    assert MachineInvitation.objects.get().key == ""  # nobody needs it any more


def test_certificate_issued_again_leaves_the_old_one_trusted_unless_it_is_compromised(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = admitted(port, tmp_path, monkeypatch)
    old = agent.connection["ca"].strip()
    for _ in range(3):  # they are never fetched
        invitations.issue_again(actor=SYSTEM, agent_id=agent.pk)
        with clock.frozen_at(clock.now() + 2 * invitations.TOKEN_LIFETIME):
            invitations.admit_machines()
        agent.refresh_from_db()
        assert old in agent.connection["ca"]
    invitations.issue_again(actor=SYSTEM, agent_id=agent.pk, is_compromised=True)
    agent.refresh_from_db()
    assert agent.connection["ca"].count("BEGIN CERTIFICATE") == 1
    assert old not in agent.connection["ca"]


def test_revoked_machine_is_retired_and_cannot_be_reached(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = admitted(port, tmp_path, monkeypatch)
    agent = service.revoke_connection(actor=SYSTEM, agent_id=agent.pk)
    assert (agent.state, agent.connection, agent.credentials) == (AgentState.RETIRED, {}, None)
    with pytest.raises(Conflict):
        invitations.issue_again(actor=SYSTEM, agent_id=agent.pk)


def test_renewed_client_certificate_reaches_the_machines(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = admitted(port, tmp_path, monkeypatch)
    before = agent.connection["certificate"]
    with clock.frozen_at(clock.now() + authority.CLIENT_LIFETIME - authority.RENEWED_BEFORE / 2):
        service.renew_client_certificates()
        agent.refresh_from_db()
        assert agent.connection["certificate"] == authority.own_client(Realm.ENGINE).certificate != before


def test_ssh_server_that_is_not_there_is_named(port: int) -> None:
    new = NewAgent("gpu-01", f"ssh://berth@127.0.0.1:{port}", is_confirmed=True)
    with pytest.raises(Unavailable, match="not reached by SSH"):
        service.add_agent(actor=SYSTEM, new=new)


def test_files_and_clients_of_keys_that_no_machine_has_any_more_go(
    group: ResourceGroup, tmp_path: Path, settings: Any
) -> None:
    settings.DATA_DIR = tmp_path
    agent = Agent.objects.create(name="m", address="tcp://10.0.0.9:2376", resource_group=group)
    runtimes = []
    for key in ("first", "second"):
        keys = {"ca": "ca", "certificate": "cert", "key": encrypt(KEYS, key)}
        agent.connection = {"kind": ConnectionKind.ISSUED, **keys}
        agent.save()
        runtimes.append(registry.runtime_for(agent.address, agent.credentials))
    assert registry._runtimes[agent.address] == (agent.credentials, runtimes[1])
    assert registry.runtime_for(agent.address, agent.credentials) is runtimes[1]

    written = tmp_path / "connections"
    assert len(list(written.iterdir())) == 2
    service.remove_old_connection_files()
    assert len(list(written.iterdir())) == 2  # somebody may be about to use a new one
    for directory in written.iterdir():
        os.utime(directory, (0, 0))
    service.remove_old_connection_files()
    [kept] = written.iterdir()
    assert (kept / "key.pem").read_text() == "second"
