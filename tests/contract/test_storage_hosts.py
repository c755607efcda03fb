"""Promises of every storage backend. Those on this machine and, with the marker `storage`, those with servers
(`bin/test --storage`) run for real; the others on doubles that record quotas but enforce none.
"""

import os
import stat
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.doubles.storage_apis import SIMULATED, simulated
from tests.doubles.storage_servers import HOSTS, OWNER, SERVERS
from tests.waiting import wait_until
from vfolders.core.paths import ROOT
from vfolders.storage.backends.btrfs import BtrfsStorage
from vfolders.storage.base import Capability, StorageBackend, StorageFull, StorageUnavailable
from vfolders.storage.files import FolderFiles

FOLDER = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")
OTHER = uuid.UUID("6ba7b811-9dad-41d1-80b4-00c04fd430c8")
MIB = 2**20
QUOTA = 32 * MIB

backends = [
    *HOSTS,
    *SIMULATED,
    *(pytest.param(name, marks=pytest.mark.storage) for name in SERVERS),
]


@pytest.fixture(scope="module", params=backends)
def storage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StorageBackend]:
    name, directory = request.param, tmp_path_factory.mktemp(request.param)
    limits.clear()
    with ExitStack() as stack:
        if name in SIMULATED:
            backend, limits[backend] = stack.enter_context(simulated(name, directory))
        else:
            backend = stack.enter_context((HOSTS | SERVERS)[name](directory))
            assert backend.lacks() == ()
        stack.callback(backend.detach)
        backend.prepare()
        yield backend


limits: dict[StorageBackend, dict[str, int]] = {}
"""Quotas in bytes by directory that a double was given; of the present backend, if it is one."""


@pytest.fixture
def files(storage: StorageBackend) -> Iterator[FolderFiles]:
    storage.create_folder(FOLDER)
    yield FolderFiles(storage, FOLDER)
    storage.delete_folder(FOLDER)
    storage.delete_folder(OTHER)


def fill(files: FolderFiles, name: str, size_bytes: int) -> None:
    files.write_file((name,), (bytes([65 + number % 26]) * MIB for number in range(size_bytes // MIB)))


def test_a_folder_keeps_files_until_it_is_deleted(storage: StorageBackend, files: FolderFiles) -> None:
    files.write_file(("a", "b"), [b"content"])
    files.write_file(("a", "b"), [b"new content"])
    files.make_directory(("c",))
    storage.create_folder(FOLDER)
    storage.prepare()

    assert [entry.name for entry in files.list_directory(ROOT, limit=9).entries] == ["a", "c"]
    assert Path(storage.folder_path(FOLDER), "a", "b").read_bytes() == b"new content"
    assert files.measure().size_bytes == 11

    files.delete_entry(("a",))
    assert [entry.name for entry in files.list_directory(ROOT, limit=9).entries] == ["c"]
    for _ in range(2):
        storage.delete_folder(FOLDER)
        with pytest.raises(StorageUnavailable):
            files.list_directory(ROOT, limit=1)


def test_everything_in_it_belongs_to_the_user_of_the_containers(
    storage: StorageBackend, files: FolderFiles
) -> None:
    files.write_file(("a", "b"), [b"content"])
    place = Path(storage.folder_path(FOLDER))
    for made, mode in ((place, 0o755), (place / "a", 0o755), (place / "a" / "b", 0o644)):
        status = made.stat()
        assert (status.st_uid, status.st_gid) == (OWNER.uid, OWNER.gid)
        assert stat.S_IMODE(status.st_mode) == mode


def test_the_host_says_how_full_it_is(storage: StorageBackend) -> None:
    space = storage.space()
    assert 0 <= space.free_bytes <= space.total_bytes


def test_what_a_restart_unmounted_is_there_again_after_attaching(
    storage: StorageBackend, files: FolderFiles
) -> None:
    files.write_file(("a",), [b"content"])
    storage.detach()
    storage.detach()
    if storage.is_mounted_by_berth:
        with pytest.raises(StorageUnavailable):
            files.list_directory(ROOT, limit=1)
        with pytest.raises(StorageUnavailable):
            storage.folder_path(FOLDER)
    for _ in range(2):
        storage.attach()
    with files.open_file(("a",)).stream as stream:
        assert stream.read() == b"content"


def test_a_quota_stops_a_writer_until_it_is_raised(storage: StorageBackend, files: FolderFiles) -> None:
    if Capability.QUOTA not in storage.capabilities:
        return
    storage.set_quota(FOLDER, QUOTA)
    storage.create_folder(FOLDER)
    if storage in limits:
        assert limits[storage] == {FOLDER.hex: QUOTA}
        storage.set_quota(FOLDER, 4 * QUOTA)
        assert limits[storage] == {FOLDER.hex: 4 * QUOTA}
        storage.set_quota(FOLDER, None)
        storage.set_quota(FOLDER, None)
        assert limits[storage] == {}
        return
    with pytest.raises(StorageFull):
        fill(files, "large", 3 * QUOTA)
    assert files.list_directory(ROOT, limit=9).entries == ()

    storage.set_quota(FOLDER, 4 * QUOTA)
    fill(files, "large", 2 * QUOTA)
    storage.set_quota(FOLDER, None)
    fill(files, "larger", 3 * QUOTA)


def test_a_folder_begins_with_its_quota(storage: StorageBackend) -> None:
    if Capability.QUOTA not in storage.capabilities:
        return
    storage.create_folder(OTHER, quota_bytes=QUOTA)
    if storage in limits:
        assert limits[storage] == {OTHER.hex: QUOTA}
        storage.delete_folder(OTHER)
        assert limits[storage] == {}
        return
    try:
        with pytest.raises(StorageFull):
            fill(FolderFiles(storage, OTHER), "large", 3 * QUOTA)
    finally:
        storage.delete_folder(OTHER)


def test_the_file_system_counts_a_folder(storage: StorageBackend, files: FolderFiles) -> None:
    if Capability.USAGE not in storage.capabilities:
        return
    storage.used_bytes(FOLDER)  # or None: some count only folders with a quota
    storage.set_quota(FOLDER, 4 * QUOTA)
    fill(files, "a", 8 * MIB)
    files.run(lambda: os.sync())
    wait_until(lambda: 8 * MIB <= (storage.used_bytes(FOLDER) or 0) <= 20 * MIB)


def test_subvolumes_that_an_owner_made_are_counted_and_deleted(
    storage: StorageBackend, files: FolderFiles
) -> None:
    if not isinstance(storage, BtrfsStorage):
        return
    place = Path(storage.folder_path(FOLDER))
    for path in (place / "one", place / "one" / "way" / "two"):
        path.parent.mkdir(exist_ok=True)
        subprocess.run(["btrfs", "subvolume", "create", path], check=True, capture_output=True)
        (path / "a" / "b").mkdir(parents=True)
        (path / "a" / "b" / "large").write_bytes(bytes(MIB))
    assert storage.used_bytes(FOLDER) is None
    assert files.measure().size_bytes == 2 * MIB

    storage.delete_folder(FOLDER)
    assert not place.exists()


def test_a_clone_has_the_content_and_lives_on_its_own(storage: StorageBackend, files: FolderFiles) -> None:
    if Capability.CLONE not in storage.capabilities:
        return
    files.write_file(("a", "b"), [b"content"])
    for _ in range(2):
        storage.clone_folder(FOLDER, OTHER)
    files.delete_entry(("a",))
    with FolderFiles(storage, OTHER).open_file(("a", "b")).stream as stream:
        assert stream.read() == b"content"
