"""Promises of images of folders while they are resized."""

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from common.errors import Conflict
from tests.doubles.storage_servers import OWNER
from vfolders.storage import mounts
from vfolders.storage.backends.loop import LoopStorage
from vfolders.storage.commands import CommandFailed, Commands

FOLDER = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
MIB = 2**20


class Kernel(Commands):
    """A kernel that refuses to resize what is mounted. `resizing` is called before an image is resized."""

    def __init__(self) -> None:
        self.resizing: Callable[[], object] = lambda: None

    def run(self, words: Sequence[str], **options: Any) -> str:
        if "--set-capacity" in words:
            raise CommandFailed("Operation not permitted")
        if words[0] == "resize2fs":
            self.resizing()
        return super().run(words, **options)


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def storage(tmp_path: Path, kernel: Kernel) -> Iterator[LoopStorage]:
    backend = LoopStorage(str(tmp_path / "root"), OWNER, kernel, default_bytes=64 * MIB)
    backend.prepare()
    backend.create_folder(FOLDER)
    yield backend
    backend.delete_folder(FOLDER)


def size_of(storage: LoopStorage) -> int:
    status = os.statvfs(storage.folder_path(FOLDER))
    return status.f_blocks * status.f_frsize // MIB


def test_an_image_is_not_mounted_while_it_is_resized(storage: LoopStorage, kernel: Kernel) -> None:
    place = f"{storage.root}/{FOLDER.hex}"
    other = Thread(target=storage.attach)  # as the check of health does each minute
    seen: list[bool] = []

    def look() -> None:
        other.start()
        other.join(0.3)
        seen.append(mounts.is_mounted(place))

    kernel.resizing = look
    storage.set_quota(FOLDER, 32 * MIB)
    other.join()
    assert seen == [False]
    assert size_of(storage) < 32


def test_a_growth_that_was_refused_is_tried_again(storage: LoopStorage) -> None:
    session = os.open(storage.folder_path(FOLDER), os.O_RDONLY)
    try:
        with pytest.raises(Conflict):
            storage.set_quota(FOLDER, 96 * MIB)
    finally:
        os.close(session)
    assert size_of(storage) <= 64
    os.truncate(f"{storage.root}/{FOLDER.hex}.img", 96 * MIB)  # as a crash would leave it
    storage.set_quota(FOLDER, 96 * MIB)
    assert size_of(storage) > 64
