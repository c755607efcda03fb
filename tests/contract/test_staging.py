"""Staged files: published whole, under the wanted or a free name, and removed after a crash."""

import os
import stat
import uuid
from pathlib import Path

import pytest

from vfolders.core.paths import UPLOADS_DIRECTORY
from vfolders.core.uploads import IfExists
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.base import EntryExists, EntryMissing, WrongKind
from vfolders.storage.descriptors import Owner
from vfolders.storage.staging import LEFT_AFTER_S, Published, Staging, UploadLocked

OWNER = Owner(uid=4321, gid=8765) if os.geteuid() == 0 else Owner(uid=os.geteuid(), gid=os.getegid())
FOLDER = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    return tmp_path / "root" / FOLDER.hex


@pytest.fixture
def staging(tmp_path: Path, inside: Path) -> Staging:
    backend = LocalStorage(str(tmp_path / "root"), OWNER)
    backend.prepare()
    backend.create_folder(FOLDER)
    return Staging(backend, FOLDER)


def upload(staging: Staging, content: bytes, *path: str, if_exists: IfExists = IfExists.REPLACE) -> Published:
    name = uuid.uuid4().hex
    staged = staging.create(name)
    try:
        staged.writer_of([content[:1], content[1:]], 0)()
        return staging.publish(staged, path, if_exists)
    finally:
        staged.close()
        staging.remove(name)


def test_a_file_gets_its_name_when_it_is_whole(staging: Staging, inside: Path) -> None:
    made = upload(staging, b"old", "deep", "model.bin")
    replaced = upload(staging, b"newer", "deep", "model.bin")

    assert (made.replaced_bytes, replaced.replaced_bytes) == (0, 3)
    assert (inside / "deep" / "model.bin").read_bytes() == b"newer"
    assert (inside / "deep" / "model.bin").stat().st_uid == OWNER.uid
    assert [each.name for each in inside.iterdir()] == ["deep"]


def test_a_taken_name_is_kept_or_refused(staging: Staging, inside: Path) -> None:
    upload(staging, b"1", "a.tar.gz")
    both = [upload(staging, b"2", "a.tar.gz", if_exists=IfExists.KEEP_BOTH) for _ in range(2)]
    with pytest.raises(EntryExists):
        upload(staging, b"3", "a.tar.gz", if_exists=IfExists.REFUSE)

    assert [each.path for each in both] == [("a (2).tar.gz",), ("a (3).tar.gz",)]
    assert (inside / "a.tar.gz").read_bytes() == b"1"
    assert {each.name for each in inside.iterdir()} == {"a.tar.gz", "a (2).tar.gz", "a (3).tar.gz"}


def test_publishing_again_after_a_crash_makes_no_second_file(staging: Staging, inside: Path) -> None:
    staged = staging.create("one")
    os.link(inside / UPLOADS_DIRECTORY / "one", inside / "a")  # and then the process died

    assert staging.publish(staged, ("a",), IfExists.KEEP_BOTH).path == ("a",)
    assert [each.name for each in inside.iterdir()] == ["a"]


def test_a_directory_is_never_replaced(staging: Staging, inside: Path) -> None:
    (inside / "a").mkdir()
    with pytest.raises(WrongKind):
        upload(staging, b"1", "a")
    assert [each.name for each in inside.iterdir()] == ["a"]


def test_an_upload_has_one_writer(staging: Staging) -> None:
    staged = staging.create("one")
    with pytest.raises(UploadLocked):
        staging.open("one")
    staged.close()
    staging.open("one").close()
    with pytest.raises(EntryMissing):
        staging.open("other")


def test_a_planted_link_is_neither_written_nor_followed(
    staging: Staging, inside: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (inside / UPLOADS_DIRECTORY).mkdir()
    (inside / UPLOADS_DIRECTORY / "one").symlink_to(secret)
    with pytest.raises(WrongKind):
        staging.open("one")
    (inside / UPLOADS_DIRECTORY / "one").unlink()
    (inside / UPLOADS_DIRECTORY).rmdir()
    (inside / UPLOADS_DIRECTORY).symlink_to(tmp_path)
    with pytest.raises(WrongKind):
        staging.create("two")
    assert secret.read_bytes() == b"secret"


def test_what_killed_processes_left_is_removed(staging: Staging, inside: Path) -> None:
    writing = staging.create("written-now")
    for name in ("left", "known", "fresh"):
        staging.create(name).close()
    for name in ("written-now", "left", "known"):
        os.utime(inside / UPLOADS_DIRECTORY / name, (0, os.stat(inside).st_mtime - LEFT_AFTER_S - 60))

    assert staging.remove_leftovers({"known"}) == 1
    assert {each.name for each in (inside / UPLOADS_DIRECTORY).iterdir()} == {"written-now", "known", "fresh"}
    writing.close()


def test_a_file_that_a_late_call_opened_is_closed_and_unlocked_by_itself(staging: Staging) -> None:
    staging.create("late")  # its caller had given up
    staging.open("late").close()


def test_a_directory_that_a_session_made_is_the_portals_from_then_on(staging: Staging, inside: Path) -> None:
    aside = inside / UPLOADS_DIRECTORY
    aside.mkdir()
    os.chown(aside, OWNER.uid, OWNER.gid)
    aside.chmod(0o777)
    staging.create("one").close()
    assert (aside.stat().st_uid, stat.S_IMODE(aside.stat().st_mode)) == (os.geteuid(), 0o700)
