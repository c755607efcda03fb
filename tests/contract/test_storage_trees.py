"""Promises of moves, copies and the trash of a folder, on a local host: also while a session swaps
directories for links.
"""

import os
import stat
import threading
import time
import tracemalloc
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from vfolders.core.paths import MAX_DEPTH, ROOT, TRASH, UNFINISHED, UNLISTED, EntryPath
from vfolders.storage import descriptors, trash, trees
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.base import BACKGROUND, EntryExists, EntryMissing, WrongKind
from vfolders.storage.descriptors import Owner
from vfolders.storage.files import Copying, FolderFiles
from vfolders.storage.trees import NameTaken

OWNER = Owner(uid=4321, gid=8765) if os.geteuid() == 0 else Owner(uid=os.geteuid(), gid=os.getegid())


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    backend = LocalStorage(str(tmp_path / "root"), OWNER)
    backend.prepare()
    return backend


def new_folder(storage: LocalStorage) -> tuple[FolderFiles, Path]:
    folder_id = uuid.uuid4()
    storage.create_folder(folder_id)
    return FolderFiles(storage, folder_id), Path(storage.folder_path(folder_id))


def copying(taken: NameTaken = NameTaken.REFUSE) -> Copying:
    return Copying(taken, trash.new_batch(), lambda amount: None, [])


def move(
    files: FolderFiles, path: EntryPath, to: EntryPath, taken: NameTaken = NameTaken.REFUSE
) -> EntryPath | None:
    return files.move(path, to, taken=taken, batch=trash.new_batch())


def names(files: FolderFiles, *path: str) -> list[str]:
    return [entry.name for entry in files.list_directory(path, limit=1000).entries]


def test_a_taken_name_is_refused_numbered_replaced_or_skipped(storage: LocalStorage) -> None:
    files, inside = new_folder(storage)
    (inside / "sub").mkdir()
    (inside / "sub" / "a.tar.gz").write_text("old")

    def place(content: str, taken: NameTaken) -> EntryPath | None:
        (inside / "a.tar.gz").write_text(content)
        return move(files, ("a.tar.gz",), ("sub", "a.tar.gz"), taken)

    with pytest.raises(EntryExists):
        place("new", NameTaken.REFUSE)
    assert place("new", NameTaken.SKIP) is None
    assert (inside / "a.tar.gz").exists()
    assert place("second", NameTaken.KEEP_BOTH) == ("sub", "a (2).tar.gz")
    assert place("third", NameTaken.REPLACE) == ("sub", "a.tar.gz")
    assert (inside / "sub" / "a.tar.gz").read_text() == "third"
    (batch,) = files.trashed()
    assert batch.paths == (("sub", "a.tar.gz"),)  # what was replaced can be restored
    assert names(files) == ["sub"]  # and the trash is not listed


def test_a_directory_is_not_moved_or_copied_into_itself(storage: LocalStorage) -> None:
    files, inside = new_folder(storage)
    (inside / "a" / "b").mkdir(parents=True)

    for to in (("a", "b", "c"), ("a", "b")):
        with pytest.raises(WrongKind, match="itself"):
            move(files, ("a",), to, NameTaken.REPLACE)
        with pytest.raises(WrongKind, match="itself"):
            files.copy(("a",), files, to, copying=copying(NameTaken.REPLACE))
    with pytest.raises(EntryMissing, match="“gone”"):
        move(files, ("gone",), ("b",))
    assert (inside / "a" / "b").is_dir()


def test_a_tree_is_copied_to_another_folder_without_following_links(
    storage: LocalStorage, tmp_path: Path
) -> None:
    files, inside = new_folder(storage)
    target, copied = new_folder(storage)
    (tmp_path / "secret").write_text("not yours")
    tree = inside / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "b\n\udcff.bin").write_bytes(b"bytes")
    (tree / "run.sh").write_text("date")
    (tree / "run.sh").chmod(0o4755)
    (tree / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tree / "pipe")
    with (tree / "sparse").open("wb") as sparse:
        sparse.seek(2**30)
        sparse.write(b"end")
    how = copying()

    assert files.copy(("tree",), target, ("copy",), copying=how) == ("copy",)

    assert (copied / "copy" / "deep" / "b\n\udcff.bin").read_bytes() == b"bytes"
    assert os.readlink(copied / "copy" / "link") == str(tmp_path / "secret")
    status = (copied / "copy" / "run.sh").stat()
    assert stat.S_IMODE(status.st_mode) == 0o755  # no set-user-id bit
    assert (status.st_uid, status.st_gid) == (OWNER.uid, OWNER.gid)
    assert how.left_out == [("pipe",)]
    sparse_copy = (copied / "copy" / "sparse").stat()
    assert sparse_copy.st_size == 2**30 + 3
    assert sparse_copy.st_blocks * 512 < 2**20
    assert list((copied / UNFINISHED).iterdir()) == []  # nothing half made is left


def test_a_clone_has_nothing_of_the_portals_own_directories(storage: LocalStorage) -> None:
    files, inside = new_folder(storage)
    target, copied = new_folder(storage)
    for own in UNLISTED:
        (inside / own).mkdir()
        (inside / own / "a").write_text("a")
    (inside / "b").write_text("b")
    assert files.copy_all(target, lambda amount: None) == []
    assert [each.name for each in copied.iterdir()] == ["b"]


def test_a_copy_that_is_ended_leaves_nothing(storage: LocalStorage) -> None:
    files, inside = new_folder(storage)
    (inside / "tree").mkdir()
    for number in range(10):
        (inside / "tree" / f"{number}").write_bytes(b"x" * 1000)

    def refuse(amount: int) -> None:
        if amount:
            raise OSError(122, "Disk quota exceeded")

    how = Copying(NameTaken.REFUSE, trash.new_batch(), refuse, [])
    with pytest.raises(Exception, match="quota"):
        files.copy(("tree",), files, ("copy",), copying=how)

    assert names(files) == ["tree"]
    assert list((inside / UNFINISHED).iterdir()) == []


def test_emptying_the_trash_does_not_touch_what_is_being_written(storage: LocalStorage) -> None:
    files, inside = new_folder(storage)
    (inside / "a").mkdir()
    (inside / "a" / "b").write_bytes(b"x" * 1000)

    def empty(amount: int) -> None:
        with suppress(EntryMissing):
            files.delete_entry((TRASH,))

    files.copy(("a",), files, ("copy",), copying=Copying(NameTaken.REFUSE, trash.new_batch(), empty, []))
    assert (inside / "copy" / "b").read_bytes() == b"x" * 1000

    (left := inside / UNFINISHED / "0000000001-0123456789ab").write_text("of a killed process")
    assert names(files) == ["a", "copy"]
    files.expire_trash(now_s=time.time())
    assert not left.exists()


def test_deleted_entries_return_with_their_content_and_expire(storage: LocalStorage) -> None:
    files, inside = new_folder(storage)
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "a" / "b" / "one").write_text("1")
    (inside / "a" / "two").write_text("2")
    batch = trash.new_batch()

    files.throw_away(("a", "two"), batch=batch)
    files.throw_away(("a", "b"), batch=batch)
    files.throw_away(("a",), batch=(second := trash.new_batch()))
    assert names(files) == []
    assert files.measure(BACKGROUND).file_count == 2  # counted until they are gone

    (inside / "a").mkdir()
    (inside / "a" / "two").write_text("new")
    files.restore(batch)
    files.restore(second)
    assert (inside / "a" / "b" / "one").read_text() == "1"
    assert (inside / "a" / "two").read_text() == "new"
    assert (inside / "a" / "two (2)").read_text() == "2"
    with pytest.raises(EntryMissing):
        files.restore(batch)

    files.throw_away(("a",), batch=trash.new_batch())
    assert files.expire_trash(now_s=time.time()) == 0
    assert files.expire_trash(now_s=time.time() + trash.KEPT_S + 10) == 1
    assert files.measure(BACKGROUND).file_count == 0


def test_a_way_that_a_session_dug_in_the_trash_is_followed_no_deeper_than_any_path(
    storage: LocalStorage,
) -> None:
    files, inside = new_folder(storage)
    inside.joinpath(TRASH, trash.new_batch(), *["d"] * 500).mkdir(parents=True)
    (batch,) = files.trashed()
    assert [len(path) for path in batch.paths] == [MAX_DEPTH + 1]


def test_a_walk_holds_no_list_of_a_directory(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number:0100d}").mkdir()
    with descriptors.closing(os.open(tmp_path, os.O_RDONLY)) as top:
        tracemalloc.start()
        assert sum(1 for _ in trees.walk(top)) == 3000
        _now, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 300_000


def test_a_trash_that_a_session_replaced_by_a_link_is_not_used(storage: LocalStorage, tmp_path: Path) -> None:
    files, inside = new_folder(storage)
    outside = tmp_path / "outside"
    outside.mkdir()
    (inside / TRASH).symlink_to(outside)
    (inside / "a").write_text("a")

    with pytest.raises(WrongKind):
        files.throw_away(("a",), batch=trash.new_batch())

    assert list(outside.iterdir()) == []
    assert files.trashed() == []
    assert (inside / "a").exists()


def test_no_operation_leaves_the_folder_while_directories_are_swapped_for_links(
    storage: LocalStorage, tmp_path: Path
) -> None:
    files, inside = new_folder(storage)
    target, copied = new_folder(storage)
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "secret").write_text("not yours")
    (outside / "secret").write_text("not yours")
    (inside / "a" / "deep").mkdir(parents=True)
    (inside / "a" / "deep" / "own").write_text("own")
    (inside / "link").symlink_to(outside)
    ends = threading.Event()

    def swap() -> None:
        while not ends.is_set():
            os.rename(inside / "a", inside / "hidden")
            os.rename(inside / "link", inside / "a")
            os.rename(inside / "a", inside / "link")
            os.rename(inside / "hidden", inside / "a")

    swapper = threading.Thread(target=swap)
    swapper.start()
    done = refused = 0
    try:
        for number in range(400):
            for act in (
                lambda n=number: files.copy(("a", "deep"), target, (f"copy{n}",), copying=copying()),
                lambda n=number: move(files, ("a", "deep"), ("a", f"deep{n}")),
                lambda n=number: move(files, ("a", f"deep{n}"), ("a", "deep"), NameTaken.KEEP_BOTH),
            ):
                try:
                    act()
                    done += 1
                except (EntryMissing, WrongKind, EntryExists):
                    refused += 1
    finally:
        ends.set()
        swapper.join()

    assert done
    assert refused
    assert sorted(path.name for path in outside.rglob("*")) == ["deep", "secret", "secret"]
    assert list(copied.rglob("secret")) == []
    assert target.list_directory(ROOT, limit=1000).entries
