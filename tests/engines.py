"""Provide a real container engine for tests, with a tiny image built without a registry."""

import io
import os
import secrets
import shutil
import subprocess
import tarfile
from pathlib import Path

import docker

from agents.accelerators.description import no_accelerators
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import ContainerSpec

ADDRESS = os.environ.get("BERTH_TEST_ENGINE", "unix:///var/run/docker.sock")
# Process ids alone are unique on one machine only; an engine may serve several machines, or
# containers with process ids of their own.
INSTALLATION = f"test-{os.getpid()}-{secrets.token_hex(4)}"
LABELS = {"io.berth.installation": INSTALLATION}
TINY_IMAGE = f"berth-test/tiny:{INSTALLATION}"


def make_tiny_image() -> str:
    """Build an image of busybox alone, with a name of this run. Returns its name."""
    busybox = shutil.which("busybox")
    if busybox is None:
        raise AssertionError("Tests with a real engine need busybox-static: apt-get install busybox-static")
    with docker.APIClient(ADDRESS) as client:
        client.import_image_from_data(  # type: ignore[no-untyped-call]
            busybox_root(Path(busybox)),
            repository=TINY_IMAGE.rpartition(":")[0],
            tag=INSTALLATION,
            # Berth must override the entry point, which would end every container, and the
            # variables, by which a vendor's runtime would give it every device.
            changes=[
                f"LABEL io.berth.installation={INSTALLATION}",
                "ENV PATH=/bin",
                *(f"ENV {name}=all" for name in no_accelerators()),
                'ENTRYPOINT ["false"]',
            ],
        )
    return TINY_IMAGE


def busybox_root(busybox: Path) -> bytes:
    applets = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            archive.addfile(directory)
        archive.add(busybox.resolve(), "bin/busybox")
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                archive.addfile(link)
    return buffer.getvalue()


def remove_image(reference: str) -> None:
    with docker.APIClient(ADDRESS) as client:
        client.remove_image(reference, force=True)


def remove_everything() -> None:
    """Remove all containers, networks, volumes and the image of this run."""
    runtime = DockerRuntime(ADDRESS)
    for state in runtime.list_containers(LABELS):
        runtime.remove_container(state.name)
    for network in runtime.list_networks(LABELS):
        runtime.remove_network(network.name)
    for volume in runtime.list_volumes(LABELS):
        runtime.remove_volume(volume.name)
    runtime.close()
    with docker.APIClient(ADDRESS) as client:
        for image in client.images(filters={"label": [f"io.berth.installation={INSTALLATION}"]}):
            client.remove_image(image["Id"], force=True)


def tiny_spec(name: str, *command: str, **changes: object) -> ContainerSpec:
    """Return the spec of a small container that runs `command` or sleeps; it stops on request."""
    told = {
        "image": TINY_IMAGE,
        "labels": LABELS,
        "command": command or ("sleep", "infinity"),
        "user": "1000:1000",
        "cpu_milli": 500,
        "mem_bytes": 64 * 2**20,
    }
    return ContainerSpec(name=name, **(told | changes))  # type: ignore[arg-type]
