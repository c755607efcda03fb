"""Clones of folders: whole or not usable, within limits, only of what may be read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from accounts.models import User
from common.errors import Conflict, LimitExceeded, NotFound
from tests.conftest import People
from tests.factories import actor_for
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit, use_of
from tests.waiting import wait_until
from vfolders import clones, services, trash, usage
from vfolders.core.states import FolderState
from vfolders.models import FolderClone, StorageHost, VFolder
from vfolders.selectors import mount_source, visible_folders
from vfolders.storage.trees import Copier

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def host(db: None, tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


def make_source(owner: User) -> VFolder:
    folder = make_folder(owner, name="data")
    place = Path(mount_source(folder))
    (place / "deep" / "er").mkdir(parents=True)
    (place / "deep" / "er" / "file").write_bytes(b"x" * 5000)
    (place / "run").write_text("#!/bin/sh")
    (place / "run").chmod(0o755)
    (place / "out").symlink_to("/etc")
    os.mkfifo(place / "pipe")
    usage.measure(folder, usage.BACKGROUND)
    return folder


def clone(source: VFolder, name: str = "copy", **options: object) -> VFolder:
    return clones.clone_folder(actor=actor_for(source.owner), folder_id=source.pk, name=name, **options)  # type: ignore[arg-type]


def test_a_clone_has_the_files_and_is_usable_only_when_it_is_whole(people: People) -> None:
    source = make_source(people.member)

    folder = clone(source)

    assert folder.state == FolderState.CLONING
    assert folder not in visible_folders(actor_for(people.member))
    with pytest.raises(Conflict):
        services.lock_folders([folder.pk])
    with pytest.raises(Conflict):
        make_folder(people.member, name="copy")
    clones.run_clone(folder.pk)

    folder.refresh_from_db()
    place = Path(mount_source(folder))
    assert folder.state == FolderState.READY
    assert sorted(os.listdir(place)) == ["deep", "out", "run"]
    assert (place / "deep" / "er" / "file").read_bytes() == b"x" * 5000
    assert (place / "run").stat().st_mode & 0o777 == 0o755
    assert os.readlink(place / "out") == "/etc"
    assert not FolderClone.objects.exists()


def test_a_clone_whose_worker_died_begins_anew(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = clone(make_source(people.member))
    real = Copier.copy_content

    def die(copier: Copier, top: int, target: int) -> None:
        os.close(os.open("half", os.O_CREAT | os.O_WRONLY, dir_fd=target))
        raise KeyboardInterrupt

    monkeypatch.setattr(Copier, "copy_content", die)
    with pytest.raises(KeyboardInterrupt):
        clones.run_clone(folder.pk)
    assert clones.unfinished_clones() == [folder.pk]

    monkeypatch.setattr(Copier, "copy_content", real)
    clones.run_clone(folder.pk)
    folder.refresh_from_db()
    assert "half" not in os.listdir(mount_source(folder))
    assert clones.unfinished_clones() == []


def test_a_clone_is_cancelled_while_it_is_copied(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = clone(make_source(people.member))

    def copy_until_stopped(copier: Copier, top: int, target: int) -> None:
        while True:
            copier.count(0)

    def cancel(_clone: FolderClone, progress: clones.Progress) -> None:
        trash.delete_folder(actor=actor_for(people.member), folder_id=folder.pk)

    monkeypatch.setattr(Copier, "copy_content", copy_until_stopped)
    monkeypatch.setattr(clones, "_reserve", cancel)
    clones.run_clone(folder.pk)

    assert services.purge_folders() == 1
    assert use_of(people.member)["folders"] == 1


def test_a_clone_keeps_to_limits_before_and_while(people: People) -> None:
    source = make_source(people.member)
    limit(people.member, max_folder_bytes=source.size_bytes + 100)
    with pytest.raises(LimitExceeded):
        clone(source)

    VFolder.objects.filter(pk=source.pk).update(size_bytes=10)  # grew since it was measured
    limit(people.member, max_folder_bytes=1000)
    folder = clone(source)
    clones.run_clone(folder.pk)

    folder.refresh_from_db()
    assert folder.state == FolderState.CLONING
    assert "left of 1000 B" in folder.clone.error["quote"]
    assert clones.unfinished_clones() == []

    limit(people.member, max_folder_bytes=10**9)
    clones.retry_clone(actor=actor_for(people.member), folder_id=folder.pk)
    clones.run_clone(folder.pk)
    folder.refresh_from_db()
    assert folder.state == FolderState.READY


def test_only_who_may_read_clones_also_at_the_time_of_copying(people: People) -> None:
    source = make_folder(people.project_admin, project=people.project)
    with pytest.raises(NotFound):
        clones.clone_folder(actor=actor_for(people.outsider), folder_id=source.pk, name="mine")

    folder = clones.clone_folder(actor=actor_for(people.member), folder_id=source.pk, name="mine")
    people.project.memberships.filter(user=people.member).delete()
    clones.run_clone(folder.pk)

    folder.refresh_from_db()
    assert (folder.state, folder.owner) == (FolderState.CLONING, people.member)
    assert folder.clone.error


COPIER_THAT_STOPS = """
import time
import django
django.setup()
from uuid import UUID
from vfolders import clones
from vfolders.storage import trees

def stop(*_arguments):
    print("half", flush=True)
    time.sleep(600)

trees._copy_piece = stop
clones.run_clone(UUID("{folder}"))
"""


@pytest.mark.django_db(transaction=True)
def test_another_worker_copies_what_a_killed_one_left(people: People) -> None:
    folder = clone(make_source(people.member))
    address = f"{os.environ['DATABASE_URL'].rpartition('/')[0]}/{connection.settings_dict['NAME']}"
    program = COPIER_THAT_STOPS.format(folder=folder.pk)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"DATABASE_URL": address},
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        assert any(line == "half\n" for line in worker.stdout)
        clones.run_clone(folder.pk)  # without effect, while the other has the lock
        assert clones.unfinished_clones() == [folder.pk]
        worker.kill()

    def is_whole() -> bool:
        clones.run_clone(folder.pk)
        folder.refresh_from_db()
        return folder.state == FolderState.READY

    wait_until(is_whole)
    assert (Path(mount_source(folder)) / "deep" / "er" / "file").read_bytes() == b"x" * 5000


def test_a_clone_that_is_purged_before_its_files_are_made_leaves_none(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_source(people.member)
    folder = clone(source)
    make_files = clones.make_files

    def make_late(each: VFolder) -> None:
        trash.trash_folder(actor=actor_for(people.member), folder_id=folder.pk)
        services.purge_folders()
        make_files(each)

    monkeypatch.setattr(clones, "make_files", make_late)
    clones.run_clone(folder.pk)

    assert not VFolder.objects.filter(pk=folder.pk).exists()
    assert not Path(mount_source(source)).with_name(folder.pk.hex).exists()
