"""Promises of every storage backend; `storage` is parametrized over the implementations."""

import os
import uuid
from pathlib import Path

import pytest

from vfolders.core.paths import ROOT
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.base import StorageBackend, StorageUnavailable
from vfolders.storage.descriptors import Owner
from vfolders.storage.files import FolderFiles

OWNER = Owner(uid=4321, gid=8765) if os.geteuid() == 0 else Owner(uid=os.geteuid(), gid=os.getegid())
FOLDER = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")


@pytest.fixture(params=["local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> StorageBackend:
    backend = LocalStorage(str(tmp_path / "root"), OWNER)
    backend.prepare()
    return backend


def test_a_folder_keeps_files_until_it_is_deleted(storage: StorageBackend) -> None:
    storage.create_folder(FOLDER)
    files = FolderFiles(storage, FOLDER)
    files.write_file(("a", "b"), [b"content"])
    storage.create_folder(FOLDER)
    storage.prepare()

    assert Path(storage.folder_path(FOLDER), "a", "b").read_bytes() == b"content"
    assert files.measure().size_bytes == 7

    for _ in range(2):
        storage.delete_folder(FOLDER)
        with pytest.raises(StorageUnavailable):
            files.list_directory(ROOT, limit=1)


def test_the_host_says_how_full_it_is(storage: StorageBackend) -> None:
    space = storage.space()
    assert 0 < space.free_bytes <= space.total_bytes
    assert storage.lacks() == ()
