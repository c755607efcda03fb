"""Simulated engine that implements the runtime port, runs nothing and answers after a set delay:
for clusters of thousands of agents in tests, benchmarks and demonstrations.

Containers end when a test calls `finish`, or by themselves according to `Behaviour`. The state is an
`EngineState` (`simulated.state`): in the memory of this process, or in Redis, shared by all processes of
a portal.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from threading import RLock

from agents.runtime.docker.encoding import carries, free_subnets, lasting_helper_config
from agents.runtime.docker.log_entries import LogTail
from agents.runtime.port import (
    ContainerGone,
    ContainerRuntime,
    ContainerSpec,
    ContainerState,
    ContainerStatus,
    EngineInfo,
    HelperSpec,
    ImageInfo,
    ImageMissing,
    ImagePullFailed,
    LabelledObject,
    MemoryKill,
    NetworkSpec,
    OnProgress,
    OutOfCapacity,
    ProcessResult,
    PullProgress,
    RegistryCredentials,
    RuntimeRefused,
    RuntimeUnavailable,
)
from agents.runtime.simulated.state import (
    Behaviour,
    Container,
    EngineState,
    Network,
    ended,
    is_over,
    state_now,
)
from agents.runtime.simulated.values import (
    IMAGE_BYTES,
    IMAGE_ID_PREFIX,
    SimulatedDevices,
    check_labels,
    default_usage,
    image,
    labelled_objects,
    make_log,
)
from agents.runtime.usage import ContainerUsage

SIGTERM_EXIT_CODE = 143


class SimulatedRuntime(ContainerRuntime):
    """Simulated engine. `registry` lists the images that can be pulled, `images` those on the
    machine; `has_any_image` means every image is there. `devices` are slots other than CPU and
    memory. `helpers` are the specs of all helpers so far; a test replaces `answer_helper`, and sets
    the `pids` of a container.
    """

    def __init__(  # noqa: PLR0913 -- all by name
        self,
        *,
        name: str = "simulated",
        cpu_milli: int = 8000,
        mem_bytes: int = 16 * 2**30,
        delay_s: float = 0.0,
        images: Sequence[str] = (),
        registry: Sequence[str] = (),
        has_any_image: bool = False,
        devices: Mapping[str, int] | None = None,
        behaviour: Behaviour | None = None,
        state: EngineState | None = None,
    ) -> None:
        self.name = name
        self._lock = RLock()
        self.delay_s = delay_s
        self._behaviour = behaviour or Behaviour()
        self._has_any_image = has_any_image
        self._info = EngineInfo(
            engine_id=f"simulated:{name}",
            version="0",
            api_version="0",
            architecture="x86_64",
            os="simulated",
            cpu_milli=cpu_milli,
            mem_bytes=mem_bytes,
            has_live_restore=True,
            runtimes=("kata", "runc", "runsc"),
            devices=dict(devices or {}),
        )
        self.accelerators = SimulatedDevices(self._info.devices, lively=name if has_any_image else "")
        self._images = {reference: image(reference) for reference in images}
        self._registry = set(registry)
        self._state = state or EngineState()
        self._networks, self._volumes = self._state.networks, self._state.volumes
        self._containers = self._state.containers
        self.helpers: list[HelperSpec] = []
        self.pids: dict[str, set[int]] = {}
        self.answer_helper: Callable[[HelperSpec], ProcessResult] = lambda spec: ProcessResult(0, b"")

    def finish(
        self, name: str, *, exit_code: int = 0, output: bytes = b"", was_oom_killed: bool = False
    ) -> None:
        """Append `output` and end the main process of a running container."""
        with self._lock:
            container = self._running(name)
            container.output += output
            self._end(container, exit_code, was_oom_killed)

    def say(self, name: str, output: bytes) -> None:
        """Append `output` to the log of a running container."""
        with self._lock:
            container = self._running(name)
            container.output += output
            self._containers[name] = container

    def forget_image(self, reference: str) -> None:
        """Remove an image."""
        with self._lock:
            del self._images[reference]

    def kill_for_memory(self, name: str, at: datetime | None = None) -> None:
        """Record an out-of-memory kill of a process other than the main one in a running container."""
        with self._lock:
            container = self._running(name)
            container.memory_kills.append(at or datetime.now(UTC))
            self._containers[name] = container

    def use(self, name: str, usage: ContainerUsage) -> None:
        """Set the resource usage that the container reports from now on."""
        with self._lock:
            self._running(name).usage = usage

    def reboot(self, at: datetime | None = None) -> None:
        """Report a new boot of the machine, now or `at`."""
        self._info = replace(self._info, boot_id=f"{self._info.boot_id}+", booted_at=at or datetime.now(UTC))

    def processes_of(self, name: str) -> tuple[tuple[str, ...], ...]:
        """Return the argv of each process started by `start_process` and `run_process`, in order."""
        with self._lock:
            return tuple(self._present(name).processes)

    def output_of(self, name: str) -> tuple[bytes, bool]:
        """Return the container's output so far, and True if more may follow."""
        with self._lock:
            container = self._present(name)
            return container.output, container.state.status is ContainerStatus.RUNNING

    def info(self) -> EngineInfo:
        self._answer()
        return self._info

    @property
    def answers(self) -> bool:
        """True unless the simulated machine is silent now."""
        return not self._behaviour.is_silent(self.name, time.time())

    @property
    def state(self) -> EngineState:
        return self._state

    def close(self) -> None:
        return

    # Images

    def list_images(self) -> list[ImageInfo]:
        with self._call():
            return [self._images[reference] for reference in sorted(self._images)]

    def inspect_image(self, reference: str) -> ImageInfo | None:
        with self._call():
            return self._find_image(reference.removeprefix(IMAGE_ID_PREFIX))

    def pull_image(
        self, reference: str, *, on_progress: OnProgress, credentials: RegistryCredentials | None = None
    ) -> ImageInfo:
        self._answer()
        if reference not in self._registry:
            raise ImagePullFailed(f"{reference}: not found")
        for done in (0, IMAGE_BYTES):
            on_progress(PullProgress(done, IMAGE_BYTES, int(done == IMAGE_BYTES), 1))
        with self._lock:
            return self._images.setdefault(reference, image(reference))

    def export_image(self, reference: str) -> Iterator[bytes]:
        if self.inspect_image(reference) is None:
            raise ImageMissing(f"No such image: {reference}")
        return iter([reference.removeprefix(IMAGE_ID_PREFIX).encode()])

    def import_image(self, archive: Iterable[bytes]) -> None:
        with self._call():
            reference = b"".join(archive).decode()
            self._images[reference] = image(reference)

    def remove_image(self, reference: str) -> None:
        with self._call():
            if any(container.spec.image == reference for container in self._containers.values()):
                raise RuntimeRefused(f"A container is using the image {reference}.")
            self._images.pop(reference, None)

    # Networks and volumes

    def ensure_network(self, spec: NetworkSpec) -> None:
        with self._call():
            if spec.name in self._networks:
                check_labels(spec.name, self._networks[spec.name].labels, spec.labels)
                return
            taken = [network.subnet for network in self._networks.values()]
            subnet = next(free_subnets(spec.pool, spec.prefix, taken, seed=spec.name), None)
            if subnet is None:
                raise OutOfCapacity(f"No free /{spec.prefix} subnet left in {spec.pool}.")
            self._networks[spec.name] = Network(dict(spec.labels), str(subnet))

    def remove_network(self, name: str) -> None:
        with self._call():
            if any(name in container.state.addresses for container in self._containers.values()):
                raise RuntimeRefused(f"Network {name} has active endpoints.")
            self._networks.pop(name, None)

    def list_networks(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        with self._call():
            return labelled_objects(
                {name: network.labels for name, network in self._networks.items()}, labels
            )

    def ensure_volume(
        self,
        name: str,
        labels: Mapping[str, str],
        *,
        tmpfs_bytes: int = 0,
        options: Mapping[str, str] | None = None,
    ) -> None:
        with self._call():
            check_labels(name, self._volumes.setdefault(name, dict(labels)), labels)

    def remove_volume(self, name: str) -> None:
        with self._call():
            mounts = [mount for container in self._containers.values() for mount in container.spec.mounts]
            if any(mount.kind == "volume" and mount.source == name for mount in mounts):
                raise RuntimeRefused(f"Volume {name} is in use.")
            self._volumes.pop(name, None)

    def list_volumes(self, labels: Mapping[str, str]) -> list[LabelledObject]:
        with self._call():
            return labelled_objects(self._volumes, labels)

    # Containers

    def ensure_container(self, spec: ContainerSpec) -> ContainerState:
        with self._call():
            known = self._containers.get(spec.name)
            if known is not None:
                check_labels(spec.name, known.state.labels, spec.labels)
                return known.state
            if self._find_image(spec.image) is None:
                raise ImageMissing(f"No such image: {spec.image}")
            state = ContainerState(
                name=spec.name,
                container_id=f"{spec.name}-id",
                labels=dict(spec.labels),
                status=ContainerStatus.CREATED,
            )
            self._containers[spec.name] = Container(spec, state)
            return state

    def start_container(self, name: str) -> None:
        with self._call():
            if self._present(name).state.status is not ContainerStatus.CREATED:
                return
        if self._behaviour.start_s:
            time.sleep(self._behaviour.start_s)
        with self._lock:
            container = self._present(name)
            if container.state.status is not ContainerStatus.CREATED:
                return
            now = datetime.now(UTC)
            container.state = replace(
                container.state,
                status=ContainerStatus.RUNNING,
                addresses=self._state.join(container.spec.network),
                started_at=now,
            )
            container.ends_at, container.ends_with = self._behaviour.end_of(name, now.timestamp())
            self._containers[name] = container

    def stop_container(self, name: str, grace_s: int) -> None:
        with self._call():
            container = self._seen(name)
            if container is not None and container.state.status is ContainerStatus.RUNNING:
                self._end(container, SIGTERM_EXIT_CODE, False)

    def remove_container(self, name: str) -> None:
        with self._call():
            container = self._containers.get(name)
            if container is not None:
                self._state.leave(container)
                self._containers.pop(name, None)

    def inspect_container(self, name: str) -> ContainerState | None:
        with self._call():
            container = self._seen(name)
            return container.state if container else None

    def list_containers(self, labels: Mapping[str, str]) -> list[ContainerState]:
        with self._call():
            found = sorted(self._containers.items())
            # Read-only: the end of a container is written by calls that name that container.
            return [state_now(each) for _, each in found if carries(each.state.labels, labels)]

    def list_memory_kills(self, labels: Mapping[str, str]) -> list[MemoryKill]:
        with self._call():
            containers = [each for each in self._containers.values() if carries(each.state.labels, labels)]
            kills = [MemoryKill(each.spec.name, at) for each in containers for at in each.memory_kills]
            return sorted(kills, key=lambda kill: kill.at)

    def usage_of(self, name: str) -> ContainerUsage:
        """Return the usage for `AsyncRuntime.measure_container`, without the delay."""
        self.check_answers()
        with self._lock:
            container = self._running(name)
            return container.usage or default_usage(container)

    def process_ids(self, name: str) -> set[int]:
        with self._call():
            self._running(name)
            return self.pids.get(name, set())

    def run_helper(self, spec: HelperSpec, *, timeout_s: int = 30) -> ProcessResult:
        if self.inspect_image(spec.image) is None:
            raise ImageMissing(f"No such image: {spec.image}")
        self.helpers.append(spec)
        return self.answer_helper(spec)

    def ensure_helper(self, spec: HelperSpec) -> ContainerState:
        labels = lasting_helper_config(spec)["Labels"]
        known = self.inspect_container(spec.name)
        if known is not None:
            check_labels(spec.name, known.labels, spec.labels)
            if known.status is ContainerStatus.RUNNING and carries(known.labels, labels):
                return known
            self.remove_container(spec.name)
        self.ensure_container(
            ContainerSpec(
                name=spec.name,
                image=spec.image,
                labels=labels,
                mounts=spec.mounts,
                cpu_milli=0,
                mem_bytes=spec.mem_bytes,
            )
        )
        self.helpers.append(spec)
        self.start_container(spec.name)
        with self._lock:
            container = self._present(spec.name)
            container.ends_at = None  # it runs until it is removed, unlike sessions
            self._containers[spec.name] = container
            return container.state

    # Inside a container

    def start_process(
        self, name: str, argv: Sequence[str], *, environment: Mapping[str, str] | None = None, user: str = ""
    ) -> None:
        with self._call():
            self._running(name).processes.append(tuple(argv))

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
        self.start_process(name, argv)
        return ProcessResult(exit_code=0, output=b"")

    def read_log_tail(self, name: str, *, limit_bytes: int) -> LogTail:
        self._answer()
        output, _ = self.output_of(name)
        return make_log(output).last(limit_bytes)

    def put_archive(self, name: str, path: str, tar_bytes: bytes) -> None:
        with self._call():
            self._present(name)

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Answer after the delay, then hold the lock of the state."""
        self._answer()
        with self._lock:
            yield

    def _answer(self) -> None:
        """Apply the delay and check availability.
        Every call begins here; test doubles override it to inject faults.
        """
        if self.delay_s:
            time.sleep(self.delay_s)
        self.check_answers()

    def check_answers(self) -> None:
        """Raise RuntimeUnavailable while the machine is silent."""
        if not self.answers:
            raise RuntimeUnavailable(f"The simulated machine {self.name} is silent for a while.")

    def _find_image(self, reference: str) -> ImageInfo | None:
        return self._images.get(reference) or (image(reference) if self._has_any_image else None)

    def _seen(self, name: str) -> Container | None:
        container = self._containers.get(name)
        return container and self._settled(container)

    def _settled(self, container: Container) -> Container:
        """Return the container with its state updated if its program has ended by itself."""
        if is_over(container):
            self._put_end(container, state_now(container))
        return container

    def _present(self, name: str) -> Container:
        container = self._seen(name)
        if container is None:
            raise ContainerGone(f"No such container: {name}")
        return container

    def _running(self, name: str) -> Container:
        container = self._present(name)
        if container.state.status is not ContainerStatus.RUNNING:
            raise ContainerGone(f"Container {name} is not running")
        return container

    def _end(self, container: Container, exit_code: int, was_oom_killed: bool) -> None:
        self._put_end(container, ended(container.state, exit_code, datetime.now(UTC), was_oom_killed))

    def _put_end(self, container: Container, state: ContainerState) -> None:
        self._state.leave(container)
        container.state = state
        self._containers[container.spec.name] = container
