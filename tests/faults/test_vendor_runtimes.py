"""Runtimes of vendors that are a machine's default: they are told of the granted devices and no others."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from agents.accelerators.base import AcceleratorDevice
from agents.accelerators.description import no_accelerators, vendor_named
from agents.accelerators.grant import NO_DEVICES, DeviceGrant
from agents.accelerators.grant_builder import GrantedDevice, MachineFacts, build_grant
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerSpec
from tests.engines import LABELS
from tests.faults.conftest import World
from tests.faults.engines import OwnEngine, image_root

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
IMAGE = "berth/greedy:1"
# As NVIDIA's and Gaudi's: they read the variables of the container's configuration, then call runc.
VENDOR_RUNTIME = """#!/bin/sh
bundle=$PWD previous=
for word; do
    [ "$previous" = --bundle ] && bundle=$word
    previous=$word
done
case " $* " in *" create "*) cp "$bundle/config.json" "{told}" ;; esac
exec {runc} "$@"
"""


@pytest.fixture
def told(tmp_path: Path) -> Path:
    """Configuration of the last container that the runtime created."""
    return tmp_path / "config.json"


@pytest.fixture
def engine(world: World, tmp_path: Path, told: Path) -> Iterator[DockerRuntime]:
    """Engine whose default runtime is NVIDIA's, with an image that asks for every device of every vendor."""
    program = tmp_path / "vendor-runtime"
    program.write_text(VENDOR_RUNTIME.format(told=told, runc=shutil.which("runc")))
    program.chmod(0o755)
    own = OwnEngine(world.home, "vendor", runtimes={"nvidia": program, "habana": program})
    own.start()
    repository, _, tag = IMAGE.partition(":")
    greedy = [f"ENV {name}=all" for name in no_accelerators()]
    with own.client() as client:
        client.import_image_from_data(
            image_root(), repository=repository, tag=tag, changes=["ENV PATH=/bin", *greedy]
        )
    runtime = DockerRuntime(own.address)
    yield runtime
    runtime.close()
    own.stop()


def environment_of(runtime: DockerRuntime, told: Path, grant: DeviceGrant) -> dict[str, str]:
    """Return the variables by which the vendor's runtime would give devices to a container."""
    spec = ContainerSpec(
        name=f"berth-test-{uuid4().hex[:12]}",
        image=IMAGE,
        labels=LABELS,
        command=("sleep", "infinity"),
        environment=dict.fromkeys(no_accelerators(), "all"),
        cpu_milli=100,
        mem_bytes=64 * 2**20,
        grant=grant,
    )
    runtime.ensure_container(spec)
    runtime.start_container(spec.name)
    words = json.loads(told.read_text())["process"]["env"]
    runtime.remove_container(spec.name)
    pairs = [word.split("=", 1) for word in words]
    assert len({name for name, _ in pairs}) == len(pairs), "a runtime may take either of two values"
    return dict(pairs)


def test_default_runtime_of_a_vendor_is_told_of_the_grant_alone(engine: DockerRuntime, told: Path) -> None:
    assert environment_of(engine, told, NO_DEVICES).items() >= no_accelerators().items()

    gaudi = vendor_named("gaudi")
    assert gaudi is not None
    devices = [
        GrantedDevice(
            AcceleratorDevice(
                vendor="gaudi", slot_name="gaudi", device_id=f"g{index}", index=index, model="Gaudi 3", mem_bytes=0,
                facts={"module": index},
            )
        )
        for index in (2, 3)
    ]  # fmt: skip
    grant = build_grant(gaudi, devices, MachineFacts(runtimes=("runc", "habana", "nvidia")))
    seen = environment_of(engine, told, grant)
    assert seen.items() >= {**no_accelerators(), "HABANA_VISIBLE_DEVICES": "2,3"}.items()
