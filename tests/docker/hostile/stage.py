"""Containers that attacks run in: a session as Berth starts it, and others that lack one wall each."""

import io
import json
import os
import secrets
import socket
import stat
import tarfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

import docker
import docker.errors

from agents.accelerators.grant import DeviceGrant, DeviceNode
from agents.machines import network_isolation
from agents.models import Agent
from agents.runtime.docker.encoding import container_config, owner_archive
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerSpec, NetworkSpec
from common.values.resources import ResourceSlots
from portal.ops.engine.session_image import ensure_session_image
from scheduler.commit.cpu_pinning import choose_cores
from sessions_app.core import container_spec
from tests import engines
from tests.docker.hostile.table import CHANGES, Json, Without

POOL = "10.214.48.0/20"
PLACES = 512  # for networks without walls: a /29 each from 10.214.64.0 on
CPU_MILLI = 1000
MEM_BYTES = 512 * 2**20
SHM_BYTES = 16 * 2**20
SECRET = "a secret of the machine"
SERVE = f"while true; do echo {SECRET!r} | nc -l -p 8000; done"
INSIDE = Path(__file__).with_name("inside")
OWN_DEVICE = "/dev/accelerator"
CONSOLES = 4
"""Major number of the virtual consoles."""
DOCKER_SOCKET = "/var/run/docker.sock"


class Stage:
    """A machine behind walls, a neighbour, and services of the machine that say a secret. Use as a context; nothing of it
    is left behind."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.runtime = DockerRuntime(engines.ADDRESS)
        self.client = docker.APIClient(engines.ADDRESS)
        self._listeners: list[socket.socket] = []
        self._networks: list[str] = []
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for state in self.runtime.list_containers(engines.LABELS):
            self.runtime.remove_container(state.name)
        for network in self._networks:
            with suppress(docker.errors.NotFound):
                self.client.remove_network(network)
        engines.remove_everything()
        self.runtime.close()
        self.client.close()

    def _build(self) -> None:
        engines.make_tiny_image()
        self.image = ensure_session_image(print, self._data_dir, address=engines.ADDRESS)
        found = self.runtime.inspect_image(self.image)
        assert found is not None
        why = network_isolation.install_isolation(
            Agent(name="here", address=engines.ADDRESS), [found.image_id]
        )
        assert not why, why
        self.neighbour_network = self.session_network()
        self.neighbour = self._start_neighbour()
        self.facts = {
            "mem_bytes": MEM_BYTES,
            "shm_bytes": SHM_BYTES,
            "machine_cores": os.cpu_count() or 1,
            "pids_limit": container_spec.PIDS_LIMIT,
            "nofile": ContainerSpec.__dataclass_fields__["nofile"].default,
            "own_device": OWN_DEVICE,
            "other_device": (CONSOLES, 11),
            "neighbour": self.neighbour_address(),
            "neighbour_port": 8000,
            "neighbour_name": "neighbour",
            **self._services(),
            **{
                f"{kind}_namespace": Path(f"/proc/self/ns/{kind}").stat().st_ino
                for kind in ("pid", "ipc", "uts")
            },
        }

    # What the machine and the neighbour have to offer

    def _start_neighbour(self) -> str:
        spec = engines.tiny_spec(
            f"berth-test-{uuid4().hex[:12]}",
            "sh",
            "-c",
            SERVE,
            network=self.neighbour_network,
            aliases=("neighbour",),
        )
        self.runtime.ensure_container(spec)
        self.runtime.start_container(spec.name)
        return spec.name

    def neighbour_address(self) -> str:
        state = self.runtime.inspect_container(self.neighbour)
        assert state is not None
        return state.addresses[self.neighbour_network]

    def _services(self) -> Json:
        everywhere, loopback = self._listen("0.0.0.0"), self._listen("127.0.0.1")
        abstract = f"berth-test-{secrets.token_hex(8)}"
        self._answer(_unix_listener(abstract))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("0.0.0.0", 0))
        self._listeners.append(datagrams)
        threading.Thread(target=_answer_datagrams, args=(datagrams,), daemon=True).start()
        return {
            "service_port": everywhere,
            "loopback_port": loopback,
            "datagram_port": datagrams.getsockname()[1],
            "abstract": abstract,
            "main_address": main_address(),
            "link_local": self._link_local_address(),
        }

    def _listen(self, host: str) -> int:
        listener = socket.create_server((host, 0))
        self._answer(listener)
        port: int = listener.getsockname()[1]
        return port

    def _answer(self, listener: socket.socket) -> None:
        self._listeners.append(listener)
        threading.Thread(target=_answer_callers, args=(listener,), daemon=True).start()

    def _link_local_address(self) -> str:
        """One that the machine has while the tests run, on a bridge of its own."""
        third = secrets.randbelow(250) + 1
        pool = docker.types.IPAMPool(subnet=f"169.254.{third}.0/29", gateway=f"169.254.{third}.1")
        try:
            self.plain_network(docker.types.IPAMConfig(pool_configs=[pool]))
        except docker.errors.APIError:
            return "127.0.0.1"
        return f"169.254.{third}.1"

    # Networks

    def session_network(self) -> str:
        spec = NetworkSpec(f"berth-test-{uuid4().hex[:12]}", engines.LABELS, POOL)
        self.runtime.ensure_network(spec)
        self._networks.append(spec.name)
        return spec.name

    def plain_network(self, ipam: Any = None) -> str:
        """A bridge without walls, as others on the machine have it."""
        name = f"berth-test-{uuid4().hex[:12]}"
        for _ in range(PLACES):
            place = secrets.randbelow(PLACES)
            pool = docker.types.IPAMPool(subnet=f"10.214.{64 + place // 32}.{place % 32 * 8}/29")
            chosen = ipam or docker.types.IPAMConfig(pool_configs=[pool])
            try:
                self.client.create_network(name, driver="bridge", ipam=chosen, labels=engines.LABELS)
            except docker.errors.APIError as error:
                if ipam is not None or "overlap" not in str(error):
                    raise
                continue
            break
        self._networks.append(name)
        return name

    # Containers

    def session_spec(self, **changes: object) -> ContainerSpec:
        """What Berth tells an engine about a session of our image."""
        session_id = uuid4()
        kernel_id = UUID(int=session_id.int ^ 1)
        plan = container_spec.KernelPlan(
            installation=engines.INSTALLATION,
            session_id=session_id,
            kernel_id=kernel_id,
            attempt=1,
            session_name="hostile",
            project="demo",
            kernel_name="main1",
            image=self.image,
            command="",
            slots=ResourceSlots({"cpu": CPU_MILLI, "mem": MEM_BYTES}),
            cpuset=choose_cores(CPU_MILLI, os.cpu_count() or 1, []),
            shm_bytes=SHM_BYTES,
            uid=1000,
            gid=1000,
            network_pool=POOL,
            has_readonly_root=True,
        )
        spec = replace(container_spec.build_container_spec(plan), grant=self._grant())
        self.runtime.ensure_network(replace(container_spec.build_network_spec(plan), labels=engines.LABELS))
        self._networks.append(spec.network)
        self.runtime.ensure_volume(container_spec.home_volume_name(kernel_id), engines.LABELS)
        return replace(spec, **changes)  # type: ignore[arg-type]

    def _grant(self) -> DeviceGrant:
        """Return the grant of one device. Virtual consoles stand for accelerators."""
        node = self._data_dir / "accelerator"
        if not node.exists():
            os.mknod(node, stat.S_IFCHR, os.makedev(CONSOLES, 10))
            node.chmod(0o666)
        return DeviceGrant(nodes=(DeviceNode(str(node), OWN_DEVICE),))

    def start_session(self, **changes: object) -> str:
        spec = self.session_spec(**changes)
        self.runtime.ensure_container(spec)
        self.runtime.start_container(spec.name)
        return spec.name

    def start_without(self, wall: Without) -> str:
        """The same container without one wall, told to the engine past the port, which knows no such containers."""
        spec = self.session_spec()
        config = container_config(spec)
        config["HostConfig"] |= self._changes(wall)
        if wall is Without.POWER:
            config["User"] = "0:0"
        if config["HostConfig"]["NetworkMode"] != spec.network:
            network = config["HostConfig"]["NetworkMode"]
            config.pop("Hostname", None)
            config.pop("NetworkingConfig")
            if network != "host":
                config["NetworkingConfig"] = {"EndpointsConfig": {network: {}}}
        self.client.create_container_from_config(config, spec.name)
        for mount in spec.mounts:
            if mount.owner is not None:
                self.client.put_archive(spec.name, mount.target, owner_archive(mount))
        self.client.start(spec.name)
        return spec.name

    def _changes(self, wall: Without) -> Json:
        if wall is Without.NETWORK:
            return {"NetworkMode": self.plain_network()}
        if wall is Without.ALONE:
            return {"NetworkMode": self.neighbour_network}
        return dict(CHANGES[wall])

    def attempt(self, container: str, rows: Iterable[str]) -> Mapping[str, tuple[str, str]]:
        """What came of these rows there: {name: (verdict, what was seen)}."""
        told = json.dumps({"rows": list(rows), "facts": self.facts})
        self.runtime.put_archive(container, container_spec.HOME, _packed(INSIDE))
        argv = ["python3", "-m", INSIDE.name, told]
        done = self.runtime.run_process(container, argv, timeout_s=300)
        lines = done.output.decode(errors="replace").strip().splitlines()
        assert done.exit_code == 0, "\n".join(lines[-20:])
        return {name: (verdict, seen) for name, (verdict, seen) in json.loads(lines[-1]).items()}


def _packed(package: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for file in sorted(package.glob("*.py")):
            archive.add(file, f"{package.name}/{file.name}")
    return buffer.getvalue()


def _unix_listener(abstract: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + abstract)
    listener.listen()
    return listener


def _answer_callers(listener: socket.socket) -> None:
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:
            return
        with caller, suppress(OSError):
            caller.sendall(SECRET.encode())


def _answer_datagrams(listener: socket.socket) -> None:
    while True:
        try:
            _, caller = listener.recvfrom(100)
            if caller is None:  # shut down
                return
            listener.sendto(SECRET.encode(), caller)
        except OSError:
            return


def main_address() -> str:
    """The address by which this machine speaks to others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
