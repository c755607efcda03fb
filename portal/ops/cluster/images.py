"""Copying of images from the engine of this machine to machines of a cluster."""

import http.client
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

from portal.ops.cluster.engine import SocketConnection
from portal.ops.cluster.layout import ClusterMachine
from portal.ops.errors import PreflightFailed

LIMIT_S = 600
PIECE_BYTES = 2**20
OWN_ENGINE = "unix:///var/run/docker.sock"


def share_image(image: str, machines: Iterable[ClusterMachine], *, engine: str = "") -> None:
    """Copy an image of an engine on this machine to all of these machines, at the same time.

    `engine` is its address, `unix://…`; by default DOCKER_HOST or the system's socket. Raises
    PreflightFailed if it lacks the image or a machine refuses it.
    """
    source = engine or os.environ.get("DOCKER_HOST") or OWN_ENGINE
    if not source.startswith("unix://"):
        raise PreflightFailed(f"The engine at {source} is not on this machine.", "unset DOCKER_HOST")
    targets = list(machines)
    with tempfile.TemporaryFile(dir=targets[0].cluster.home) as archive:
        save_image(image, Path(urlsplit(source).path), archive)
        with ThreadPoolExecutor(len(targets)) as pool:
            list(pool.map(lambda machine: load_image(machine, archive.fileno()), targets))


def save_image(image: str, socket: Path, archive: IO[bytes]) -> None:
    connection = SocketConnection(socket, LIMIT_S)
    try:
        connection.request("GET", f"/images/{quote(image, safe='')}/get")
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise PreflightFailed(f'The engine of this machine has no image "{image}".', "docker images")
        while piece := answer.read(PIECE_BYTES):
            archive.write(piece)
        archive.flush()
    finally:
        connection.close()


def load_image(machine: ClusterMachine, archive: int) -> None:
    """Load an archive, given as a file descriptor whose position is shared and not used."""
    connection = SocketConnection(machine.socket, LIMIT_S)
    try:
        size = os.fstat(archive).st_size
        connection.putrequest("POST", "/images/load?quiet=1")
        connection.putheader("Content-Type", "application/x-tar")
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        for offset in range(0, size, PIECE_BYTES):
            connection.send(os.pread(archive, PIECE_BYTES, offset))
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status != http.client.OK or '"error"' in said:
        raise PreflightFailed(f"{machine.name} refused the image: {said.strip()}", "Has its disk space?")
