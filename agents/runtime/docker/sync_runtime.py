"""ContainerRuntime for a Docker engine, over a local socket or mutual TLS (docker SDK)."""

import ipaddress
import json
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Any

import docker.errors
import requests
import urllib3
from docker.utils import parse_repository_tag

from agents.runtime.docker.connection import (
    CALL_TIMEOUT_S,
    TRANSFER_TIMEOUT_S,
    Connection,
    EngineClient,
    answered,
    boot_of,
    fault_of_answer,
    first_bytes,
    label_filter,
    labelled,
    lines_of,
    message_of,
    past_events,
    raise_refusal,
    run_once,
    start_helper,
    translated,
)
from agents.runtime.docker.deadlines import Limits, limited
from agents.runtime.docker.encoding import (
    PullTracker,
    carries,
    cdi_devices,
    container_config,
    free_subnets,
    helper_config,
    image_info,
    lasting_helper_config,
    machine_name,
    memory_kill_of,
    network_config,
    owner_archive,
    parse_instant,
    registry_headers,
    state_of_inspection,
    state_of_listing,
    subnets_of,
    tmpfs_options,
)
from agents.runtime.docker.image_archive import checked
from agents.runtime.docker.log_entries import LogTail
from agents.runtime.docker.logs import read_tail
from agents.runtime.port import (
    ContainerConflict,
    ContainerRuntime,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    Credentials,
    EngineInfo,
    HelperSpec,
    ImageInfo,
    ImagePullFailed,
    LabelledObject,
    MemoryKill,
    NetworkSpec,
    OnProgress,
    OutOfCapacity,
    ProcessResult,
    ProcessTimeout,
    RegistryCredentials,
)

HEARTBEAT_TIMEOUT_S = 5
IMPORT_TIMEOUT_S = 600  # the engine answers when it has unpacked all layers
SEND_TIMEOUT_S = 60  # an engine takes no further bytes while it writes to a slow disk
IMPORT = Limits(SEND_TIMEOUT_S, IMPORT_TIMEOUT_S, TRANSFER_TIMEOUT_S, TRANSFER_TIMEOUT_S)
COPY_BYTES = 2**20
NETWORK_ATTEMPTS = 64
RETRY_PAUSE_S = 0.05
CONFLICTS_OF_A_RACE = 16
REMEMBERED_OWNERS = 1000

CORES_ABSENT = "CPUs are not available"
"""Error message of a machine whose cores are not numbered from 0, perhaps because it is a container
itself.
"""


class DockerRuntime(ContainerRuntime):
    """One Docker engine. `address` is `unix:///path`, `tcp://host:port` or `ssh://user@host`."""

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        self.connection = Connection(address, credentials)
        self._owners = VolumeOwners()

    @property
    def _client(self) -> EngineClient:
        return self.connection.client()

    @translated
    def info(self) -> EngineInfo:
        client = self._client
        answer = client.get(client.url_of("/info"), timeout=HEARTBEAT_TIMEOUT_S)
        raise_refusal(answer)
        body = answer.json()
        boot_id, booted_at = boot_of(client, parse_instant(body.get("SystemTime", "")))
        return EngineInfo(
            engine_id=body["ID"],
            version=body["ServerVersion"],
            api_version=client.api_version,
            architecture=machine_name(body["Architecture"]),
            os=body["OperatingSystem"],
            cpu_milli=body["NCPU"] * 1000,
            mem_bytes=body["MemTotal"],
            kernel=body.get("KernelVersion", ""),
            has_live_restore=bool(body.get("LiveRestoreEnabled")),
            storage_driver=body.get("Driver", ""),
            root_dir=body.get("DockerRootDir", ""),
            boot_id=boot_id,
            booted_at=booted_at,
            runtimes=tuple(sorted(body.get("Runtimes") or ())),
            default_runtime=body.get("DefaultRuntime", ""),
            cdi_devices=cdi_devices(body),
            cgroup_version=int(body.get("CgroupVersion") or 1),
            address_pools=tuple(
                (pool["Base"], pool["Size"]) for pool in body.get("DefaultAddressPools") or ()
            ),
        )

    def close(self) -> None:
        self.connection.close()

    # Images

    @answered
    def list_images(self) -> list[ImageInfo]:
        found = [image_info(row) for row in self._client.images()]
        return sorted(
            (image for image in found if image.references),
            key=lambda image: image.references,
        )

    @answered
    def inspect_image(self, reference: str) -> ImageInfo | None:
        try:
            return image_info(self._client.inspect_image(reference))  # type: ignore[no-untyped-call]
        except docker.errors.NotFound:
            return None

    @answered
    def pull_image(
        self,
        reference: str,
        *,
        on_progress: OnProgress,
        credentials: RegistryCredentials | None = None,
    ) -> ImageInfo:
        client = self._client
        name, tag = parse_repository_tag(reference)
        with client.post(
            client.url_of("/images/create"),
            params={"fromImage": name, "tag": tag or "latest"},
            headers=registry_headers(credentials),
            stream=True,
        ) as answer:
            if answer.status_code != requests.codes.ok:
                raise ImagePullFailed(f"{reference}: {message_of(answer)}")
            tracker = PullTracker()
            for line in lines_of(answer):
                report = json.loads(line)
                if "error" in report:
                    fault = fault_of_answer(500, str(report["error"]))
                    if isinstance(fault, OutOfCapacity):
                        raise fault
                    raise ImagePullFailed(f"{reference}: {report['error']}")
                on_progress(tracker.feed(report))
        return image_info(client.inspect_image(reference))  # type: ignore[no-untyped-call]

    @answered
    def export_image(self, reference: str) -> Iterator[bytes]:
        client = self._client
        url = client.url_of(f"/images/{reference}/get")
        answer = client.get(url, stream=True)
        raise_refusal(answer)
        return checked(answer.iter_content(COPY_BYTES), reference)

    @answered
    def import_image(self, archive: Iterable[bytes]) -> None:
        client = self._client
        url = client.url_of("/images/load")
        with limited(IMPORT), client.post(url, data=archive, params={"quiet": "1"}) as answer:
            raise_refusal(answer)
            for line in answer.text.splitlines():
                if "error" in (report := json.loads(line)):
                    raise fault_of_answer(500, str(report["error"]))

    @answered
    def remove_image(self, reference: str) -> None:
        with suppress(docker.errors.NotFound):
            self._client.remove_image(reference)

    # Networks and volumes

    @answered
    def ensure_network(self, spec: NetworkSpec) -> None:
        client, refused, conflicts = self._client, list[str](), 0
        for _ in range(NETWORK_ATTEMPTS):
            if self._has_network(spec):
                return
            taken = [*subnets_of(client.networks()), *refused]
            if spec.subnet:
                subnet = None if refused else ipaddress.IPv4Network(spec.subnet)
            else:
                subnet = next(free_subnets(spec.pool, spec.prefix, taken, seed=spec.name), None)
            if subnet is None:
                break
            try:
                # An engine killed while it creates a network keeps the bridge but does not list it.
                body = network_config(spec, subnet, spare=conflicts // CONFLICTS_OF_A_RACE)
                answer = client.post(client.url_of("/networks/create"), json=body, timeout=CALL_TIMEOUT_S)
                raise_refusal(answer)
            except docker.errors.APIError as error:
                # Another caller took the subnet or name after the look-up: look again.
                if "overlap" in str(error.explanation):
                    refused.append(str(subnet))
                elif "same bridge name" in str(error.explanation) or error.status_code == 409:
                    conflicts += 1
                    time.sleep(RETRY_PAUSE_S)
                else:
                    raise
        wanted = (
            f"The subnet {spec.subnet} is not free"
            if spec.subnet
            else f"No free /{spec.prefix} subnet left in {spec.pool}"
        )
        raise OutOfCapacity(f"{wanted} on {self.connection.address}.")

    def _has_network(self, spec: NetworkSpec) -> bool:
        for network in self._client.networks(names=[spec.name]):
            if network["Name"] == spec.name and not carries(network.get("Labels"), spec.labels):
                raise ContainerConflict(f"Network {spec.name} exists and is not ours.")
            if network["Name"] == spec.name:
                return True
        return False

    @answered
    def remove_network(self, name: str) -> None:
        with suppress(docker.errors.NotFound):
            self._client.remove_network(name)

    @answered
    def list_networks(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        return labelled(self._client.networks(filters=label_filter(labels)))

    @answered
    def ensure_volume(
        self,
        name: str,
        labels: Mapping[str, str],
        *,
        tmpfs_bytes: int = 0,
        options: Mapping[str, str] | None = None,
    ) -> None:
        client = self._client
        given = tmpfs_options(tmpfs_bytes) if tmpfs_bytes else dict(options) if options else None
        made = client.create_volume(name, driver="local", driver_opts=given, labels=dict(labels))
        if not made.get("Labels"):
            # An engine killed while it creates a volume keeps its directory but loses its labels.
            client.remove_volume(name)
            made = client.create_volume(name, driver="local", driver_opts=given, labels=dict(labels))
        if not carries(made.get("Labels"), labels):
            raise ContainerConflict(f"Volume {name} exists and is not ours.")

    @answered
    def remove_volume(self, name: str) -> None:
        with suppress(docker.errors.NotFound):
            self._client.remove_volume(name)

    @answered
    def list_volumes(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        return labelled(self._client.volumes(filters=label_filter(labels)).get("Volumes") or [])

    # Containers

    @answered
    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        client = self._client
        body = self._create(spec)
        state = state_of_inspection(body)
        if not carries(state.labels, spec.labels):
            raise ContainerConflict(f"Container {spec.name} exists and is not ours.")
        if state.status is ContainerStatus.CREATED:
            self._owners.ensure(client, spec, body["Image"])
        return state

    def _create(self, spec: ContainerSpec) -> dict[str, Any]:
        """Create the container unless the name is taken, and return the inspection of the container
        with that name. While another call creates it, the name is taken but the container is not
        visible yet.
        """
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while True:
            try:
                self._client.create_container_from_config(  # type: ignore[no-untyped-call]
                    container_config(spec), spec.name
                )
            except docker.errors.APIError as error:
                if spec.cpuset and CORES_ABSENT in str(error.explanation):
                    spec = replace(spec, cpuset="")
                    continue
                if error.status_code != requests.codes.conflict:
                    raise
            try:
                return dict(self._client.inspect_container(spec.name))
            except docker.errors.NotFound:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_PAUSE_S)

    @answered
    def start_container(self, name: str) -> None:
        state = state_of_inspection(self._client.inspect_container(name))
        if state.status is ContainerStatus.CREATED:  # the engine would restart one that has ended
            self._client.start(name)

    @answered
    def stop_container(self, name: str, grace_s: int) -> None:
        with suppress(docker.errors.NotFound):
            self._client.stop(name, timeout=grace_s)

    @answered
    def remove_container(self, name: str) -> None:
        client = self._client
        try:
            client.remove_container(name, v=True, force=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError as error:
            if error.status_code != 409:
                raise
            self._await_removal(name)

    def _await_removal(self, name: str) -> None:
        """Wait until another caller's removal is complete."""
        with suppress(docker.errors.NotFound):
            self._client.wait(name, timeout=CALL_TIMEOUT_S, condition="removed")

    @answered
    def inspect_container(self, name: str) -> ContainerState | None:
        try:
            return state_of_inspection(self._client.inspect_container(name))
        except docker.errors.NotFound:
            return None

    @answered
    def list_containers(self, labels: Mapping[str, str]) -> list[ContainerState]:
        rows = self._client.containers(all=True, filters=label_filter(labels))
        return sorted((state_of_listing(row) for row in rows), key=lambda state: state.name)

    @answered
    def list_memory_kills(self, labels: Mapping[str, str]) -> list[MemoryKill]:
        filters = label_filter(labels) | {"type": ["container"], "event": ["oom"]}
        return [memory_kill_of(event) for event in past_events(self._client, filters)]

    @answered
    def process_ids(self, name: str) -> set[int]:
        rows = self._client.top(name, ps_args="-eo pid")["Processes"]
        return {int(row[0]) for row in rows or ()}

    @answered
    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        return run_once(self._client, spec, helper_config(spec), timeout_s)

    @answered
    def ensure_helper(self, spec: HelperSpec) -> ContainerState:
        client, config = self._client, lasting_helper_config(spec)
        with suppress(docker.errors.NotFound):
            state = state_of_inspection(client.inspect_container(spec.name))
            if not carries(state.labels, spec.labels):
                raise ContainerConflict(f"Container {spec.name} exists and is not ours.")
            if state.status is ContainerStatus.RUNNING and carries(state.labels, config["Labels"]):
                return state
            client.remove_container(spec.name, v=True, force=True)
        try:
            client.create_container_from_config(config, spec.name)  # type: ignore[no-untyped-call]
        except docker.errors.APIError as error:
            if error.status_code != requests.codes.conflict:  # another caller was faster
                raise
        start_helper(client, spec)
        return state_of_inspection(client.inspect_container(spec.name))

    # Inside a container

    @answered
    def start_process(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        user: str = "",
    ) -> None:
        client = self._client
        made = client.exec_create(
            name,
            list(argv),
            stdout=False,
            stderr=False,
            environment=dict(environment or {}),
            user=user,
        )
        client.exec_start(made["Id"], detach=True)

    @answered
    def run_process(
        self,
        name: str,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        user: str = "",
        timeout_s: float = 30,
        output_limit: int = 2**20,
    ) -> ProcessResult:
        client = self._client
        made = client.exec_create(name, list(argv), environment=dict(environment or {}), user=user)
        start_url = client.url_of(f"/exec/{made['Id']}/start")
        with client.post(
            start_url,
            json={"Detach": False, "Tty": False},
            stream=True,
            timeout=timeout_s,
        ) as answer:
            raise_refusal(answer)
            try:
                output = first_bytes(answer, output_limit, timeout_s)
            except (TimeoutError, urllib3.exceptions.ReadTimeoutError) as error:
                raise ProcessTimeout(f"{argv[0]} in {name} did not end within {timeout_s} s.") from error
        code = client.exec_inspect(made["Id"])["ExitCode"]
        return ProcessResult(exit_code=code, output=output)

    @answered
    def read_log_tail(self, name: str, *, limit_bytes: int) -> LogTail:
        return read_tail(self._client, name, limit_bytes)

    @answered
    def put_archive(self, name: str, path: str, tar_bytes: bytes) -> None:
        self._client.put_archive(name, path, tar_bytes)


class VolumeOwners:
    """Sets the owners of fresh volumes on one engine. Thread-safe.

    A fresh volume takes its content and owner from the image's directory at the same path. That owner
    is fixed per image id, so it is looked up once per image and process: setting an owner costs an
    engine about 50 ms per launch, and is skipped if the image's directory has the right owner.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._image_owners: dict[tuple[str, str], tuple[int, int]] = {}

    def ensure(self, client: EngineClient, spec: ContainerSpec, image_id: str) -> None:
        """Set the owners of the owned volumes of a container that was created and never started."""
        for mount in spec.mounts:
            if mount.kind != "volume" or mount.owner is None:
                continue
            if self._image_owner(client, spec.name, mount.target, image_id) != mount.owner:
                client.put_archive(spec.name, mount.target, owner_archive(mount))

    def _image_owner(
        self, client: EngineClient, name: str, path: str, image_id: str
    ) -> tuple[int, int] | None:
        key = (image_id, path)
        owner = self._image_owners.get(key) or _untouched_owner(client, name, path)
        with self._lock:
            if len(self._image_owners) >= REMEMBERED_OWNERS:
                self._image_owners.clear()
            if owner is not None:
                self._image_owners[key] = owner
        return owner


def _untouched_owner(client: EngineClient, name: str, path: str) -> tuple[int, int] | None:
    """Return the owner of the directory as the image made it; None if `owner_archive` was applied
    before, which sets its time to 1970.
    """
    url = client.url_of(f"/containers/{name}/archive")
    with client.get(url, params={"path": f"{path}/."}, stream=True, timeout=CALL_TIMEOUT_S) as answer:
        raise_refusal(answer)
        header = b""
        for piece in answer.iter_content(tarfile.BLOCKSIZE):
            header += piece
            if len(header) >= tarfile.BLOCKSIZE:
                break
    top = tarfile.TarInfo.frombuf(header[: tarfile.BLOCKSIZE], tarfile.ENCODING, "surrogateescape")
    return (top.uid, top.gid) if top.mtime else None
