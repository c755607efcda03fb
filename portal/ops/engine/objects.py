"""Finds and removes objects of an installation on a container engine, by label. Runs in .venv.

Several installations may share one engine and its images. Each leaves a small volume there as a
mark, so that the last one to be purged removes the images.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.models.resource import Model

from portal.ops.console import Say, speaker
from portal.ops.errors import PreflightFailed, exit_code_for
from portal.ops.paths import find_layout
from portal.ops.setup.env_file import read_env

INSTALLATION_LABEL = "io.berth.installation"
ROLE_LABEL = "io.berth.role"
PORTAL_LABEL = "io.berth.portal"
MPS_ROLE = "mps"
STOP_GRACE_S = 5


def connect(address: str, timeout_s: int = 60) -> docker.DockerClient:
    """Return a client of the engine at unix:///path or tcp://host:port, in its own API version.

    TLS follows DOCKER_TLS_VERIFY and DOCKER_CERT_PATH. Raises DockerException
    if there is no answer.
    """
    return docker.from_env(timeout=timeout_s, environment={**os.environ, "DOCKER_HOST": address})


def mark_presence(engine: docker.DockerClient, installation: str) -> None:
    """Mark that this installation uses the engine. Idempotent."""
    engine.volumes.create(f"berth-portal-{installation}", labels={PORTAL_LABEL: installation})


def is_engine_shared(engine: docker.DockerClient, installation: str) -> bool:
    """Return True if another installation uses this engine."""
    volumes = engine.volumes.list(filters={"label": PORTAL_LABEL})
    return any(volume.attrs["Labels"][PORTAL_LABEL] != installation for volume in volumes)


def labelled_objects(engine: docker.DockerClient, label: str) -> tuple[Sequence[Model], ...]:
    """Return containers, networks and volumes with a label, `key` or `key=value`, in order."""
    filters: dict[str, str | list[str] | bool] = {"label": label}
    return (
        engine.containers.list(all=True, sparse=True, filters=filters),
        engine.networks.list(filters=filters),
        engine.volumes.list(filters=filters),
    )


def remove_objects(engine: docker.DockerClient, installation: str, log: Say) -> None:
    """Remove containers, networks and volumes of this installation, and its presence mark."""
    containers, networks, volumes = labelled_objects(engine, f"{INSTALLATION_LABEL}={installation}")
    for container in containers:
        if (container.attrs.get("Labels") or {}).get(
            ROLE_LABEL
        ) == MPS_ROLE:  # its end gives the GPU back to other programs
            with contextlib.suppress(APIError):
                engine.api.stop(str(container.id), timeout=STOP_GRACE_S)
        remove_container(engine, str(container.id))
    for network in networks:
        with contextlib.suppress(NotFound):
            engine.api.remove_network(str(network.id))
    names = [volume.attrs["Name"] for volume in volumes]
    for name in [*names, f"berth-portal-{installation}"]:
        with contextlib.suppress(NotFound):
            engine.api.remove_volume(name, force=True)
    log(f"removed {len(containers)} containers, {len(networks)} networks and {len(volumes)} volumes")


def remove_container(engine: docker.DockerClient, name: str) -> None:
    """Remove a container with its own volumes; ignores one that is gone."""
    with contextlib.suppress(NotFound):
        engine.api.remove_container(name, force=True, v=True)


def build_id(data: Path) -> str:
    """Return an id of builds for this data directory, as others may build on the same engine."""
    return hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]


def build_container(data: Path) -> str:
    """Return the name of the build container, by which a leftover one is found."""
    return f"berth-build-{build_id(data)}"


def remove_images(engine: docker.DockerClient, log: Say, label: str = ROLE_LABEL) -> None:
    """Remove images with this label, newest first, as they build on older ones; keep used ones."""
    images = engine.api.images(filters={"label": label})
    for image in sorted(images, key=lambda image: -image["Created"]):
        tags = [tag for tag in image.get("RepoTags") or [] if tag != "<none>:<none>"]
        for name in tags or [image["Id"]]:
            try:
                engine.images.remove(name)
                log(f"removed the image {name}")
            except DockerException as refusal:
                log(f"kept the image {name}: {refusal}")


def remove_isolation_rules(
    engine: docker.DockerClient, installation: str, log: Say, *, network_mode: str = "host"
) -> None:
    """Remove the network isolation rules by a helper container on the machine. Without an image
    built here they stay, but no longer match anything.
    """
    images = engine.api.images(filters={"label": f"{ROLE_LABEL}=session-image"})
    built = [
        image for image in images if any(tag.startswith("berth/") for tag in image.get("RepoTags") or [])
    ]
    if not built:
        return
    name = f"berth-walls-{installation}"
    try:
        engine.containers.run(
            max(built, key=lambda image: image["Created"])["Id"],
            name=name,
            user="0:0",
            entrypoint=["/usr/sbin/nft", "add table inet berth; delete table inet berth"],
            labels={INSTALLATION_LABEL: installation},
            network_mode=network_mode,
            userns_mode="host",
            cap_drop=["ALL"],
            cap_add=["NET_ADMIN"],
        )
        log("removed the walls")
    except DockerException as fault:
        log(f"could not remove the walls: {fault}")
    finally:
        remove_container(engine, name)


def purge_engine(data: Path) -> None:
    """Remove everything of this data directory's installation from its engine, if the engine
    answers. Raises PreflightFailed if it refuses.
    """
    log = speaker("down")
    values = read_env(find_layout(str(data)).env_file)
    installation = values["BERTH_INSTALLATION"]
    try:
        with contextlib.closing(connect(values["BERTH_ENGINE"])) as engine:
            remove_container(engine, build_container(data))
            remove_objects(engine, installation, log)
            if is_engine_shared(engine, installation):
                log("another Berth uses this engine: the images stay")
            else:
                remove_isolation_rules(engine, installation, log)
                remove_images(engine, log)
    except APIError as refusal:
        raise PreflightFailed(
            f"The container engine refused to remove what is ours: {refusal.explanation or refusal}",
            "Remove what it complains about, then run bin/down --purge again.",
        ) from refusal
    except (DockerException, requests.RequestException) as fault:
        log(f"the engine does not answer, so its containers and images stay: {fault}")


if __name__ == "__main__":
    sys.exit(exit_code_for(lambda: purge_engine(Path(sys.argv[1]))))
