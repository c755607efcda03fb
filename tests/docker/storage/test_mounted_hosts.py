"""Folders on images and subvolumes, as containers see them."""

from contextlib import closing
from pathlib import Path
from uuid import UUID

import docker
import pytest

from agents.runtime.docker.sync_runtime import DockerRuntime
from tests import engines
from tests.doubles.storage_servers import HOSTS, OWNER

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("runtime")]
FOLDER = UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
MIB = 2**20
WRITE = "dd if=/dev/zero of=/data/large bs=1M count=96; true"


@pytest.mark.parametrize("kind", ["loop", "btrfs"])
def test_a_container_stops_at_the_quota_and_the_portal_reads_what_it_wrote(
    kind: str, runtime: DockerRuntime, tmp_path: Path
) -> None:
    with HOSTS[kind](tmp_path) as storage, closing(docker.DockerClient(engines.ADDRESS)) as client:
        storage.prepare()
        try:
            storage.create_folder(FOLDER, quota_bytes=48 * MIB)
            path = storage.folder_path(FOLDER)
            said = client.containers.run(
                engines.TINY_IMAGE,
                entrypoint=["sh", "-c", WRITE],
                user=f"{OWNER.uid}:{OWNER.gid}",
                volumes={path: {"bind": "/data"}},
                labels=engines.LABELS,
                stderr=True,
                remove=True,
            )
            assert b"No space left" in said or b"quota exceeded" in said
            assert 16 * MIB < Path(path, "large").stat().st_size < 48 * MIB
            storage.delete_folder(FOLDER)
        finally:
            storage.detach()
