"""Gives the tops of fresh volumes their owners, and spares the call where the image has seen to it.

A volume takes its first content and owner over from the image's directory at the same place. Whose that is does not
change with an image id, so it is asked once per image and process; to set an owner costs an engine some 50 ms a launch.
"""

import tarfile
from threading import Lock

from agents.runtime.docker.connection import CALL_TIMEOUT_S, EngineClient, raise_refusal
from agents.runtime.docker.encoding import owner_archive
from agents.runtime.port import ContainerSpec

REMEMBERED = 1000

Owner = tuple[int, int]


class Owners:
    """Of one engine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of_images: dict[tuple[str, str], Owner] = {}

    def ensure(self, client: EngineClient, spec: ContainerSpec, image_id: str) -> None:
        """The owned volumes of a container that was created and never started have their owners."""
        for mount in spec.mounts:
            if mount.kind != "volume" or mount.owner is None:
                continue
            if self._from_image(client, spec.name, mount.target, image_id) != mount.owner:
                client.put_archive(spec.name, mount.target, owner_archive(mount))

    def _from_image(self, client: EngineClient, name: str, path: str, image_id: str) -> Owner | None:
        place = (image_id, path)
        owner = self._of_images.get(place) or _untouched_owner(client, name, path)
        with self._lock:
            if len(self._of_images) >= REMEMBERED:
                self._of_images.clear()
            if owner is not None:
                self._of_images[place] = owner
        return owner


def _untouched_owner(client: EngineClient, name: str, path: str) -> Owner | None:
    """Of the directory as its image made it; None where `owner_archive` was there before, which dates it 1970."""
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
