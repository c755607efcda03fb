"""Resumable uploads over the production server: a TUS client by others, and a portal that is killed."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.db import connection
from tusclient import client as tus

from portal.ops.setup.env_file import free_port
from tests import factories
from tests.factories_folders import make_folder, make_storage_host
from tests.waiting import wait_until
from vfolders import usage
from vfolders.models import Upload, VFolder
from vfolders.selectors import mount_source
from vfolders.storage.base import INTERACTIVE
from vfolders.uploads.receiving import SYNC_BYTES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

PIECE = bytes(range(256)) * 4096


class Portal:
    """A web process on the test's database."""

    def __init__(self) -> None:
        self.port = free_port()
        url = settings.DATABASE_URL.rpartition("/")[0]
        environment = {**os.environ, "DATABASE_URL": f"{url}/{connection.settings_dict['NAME']}"}
        argv = [
            sys.executable,
            "-m",
            "portal.processes.web_server",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        self.process = subprocess.Popen(argv, env=environment)
        wait_until(self.answers, deadline_s=60)

    def answers(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def folder(transactional_db: None, tmp_path: Path) -> VFolder:
    make_storage_host(tmp_path)
    return make_folder(factories.make_user(), name="data")


def test_a_killed_portal_has_what_it_acknowledged_and_the_client_goes_on(
    folder: VFolder, tmp_path: Path
) -> None:
    token = factories.make_token(folder.owner)
    headers = {"Authorization": f"Bearer {token}", "Tus-Resumable": "1.0.0"}
    source = tmp_path / "model.bin"
    with source.open("wb") as file:
        for _ in range(2 * SYNC_BYTES // len(PIECE)):
            file.write(PIECE)
    size = source.stat().st_size
    is_over = threading.Event()

    portal = Portal()
    try:
        url = f"http://localhost:{portal.port}/api/v1/folders/{folder.pk}/uploads/"
        uploader = tus.TusClient(url, headers=headers).uploader(
            str(source), metadata={"path": "model.bin"}, chunk_size=size
        )
        uploader.set_url(uploader.create_url())

        def half() -> Iterator[bytes]:
            for _ in range(SYNC_BYTES // len(PIECE) + 8):
                yield PIECE
            is_over.wait(60)

        def send() -> None:
            told = {**headers, "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
            with contextlib.suppress(httpx.HTTPError):
                httpx.patch(
                    uploader.url, content=half(), headers={**told, "Content-Length": str(size)}, timeout=60
                )

        sending = threading.Thread(target=send)
        sending.start()
        wait_until(lambda: Upload.objects.get().offset_bytes >= SYNC_BYTES, deadline_s=60)
    finally:
        portal.kill()
        is_over.set()
    sending.join()
    acknowledged = Upload.objects.get().offset_bytes
    assert not (Path(mount_source(folder)) / "model.bin").exists()

    portal = Portal()
    try:
        uploader.set_url(uploader.url.replace(uploader.url.split("/")[2], f"localhost:{portal.port}"))
        uploader.offset = uploader.get_offset()
        assert uploader.offset == acknowledged
        uploader.upload()
    finally:
        portal.kill()
    assert (Path(mount_source(folder)) / "model.bin").read_bytes() == source.read_bytes()
    usage.measure(folder, INTERACTIVE)  # the killed process had reserved a step more
    assert VFolder.objects.get().size_bytes == size
