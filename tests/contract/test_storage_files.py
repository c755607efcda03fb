"""Promises of the operations on files in a folder, on a local host."""

import os
import socket
import stat
import threading
import traceback
import uuid
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest

from common.errors import BerthError
from vfolders.core.paths import ROOT
from vfolders.storage import measuring
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.base import (
    BACKGROUND,
    INTERACTIVE,
    Effort,
    EntryExists,
    EntryKind,
    EntryMissing,
    StorageBackend,
    StorageUnavailable,
    Usage,
    WrongKind,
)
from vfolders.storage.descriptors import Owner
from vfolders.storage.files import FolderFiles

OWNER = Owner(uid=4321, gid=8765) if os.geteuid() == 0 else Owner(uid=os.geteuid(), gid=os.getegid())
FOLDER = uuid.UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")


@pytest.fixture
def storage(tmp_path: Path) -> StorageBackend:
    backend = LocalStorage(str(tmp_path / "root"), OWNER)
    backend.prepare()
    backend.create_folder(FOLDER)
    return backend


@pytest.fixture
def files(storage: StorageBackend) -> FolderFiles:
    return FolderFiles(storage, FOLDER)


@pytest.fixture
def inside(storage: StorageBackend) -> Path:
    """The folder as a session sees it: where links and worse are planted."""
    return Path(storage.folder_path(FOLDER))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the machine that no folder may ever give, change or delete."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not yours")
    return outside / "secret"


def write(files: FolderFiles, *path: str, content: bytes = b"content") -> None:
    files.write_file(path, [content])


def read(files: FolderFiles, *path: str) -> bytes:
    with files.open_file(path).stream as stream:
        return stream.read()


def etag_of(files: FolderFiles, *path: str) -> str:
    opened = files.open_file(path)
    opened.stream.close()
    return opened.etag


def names(files: FolderFiles, *path: str) -> list[str]:
    return [entry.name for entry in files.list_directory(path, limit=1000).entries]


# Ordinary work


def test_what_was_written_is_read_and_listed(files: FolderFiles) -> None:
    entry = files.write_file(("notes.txt",), [b"one ", b"", b"two"])

    assert read(files, "notes.txt") == b"one two"
    assert (entry.name, entry.kind, entry.size_bytes) == ("notes.txt", EntryKind.FILE, 7)
    assert files.list_directory(ROOT, limit=10).entries == (entry,)
    assert files.stat(("notes.txt",)) == entry


def test_missing_parents_are_made(files: FolderFiles) -> None:
    write(files, "a", "b", "c.txt")
    files.make_directory(("a", "x", "y"))

    assert names(files, "a") == ["b", "x"]
    assert read(files, "a", "b", "c.txt") == b"content"


def test_directories_come_first_then_names_without_regard_to_case(files: FolderFiles) -> None:
    for name in ("b", "A", "c"):
        write(files, name)
    files.make_directory(("z",))

    assert names(files) == ["z", "A", "b", "c"]


def test_a_file_is_replaced_as_a_whole(files: FolderFiles) -> None:
    write(files, "model.bin", content=b"old")
    with files.open_file(("model.bin",)).stream as reader:
        write(files, "model.bin", content=b"new content")

        assert reader.read() == b"old"
    assert read(files, "model.bin") == b"new content"


def test_the_etag_changes_with_the_file(files: FolderFiles) -> None:
    write(files, "a", content=b"1")
    with files.open_file(("a",)).stream:
        before = etag_of(files, "a")
        assert etag_of(files, "a") == before

        write(files, "a", content=b"2")

    assert etag_of(files, "a") != before


def test_an_upload_that_breaks_off_leaves_the_old_content_and_nothing_else(files: FolderFiles) -> None:
    write(files, "a", content=b"old")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises((ConnectionResetError, BerthError)):
        files.write_file(("a",), broken())

    assert read(files, "a") == b"old"
    assert names(files) == ["a"]


def test_deleting_takes_a_file_or_a_whole_tree(files: FolderFiles) -> None:
    write(files, "keep")
    write(files, "tree", "a", "b", "c")
    write(files, "file")

    files.delete_entry(("tree",))
    files.delete_entry(("file",))

    assert names(files) == ["keep"]


def test_a_deleted_folder_is_gone_and_deleting_it_again_is_success(
    storage: StorageBackend, files: FolderFiles
) -> None:
    write(files, "a", "b")

    storage.delete_folder(FOLDER)
    storage.delete_folder(FOLDER)

    with pytest.raises(StorageUnavailable):
        files.list_directory(ROOT, limit=1)


def test_creating_a_folder_again_keeps_what_it_holds(storage: StorageBackend, files: FolderFiles) -> None:
    write(files, "a")

    storage.create_folder(FOLDER)

    assert names(files) == ["a"]


def test_a_tree_of_any_depth_is_deleted(files: FolderFiles, inside: Path) -> None:
    descriptor = os.open(inside, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=descriptor)
        below = os.open("deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor)
    os.write(file, b"deep down")
    os.close(file)
    os.close(descriptor)

    usage = files.measure()
    files.delete_entry(("deep",))  # before any refusal: others cannot clean up so deep a tree

    assert usage == Usage(size_bytes=9, file_count=1, is_complete=True)
    assert names(files) == []


def test_ten_thousand_entries_are_listed_quickly(files: FolderFiles, inside: Path) -> None:
    for number in range(10_000):
        (inside / f"image-{number:05}.png").touch()

    started = perf_counter()
    listing = files.list_directory(ROOT, limit=10_000)

    assert perf_counter() - started < 1.0
    assert len(listing.entries) == 10_000
    assert listing.is_complete
    assert not files.list_directory(ROOT, limit=9_999).is_complete


def test_usage_counts_each_byte_once(files: FolderFiles, inside: Path) -> None:
    write(files, "a", content=b"x" * 1000)
    write(files, "sub", "b", content=b"x" * 24)
    os.link(inside / "a", inside / "sub" / "same")
    (inside / "link").symlink_to("a")

    usage = files.measure()

    assert (usage.size_bytes, usage.file_count, usage.is_complete) == (1024, 2, True)


@pytest.mark.parametrize("effort", [Effort(5, 60, 1), Effort(1000, 0, 1)])
def test_counting_stops_when_its_effort_is_used_up_and_says_so(
    files: FolderFiles, inside: Path, effort: Effort
) -> None:
    for number in range(20):
        (inside / f"{number}").write_bytes(b"x")
    usage = files.measure(effort)
    assert usage.size_bytes < 20
    assert not usage.is_complete


def test_too_much_to_keep_in_memory_is_not_counted_to_the_end(
    files: FolderFiles, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_MAX_REMEMBERED", 10)
    for number in range(20):
        (inside / f"{number}").mkdir()
    assert not files.measure().is_complete


def test_a_tree_too_deep_for_its_anchors_hides_nothing_beside_it(
    files: FolderFiles, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_MAX_ANCHORS", 1)
    (inside / "/".join(["deep"] * 150)).mkdir(parents=True)
    (inside / "seen").write_bytes(b"x" * 10)
    assert files.measure() == Usage(size_bytes=10, file_count=1, is_complete=False)


def test_counting_in_the_background_leaves_most_of_the_core_to_others(
    files: FolderFiles, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    monkeypatch.setattr("vfolders.storage.measuring.time.sleep", rests.append)
    monkeypatch.setattr(measuring, "_THROTTLE_INTERVAL_S", 0.0)
    (inside / "file").touch()
    files.measure(INTERACTIVE)
    assert rests == []
    files.measure(BACKGROUND)
    assert len(rests) > 1
    assert all(rest > 0 for rest in rests)


def test_what_is_made_belongs_to_the_user_of_the_containers(files: FolderFiles, inside: Path) -> None:
    previous = os.umask(0o077)
    try:
        write(files, "a", "b")
        files.make_directory(("c",))
    finally:
        os.umask(previous)

    for made, mode in (
        (inside, 0o755),
        (inside / "a", 0o755),
        (inside / "a" / "b", 0o644),
        (inside / "c", 0o755),
    ):
        status = made.stat()
        assert (status.st_uid, status.st_gid) == (OWNER.uid, OWNER.gid)
        assert stat.S_IMODE(status.st_mode) == mode


def test_refusals_say_what_is_wrong(files: FolderFiles) -> None:
    write(files, "file")
    files.make_directory(("directory",))

    with pytest.raises(EntryMissing, match="“absent/x”"):
        files.open_file(("absent", "x"))
    with pytest.raises(WrongKind):
        files.open_file(("directory",))
    with pytest.raises(WrongKind):
        files.list_directory(("file",), limit=1)
    with pytest.raises(WrongKind):
        write(files, "directory")
    with pytest.raises(WrongKind):
        write(files, "file", "below")
    with pytest.raises(EntryExists):
        files.make_directory(("directory",))
    with pytest.raises(EntryMissing):
        files.delete_entry(("absent",))


def test_a_host_that_is_not_mounted_is_unavailable_and_not_an_empty_folder(tmp_path: Path) -> None:
    away = LocalStorage(str(tmp_path / "not-mounted"), OWNER)

    for attempt in (away.create_folder, away.delete_folder, away.folder_path):
        with pytest.raises(StorageUnavailable):
            attempt(FOLDER)
    with pytest.raises(StorageUnavailable):
        away.space()
    with pytest.raises(StorageUnavailable):
        FolderFiles(away, FOLDER).measure()


# Hostile sessions


def test_links_are_shown_but_never_followed(files: FolderFiles, inside: Path, secret: Path) -> None:
    (inside / "to-file").symlink_to(secret)
    (inside / "to-directory").symlink_to(secret.parent)
    (inside / "up").symlink_to("..")
    (inside / "self").symlink_to("self")

    kinds = {entry.kind for entry in files.list_directory(ROOT, limit=10).entries}

    assert kinds == {EntryKind.LINK}
    for path in (("to-file",), ("to-directory", "secret"), ("up", "x"), ("self",)):
        with pytest.raises(WrongKind):
            files.open_file(path)
    for path in (("to-directory",), ("up",)):
        with pytest.raises(WrongKind):
            files.list_directory(path, limit=10)
    for path in (("to-directory", "planted"), ("up", "planted")):
        with pytest.raises(WrongKind):
            files.write_file(path, [b"x"])
        with pytest.raises(WrongKind):
            files.make_directory(path)
    with pytest.raises(WrongKind):
        files.delete_entry(("to-directory", "secret"))
    assert secret.read_text() == "not yours"
    assert os.listdir(secret.parent) == ["secret"]


def test_a_write_replaces_a_link_and_leaves_its_target(
    files: FolderFiles, inside: Path, secret: Path
) -> None:
    (inside / "a").symlink_to(secret)

    write(files, "a", content=b"mine")

    assert secret.read_text() == "not yours"
    assert read(files, "a") == b"mine"


def test_a_write_leaves_the_other_names_of_a_hard_link(
    files: FolderFiles, inside: Path, secret: Path
) -> None:
    os.link(secret, inside / "a")
    before = secret.stat()

    write(files, "a", content=b"mine")

    assert secret.read_text() == "not yours"
    assert (secret.stat().st_uid, secret.stat().st_mode) == (before.st_uid, before.st_mode)


def test_deleting_removes_links_and_leaves_their_targets(
    storage: StorageBackend, files: FolderFiles, inside: Path, secret: Path
) -> None:
    (inside / "link").symlink_to(secret.parent)
    (inside / "tree").mkdir()
    (inside / "tree" / "link").symlink_to(secret.parent)
    (inside / "tree" / "sub").mkdir()
    (inside / "tree" / "sub" / "link").symlink_to(secret)

    files.delete_entry(("link",))
    files.delete_entry(("tree",))
    storage.delete_folder(FOLDER)

    assert secret.read_text() == "not yours"


def test_the_folder_itself_is_never_a_link(
    storage: StorageBackend, files: FolderFiles, inside: Path, secret: Path
) -> None:
    inside.rmdir()
    inside.symlink_to(secret.parent)

    with pytest.raises(StorageUnavailable):
        files.list_directory(ROOT, limit=1)
    with pytest.raises(StorageUnavailable):
        storage.folder_path(FOLDER)
    storage.delete_folder(FOLDER)

    assert secret.read_text() == "not yours"


def test_fifos_sockets_and_devices_are_listed_refused_and_deleted(
    files: FolderFiles, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(inside / "fifo")
    monkeypatch.chdir(inside)  # the path of a socket has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as unix_socket:
        unix_socket.bind("socket")
    planted = ["fifo", "socket"]
    if os.geteuid() == 0:
        os.mknod(inside / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        planted.append("device")

    assert {entry.kind for entry in files.list_directory(ROOT, limit=9).entries} == {EntryKind.OTHER}
    for name in planted:
        with pytest.raises(WrongKind):
            files.open_file((name,))
        files.delete_entry((name,))
    assert names(files) == []


def test_names_that_are_not_text_are_listed_and_deleted_with_their_directory(
    files: FolderFiles, inside: Path
) -> None:
    (inside / "d").mkdir()
    os.close(os.open(os.fsencode(inside) + b"/d/caf\xe9\n", os.O_CREAT))

    assert names(files, "d") == ["caf\udce9\n"]
    files.delete_entry(("d",))
    assert names(files) == []


def test_times_that_no_calendar_has_are_shown_as_the_nearest(files: FolderFiles, inside: Path) -> None:
    for name, second in (("old", -(2**31)), ("new", 2**33)):
        (inside / name).touch()
        os.utime(inside / name, (second, second))

    assert len(names(files)) == 2


def test_renaming_a_directory_to_a_link_and_back_never_leads_outside(
    files: FolderFiles, inside: Path, secret: Path
) -> None:
    """A session swaps `a` with a link as fast as it can while files are read, written and deleted below `a`."""
    (inside / "a").mkdir()
    (inside / "link").symlink_to(secret.parent)
    has_ended = threading.Event()

    def swap() -> None:
        while not has_ended.is_set():
            for source, target in (("a", "b"), ("link", "a"), ("a", "link"), ("b", "a")):
                try:
                    os.rename(inside / source, inside / target)
                except OSError:
                    continue

    attacker = threading.Thread(target=swap)
    attacker.start()
    try:
        for _ in range(500):
            for attempt in (
                lambda: read(files, "a", "secret"),
                lambda: write(files, "a", "secret", content=b"x"),
                lambda: files.make_directory(("a", "planted")),
                lambda: files.delete_entry(("a", "planted")),
                lambda: files.delete_entry(("a", "secret")),
            ):
                try:
                    found = attempt()
                except BerthError:
                    continue
                assert found in (None, b"x")
    finally:
        has_ended.set()
        attacker.join()
    assert secret.read_text() == "not yours"
    assert os.listdir(secret.parent) == ["secret"]


def test_a_tree_that_is_written_to_meanwhile_is_deleted_or_refused_as_busy(
    files: FolderFiles, inside: Path
) -> None:
    has_ended = threading.Event()

    def refill() -> None:
        while not has_ended.is_set():
            try:
                (inside / "tree" / "a" / "b").mkdir(parents=True, exist_ok=True)
                (inside / "tree" / "a" / "file").touch()
            except OSError:
                continue

    (inside / "tree").mkdir()
    writer = threading.Thread(target=refill)
    writer.start()
    try:
        for _ in range(50):
            try:
                files.delete_entry(("tree",))
            except EntryMissing:
                continue
    finally:
        has_ended.set()
        writer.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="as an ordinary user all the tests above show it")
def test_directories_without_write_permission_are_deleted_by_an_ordinary_user_too(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            os._exit(_delete_read_only_tree(tmp_path))
        finally:  # It raised; from here it would go on as a second pytest.
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def _delete_read_only_tree(tmp_path: Path) -> int:
    root = tmp_path / "root"
    root.mkdir()
    os.chown(root, 65534, 65534)
    os.chdir(root)
    os.setgid(65534)
    os.setuid(65534)
    storage = LocalStorage(".", Owner(uid=65534, gid=65534))
    storage.create_folder(FOLDER)
    files = FolderFiles(storage, FOLDER)
    deepest = Path(FOLDER.hex, "a", "b", "c")
    deepest.mkdir(parents=True)
    (deepest / "file").touch()
    for directory in (deepest, *deepest.parents[:2]):
        directory.chmod(0o000 if directory == deepest else 0o500)
    files.delete_entry(("a",))
    return len(os.listdir(FOLDER.hex))
