"""Engine reached over SSH by both kinds of runtime; SSH is a server of the same library."""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import asyncssh
import docker
import pytest
from asgiref.sync import sync_to_async

from agents.connections.probe import check_engine
from agents.runtime.docker.async_runtime import DockerAsyncRuntime
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.endpoints import endpoint_of
from agents.runtime.port import RuntimeUnavailable, SshMaterial
from agents.runtime.port_async import ProcessSpec
from agents.runtime.ssh_tunnels import host_key_of, run
from common.errors import Unavailable
from portal.ops.engine.objects import purge_machines
from tests import engines

pytestmark = pytest.mark.docker
OURS, STRANGER, HOST = (asyncssh.generate_private_key("ssh-ed25519") for _key in range(3))


class Server(asyncssh.SSHServer):
    """Lets Berth's key in, and on to sockets as OpenSSH does."""

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return bool(key.public_data == OURS.public_data)

    def unix_connection_requested(self, dest_path: str) -> bool:
        return True


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Server, server_host_keys=[HOST]
    ) as server:
        yield f"ssh://berth@127.0.0.1:{server.get_port()}"


def material(key: asyncssh.SSHKey = OURS, host: asyncssh.SSHKey = HOST, socket: str = "") -> SshMaterial:
    return SshMaterial(
        host_key=host.export_public_key().decode(),
        key=key.export_private_key().decode(),
        socket=socket or engines.ADDRESS.removeprefix("unix://"),
    )


async def test_engine_over_ssh_serves_workers_and_the_event_loop(address: str) -> None:
    runtime = DockerRuntime(address, material())
    local = DockerRuntime(engines.ADDRESS)
    infos = await asyncio.gather(asyncio.to_thread(runtime.info), asyncio.to_thread(local.info))
    assert infos[0].engine_id == infos[1].engine_id
    loop_runtime = DockerAsyncRuntime(address, material())
    with pytest.raises(Exception, match="No such container"):
        await loop_runtime.open_process("berth-test-none", ProcessSpec())
    await loop_runtime.close()
    runtime.close()
    local.close()


async def test_host_key_is_shown(address: str) -> None:
    shown = await asyncio.to_thread(lambda: run(host_key_of(address)))
    assert shown.split()[:2] == HOST.export_public_key().decode().split()[:2]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (material(key=STRANGER), "authorized_keys"),
        (material(host=STRANGER), "another host key"),
        (material(socket="/nonexistent/docker.sock"), "group docker"),
    ],
    ids=["key", "host key", "socket"],
)
async def test_ssh_that_leads_nowhere_is_named(address: str, wrong: SshMaterial, words: str) -> None:
    runtime = DockerRuntime(address, wrong)
    with pytest.raises(RuntimeUnavailable, match=words):
        await asyncio.to_thread(runtime.info)
    with pytest.raises(Unavailable, match=words):
        await sync_to_async(check_engine)(endpoint_of(address, wrong))


async def test_purge_cleans_machines_over_ssh(address: str, tmp_path: Path) -> None:
    keys = material()
    (tmp_path / "host_key").write_text(keys.host_key)
    (tmp_path / "ssh_key").write_text(keys.key)
    (tmp_path / "ssh_key").chmod(0o600)
    installation, said = uuid4().hex[:12], list[str]()
    engine = docker.DockerClient(engines.ADDRESS)
    volume = engine.volumes.create(labels={"io.berth.installation": installation})
    machines = {"gpu-01": {"address": address, "directory": str(tmp_path)}}
    (tmp_path / "machines.json").write_text(json.dumps(machines))
    await asyncio.to_thread(purge_machines, tmp_path / "machines.json", installation, said.append)
    assert said == ["gpu-01: removed 0 containers, 0 networks and 1 volumes"]
    assert volume.name not in [each.name for each in engine.volumes.list()]
    engine.close()


def test_sockets_of_tunnels_leave_with_their_process() -> None:
    script = """
from agents.runtime.port import SshMaterial
from agents.runtime.ssh_tunnels import socket_of
print(socket_of("ssh://berth@127.0.0.1:9", SshMaterial(host_key="", key="")).parent)
"""
    orphan = Path(tempfile.gettempdir()) / f"berth-ssh-{2**22}-test"  # no process has such a number
    orphan.mkdir(exist_ok=True)
    program = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    directory = Path(program.stdout.strip())
    assert directory.name.startswith("berth-ssh-")
    assert not directory.exists()
    assert not orphan.exists()
