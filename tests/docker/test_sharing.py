"""Limits of parts of devices on a real engine, with stand-ins for NVIDIA's programs and a hook library."""

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import docker
import pytest

from agents.accelerators.grant import BoundPath, DeviceGrant, SharedVolume
from agents.core.isolation import Isolation
from agents.models import Agent, AgentDevice, SharingRule
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import MountSpec, RuntimeFault
from agents.sharing import mps
from agents.sharing.helper_containers import nvml_admin_spec
from agents.sharing.mechanisms import HOOK_CACHE, LIBRARY, HelperMissing, HookLibrary, Share, hook_volume
from portal.ops.engine.session_image import ensure_session_image
from tests import engines
from tests.nvml import FakeNvml
from tests.waiting import wait_until

pytestmark = pytest.mark.docker
GIB = 2**30
LIMITS = mps.DaemonSettings(20 * 1024, 25)
DEVICE = AgentDevice(pk=4711, device_id="GPU-0", model="H100", vendor="nvidia", mem_bytes=80 * GIB)
# It keeps what it is told in the directory of its pipes; -f runs the daemon.
CONTROL = """#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
    touch control
    while [ -e control ]; do sleep 0.1; done
    exit 0
fi
[ -e control ] || { echo "Cannot find MPS control daemon process"; exit 1; }
read -r command first second
case "$command" in
quit) rm control ;;
set_default_device_pinned_mem_limit) echo "$second" >memory ;;
set_default_active_thread_percentage) echo "$first" >percent ;;
get_default_device_pinned_mem_limit) cat memory ;;
get_default_active_thread_percentage) cat percent 2>/dev/null || echo 100.0 ;;
esac
"""


@pytest.fixture(scope="module", autouse=True)
def _tiny_image() -> Iterator[None]:
    engines.make_tiny_image()
    yield
    engines.remove_everything()


@pytest.fixture
def runtime(settings: Any) -> Iterator[DockerRuntime]:
    settings.BERTH_INSTALLATION = engines.INSTALLATION
    runtime = DockerRuntime(engines.ADDRESS)
    yield runtime
    for state in runtime.list_containers(engines.LABELS):
        runtime.remove_container(state.name)
    runtime.close()


@pytest.fixture
def programs(tmp_path: Path) -> DeviceGrant:
    """NVIDIA's programs, as the machine's driver would give them to a container."""
    binds = []
    for name, text in (("nvidia-cuda-mps-control", CONTROL), ("nvidia-smi", "#!/bin/sh\nexit 0\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
        binds.append(BoundPath(str(tmp_path / name), f"/bin/{name}"))
    return DeviceGrant(binds=tuple(binds))


def is_set(runtime: DockerRuntime) -> bool:
    try:
        return mps.read_settings(runtime, DEVICE) == LIMITS
    except RuntimeFault:
        return False


def output(runtime: DockerRuntime, name: str, line: str) -> str:
    return runtime.run_process(name, ["sh", "-c", line]).output.decode().strip()


def test_mps_daemon_has_its_limits_and_shares_its_pipes_and_memory(
    runtime: DockerRuntime, programs: DeviceGrant
) -> None:
    # The engine of the tests may itself run in a container, which has not every right to give.
    spec = replace(mps.daemon_spec(DEVICE, LIMITS, engines.TINY_IMAGE, programs), is_privileged=False)
    mps.ensure_daemon(runtime, spec)
    wait_until(lambda: is_set(runtime))
    first = runtime.inspect_container(spec.name)
    mps.ensure_daemon(runtime, spec)
    assert runtime.inspect_container(spec.name) == first

    client = engines.tiny_spec(
        f"{engines.INSTALLATION}-client",
        grant=DeviceGrant(
            volumes=(
                SharedVolume(mps.pipe_volume(DEVICE), mps.PIPES),
                SharedVolume(mps.shm_volume(DEVICE), "/dev/shm"),
            )
        ),
    )
    runtime.ensure_container(client)
    runtime.start_container(client.name)
    assert "control" in output(runtime, client.name, f"ls {mps.PIPES}")
    assert (
        output(runtime, client.name, "echo hello >/dev/shm/word; df -k /dev/shm | tail -n 1 | cut -d' ' -f1")
        == "tmpfs"
    )
    assert output(runtime, spec.name, "cat /dev/shm/word") == "hello"

    output(runtime, client.name, f"ln -s /etc/passwd {mps.PIPES}/planted")
    runtime.remove_container(spec.name)  # as a killed daemon, while a client runs
    assert not mps.is_running(runtime, DEVICE)
    mps.ensure_daemon(runtime, spec)
    wait_until(lambda: is_set(runtime))
    assert "planted" not in output(runtime, client.name, f"ls {mps.PIPES}")
    assert output(runtime, client.name, "cat /dev/shm/word") == "hello"
    runtime.remove_container(client.name)
    mps.remove_daemon(runtime, mps.daemon_name(DEVICE))
    assert runtime.inspect_container(spec.name) is None
    assert runtime.list_volumes(spec.labels) == []


def hook_image() -> str:
    """Import a copy of the tiny image with a file of the hook library's name."""
    busybox = which("busybox")
    assert busybox
    content = io.BytesIO(engines.busybox_root(Path(busybox)))
    with tarfile.open(fileobj=content, mode="a") as archive:
        library = tarfile.TarInfo(f"k8s-vgpu/lib/{LIBRARY}")
        library.size = 7
        archive.addfile(library, io.BytesIO(b"library"))
    name = f"berth-test/hook-{engines.INSTALLATION}"
    with docker.APIClient(engines.ADDRESS) as client:
        client.import_image_from_data(
            content.getvalue(), repository=name, tag="1",
            changes=["ENV PATH=/bin", f"LABEL io.berth.installation={engines.INSTALLATION}"],
        )  # fmt: skip
    return f"{name}:1"


def share(image: str) -> Share:
    return Share(
        agent=Agent(name="here", address=engines.ADDRESS),
        device=DEVICE,
        milli=250,
        rule=SharingRule(mode="hook", hook_image=image),
        container=f"{engines.INSTALLATION}-hooked",
        labels=engines.LABELS,
    )


def test_hook_library_is_in_the_container_read_only_and_claimed_by_its_cache(runtime: DockerRuntime) -> None:
    hook, part = HookLibrary(), share(hook_image())
    spec = engines.tiny_spec(part.container, grant=hook.prepare(part, runtime))
    runtime.ensure_container(spec)
    runtime.start_container(spec.name)
    assert output(runtime, spec.name, "cat $(cat /etc/ld.so.preload)") == "library"
    assert "CUDA_DEVICE_MEMORY_LIMIT=20480m" in output(runtime, spec.name, "cat /overrideEnv; env")
    for path in ("/etc/ld.so.preload", "/overrideEnv", f"/usr/local/berth-share/{LIBRARY}"):
        assert runtime.run_process(spec.name, ["sh", "-c", f"echo x >{path}"]).exit_code != 0

    assert hook.verify(part, runtime).isolation is Isolation.NONE
    octal = "".join(f"\\{byte:03o}" for byte in bytes(8) + (20 * GIB).to_bytes(8, "little"))
    output(runtime, spec.name, f"printf '{octal}' >{HOOK_CACHE}")
    assert hook.verify(part, runtime).isolation is Isolation.COOPERATIVE
    runtime.remove_container(spec.name)
    hook.release(part, runtime)
    assert hook_volume(part.container) not in {each.name for each in runtime.list_volumes(engines.LABELS)}


def test_image_without_the_library_is_no_hook(runtime: DockerRuntime) -> None:
    with pytest.raises(HelperMissing, match=r"no libvgpu\.so"):
        HookLibrary().prepare(share(engines.TINY_IMAGE), runtime)


def test_helper_limits_a_running_container_by_its_control_group(
    runtime: DockerRuntime, tmp_path: Path
) -> None:
    image = ensure_session_image(print, tmp_path / "data", address=engines.ADDRESS)
    nvml = FakeNvml(tmp_path)
    nvml.do("0 used 0")
    client = engines.tiny_spec(f"{engines.INSTALLATION}-limited")
    runtime.ensure_container(client)
    runtime.start_container(client.name)
    state = runtime.inspect_container(client.name)
    assert state
    environment = nvml.environment(gpus=1) | {"FAKE_NVML_LIMITS": "/limits", "FAKE_NVML_OPENED": "/dev/null"}
    grant = DeviceGrant(
        binds=tuple(BoundPath(str(path)) for path in (nvml.library, tmp_path)), environment=environment
    )
    words = ("limit", "GPU-00000000-0000-4000-8000-000000000000", state.container_id, str(GIB))
    spec = replace(
        nvml_admin_spec(image, grant, *words),
        is_privileged=False,
        mounts=(MountSpec("tmpfs", "/limits", size_bytes=2**20),),
    )
    assert json.loads(runtime.run_helper(spec).output) == {"limit": GIB}
    runtime.remove_container(client.name)
    gone = json.loads(runtime.run_helper(replace(spec, name=f"{spec.name}-2")).output)
    assert "No process runs" in gone["error"]
