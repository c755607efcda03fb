"""Sets the owners of fresh volumes, and skips the call if the image's directory has the right owner
already.

A fresh volume takes its content and owner from the image's directory at the same path. That owner
is fixed per image id, so it is looked up once per image and process; setting an owner costs an
engine about 50 ms per launch.
"""

import tarfile
from threading import Lock

from agents.runtime.docker.connection import CALL_TIMEOUT_S, EngineClient, raise_refusal
from agents.runtime.docker.encoding import owner_archive
from agents.runtime.port import ContainerSpec

REMEMBERED = 1000

Owner = tuple[int, int]


class Owners:
    """Known owners of image directories on one engine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of_images: dict[tuple[str, str], Owner] = {}

    def ensure(self, client: EngineClient, spec: ContainerSpec, image_id: str) -> None:
        """Set the owners of the owned volumes of a container that was created and never started."""
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
