"""Directories of a folder are counted on request, in the background, and read from the last count."""

import os
from pathlib import Path

import pytest

from accounts.core.roles import Role
from accounts.models import User
from common.errors import NotFound, PermissionDenied
from tests.factories import actor_for, make_project, make_user
from tests.factories_folders import make_folder, make_storage_host
from vfolders import tasks
from vfolders.models import DirectoryCount, VFolder
from vfolders.reports.directories import DirectoryReport, count_requested, read_directories, request_count
from vfolders.storage.base import EntryMissing


@pytest.fixture
def owner(db: None, tmp_path: Path) -> User:
    make_storage_host(tmp_path)
    return make_user(member_of=make_project())


@pytest.fixture
def folder(owner: User) -> VFolder:
    return make_folder(owner, name="data")


def files_at(folder: VFolder, sizes: dict[str, int]) -> Path:
    root = Path(folder.host.config["root"]) / folder.pk.hex
    for name, size in sizes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * size)
    return root


def read(folder: VFolder, owner: User, path: str = "") -> DirectoryReport:
    return read_directories(actor_for(owner), folder.pk, path)


def test_a_requested_count_is_made_once_and_read_level_by_level(owner: User, folder: VFolder) -> None:
    files_at(folder, {"top": 1, "a/x.csv": 10, "a/b/y.csv": 20, "c/z": 5})
    deep = "d/" * 100
    files_at(folder, {f"{deep}leaf": 2})
    assert (read(folder, owner).directory, count_requested()) == (None, 0)
    for _ in range(2):
        request_count(actor=actor_for(owner), folder_id=folder.pk)
    assert read(folder, owner).is_awaited
    tasks.count_directories(str(folder.pk))
    assert count_requested() == 0

    report = read(folder, owner)
    assert report.directory is not None
    assert [(each.name, each.size_bytes) for each in report.directory.directories] == [
        ("a", 30), ("c", 5), ("d", 2),
    ]  # fmt: skip
    assert (report.directory.size_bytes, report.directory.file_count) == (38, 5)
    assert (report.is_awaited, report.is_whole, report.problem) == (False, True, "")
    below = read(folder, owner, "a/b").directory
    assert below is not None
    assert below.size_bytes == 20
    with pytest.raises(EntryMissing):
        read(folder, owner, "a/none")
    folder.refresh_from_db()
    assert (folder.size_bytes, folder.file_count) == (38, 5)


def test_a_request_during_a_count_stays(
    owner: User, folder: VFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_count(actor=actor_for(owner), folder_id=folder.pk)
    row = DirectoryCount.objects.get()
    from vfolders.reports import directories

    store = directories.store_measurement

    def ask_again(*arguments: object, **more: object) -> None:
        store(*arguments, **more)  # type: ignore[arg-type]
        DirectoryCount.objects.update(requested_at=row.requested_at and row.requested_at.replace(year=2100))

    monkeypatch.setattr(directories, "store_measurement", ask_again)
    count_requested()
    assert read(folder, owner).is_awaited


def test_a_vanished_host_is_told_and_keeps_the_last_count(owner: User, folder: VFolder) -> None:
    root = files_at(folder, {"a": 1})
    request_count(actor=actor_for(owner), folder_id=folder.pk)
    count_requested()
    os.rename(root, root.with_name("away"))
    request_count(actor=actor_for(owner), folder_id=folder.pk)
    count_requested()
    report = read(folder, owner)
    assert report.problem
    assert report.directory is not None
    assert not report.is_awaited


def test_only_readers_learn_names_of_directories(owner: User, folder: VFolder) -> None:
    monitor = make_user(domain=owner.domain, role=Role.DOMAIN_MONITOR)
    for who, refusal in ((make_user(), NotFound), (monitor, PermissionDenied)):
        with pytest.raises(refusal):
            read(folder, who)
        with pytest.raises(refusal):
            request_count(actor=actor_for(who), folder_id=folder.pk)
