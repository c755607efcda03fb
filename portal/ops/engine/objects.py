"""Finds and removes objects of an installation on a container engine, by label. Runs in .venv.

Several installations may share one engine and its images. Each leaves a small volume there as a
mark, so that the last one to be purged removes the images.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import asyncssh
import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.models.resource import Model
from docker.tls import TLSConfig

from portal.ops.console import Say, speaker
from portal.ops.errors import PreflightFailed, exit_code_for
from portal.ops.paths import find_layout
from portal.ops.setup.env_file import read_env

INSTALLATION_LABEL = "io.berth.installation"
ROLE_LABEL = "io.berth.role"
PORTAL_LABEL = "io.berth.portal"
MPS_ROLE = "mps"
STOP_GRACE_S = 5
REMOVED_AT_ONCE = 8
MACHINE_CALL_S = 10
SSH_PORT = 22
REMOTE_SOCKET = "/var/run/docker.sock"
MACHINES_LIMIT_S = 60
"""Limit for all remote machines together, which are cleaned concurrently."""


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

    def end_container(container: Model) -> None:
        if (container.attrs.get("Labels") or {}).get(
            ROLE_LABEL
        ) == MPS_ROLE:  # its end gives the GPU back to other programs
            with contextlib.suppress(APIError):
                engine.api.stop(str(container.id), timeout=STOP_GRACE_S)
        remove_container(engine, str(container.id))

    def remove_network(network: Model) -> None:
        with contextlib.suppress(NotFound):
            engine.api.remove_network(str(network.id))

    def remove_volume(name: str) -> None:
        with contextlib.suppress(NotFound):
            engine.api.remove_volume(name, force=True)

    names = [volume.attrs["Name"] for volume in volumes]
    with ThreadPoolExecutor(REMOVED_AT_ONCE) as pool:
        list(pool.map(end_container, containers))
        list(pool.map(remove_network, networks))
        list(pool.map(remove_volume, [*names, f"berth-portal-{installation}"]))
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


def purge_machines(machines_file: Path, installation: str, log: Say) -> None:
    """Remove the containers, networks and volumes of this installation, its helpers among them, from the
    remote machines that answer, and say which did not. Images and network rules stay there.
    """
    # As from the portal: directly, and by their own authority only; the SDK heeds the environment.
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        os.environ.pop(name, None)
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "*"
    machines = json.loads(machines_file.read_text()) if machines_file.exists() else {}
    unclean: dict[str, str] = dict.fromkeys(machines, "it did not answer in time")

    def clean(name: str) -> None:
        try:
            use_machine(
                **machines[name],
                work=lambda engine: remove_objects(engine, installation, lambda text: log(f"{name}: {text}")),
            )
        except (DockerException, requests.RequestException, OSError, asyncssh.Error) as fault:
            unclean[name] = str(fault)
        else:
            del unclean[name]

    threads = [Thread(target=clean, args=(name,), daemon=True) for name in machines]
    for thread in threads:
        thread.start()
    give_up_at = time.monotonic() + MACHINES_LIMIT_S
    for thread in threads:
        thread.join(max(0.0, give_up_at - time.monotonic()))
    for name, reason in sorted(unclean.items()):
        address = machines[name]["address"]
        log(f"{name} ({address}) could not be cleaned, so containers of Berth may run there: {reason}")


def use_machine(address: str, directory: str, work: Callable[[docker.DockerClient], None]) -> None:
    """Do some work with a remote machine's engine, whose certificates or SSH keys are in the directory. Raises
    DockerException, OSError or asyncssh.Error if there is no answer.
    """
    folder = Path(directory)
    if address.startswith("ssh://"):
        asyncio.run(_use_machine_over_ssh(address, folder, work))
        return
    pair = (str(folder / "cert.pem"), str(folder / "key.pem"))
    _use_engine(address, work, TLSConfig(client_cert=pair, ca_cert=str(folder / "ca.pem"), verify=True))


async def _use_machine_over_ssh(
    address: str, folder: Path, work: Callable[[docker.DockerClient], None]
) -> None:
    place = urlsplit(address)
    host_key = asyncssh.import_public_key((folder / "host_key").read_text())
    with tempfile.TemporaryDirectory(prefix="berth-down-") as home:
        socket = f"{home}/engine.sock"
        async with asyncssh.connect(
            place.hostname or "",
            place.port or SSH_PORT,
            username=place.username,
            client_keys=[str(folder / "ssh_key")],
            known_hosts=([host_key], [], []),
            agent_path=None,
            config=None,
            connect_timeout=MACHINE_CALL_S,
            login_timeout=MACHINE_CALL_S,
        ) as connection:
            await connection.forward_local_path(socket, REMOTE_SOCKET)
            await asyncio.to_thread(_use_engine, f"unix://{socket}", work)


def _use_engine(url: str, work: Callable[[docker.DockerClient], None], tls: TLSConfig | bool = False) -> None:
    with contextlib.closing(
        docker.DockerClient(base_url=url, version="auto", timeout=MACHINE_CALL_S, tls=tls)
    ) as engine:
        work(engine)


def purge_engine(data: Path) -> None:
    """Remove everything of this data directory's installation from its engine and from remote machines,
    as far as they answer. Raises PreflightFailed if the engine refuses.
    """
    log, layout = speaker("down"), find_layout(str(data))
    values = read_env(layout.env_file)
    installation = values["BERTH_INSTALLATION"]
    with ThreadPoolExecutor(1) as meanwhile:
        others = meanwhile.submit(purge_machines, layout.machines_file, installation, log)
        purge_own_engine(values["BERTH_ENGINE"], installation, data, log)
        others.result()


def purge_own_engine(address: str, installation: str, data: Path, log: Say) -> None:
    try:
        with contextlib.closing(connect(address)) as engine:
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
