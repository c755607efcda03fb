"""`berth folder sync`, and large files that go on where they stopped."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth import Client, files, resumable
from berth.errors import Unreachable
from tests import factories
from tests.client.conftest import Command
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders.models import Upload, VFolder
from vfolders.selectors import mount_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]


@pytest.fixture
def place(transactional_db: None, tmp_path: Path) -> Place:
    make_storage_host(tmp_path / "host")
    return make_place()


@pytest.fixture
def folder(place: Place) -> VFolder:
    return make_folder(place.owner, name="data")


@pytest.fixture
def client(place: Place, portal_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    token = factories.make_token(place.owner)
    monkeypatch.setenv("BERTH_URL", portal_url)
    monkeypatch.setenv("BERTH_TOKEN", token)
    with Client(portal_url, token) as client:
        yield client


def tree(top: Path) -> dict[str, bytes]:
    found = {path.relative_to(top).as_posix(): path for path in top.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".berth-")}


def test_a_folder_is_made_like_a_directory_and_back(
    folder: VFolder, client: Client, command: Command, tmp_path: Path
) -> None:
    here, inside, back = tmp_path / "here", Path(mount_source(folder)), tmp_path / "back"
    (here / "sub").mkdir(parents=True)
    (here / "a").write_bytes(b"1")
    (here / "sub" / "b").write_bytes(b"22")
    (inside / "set").mkdir()
    (inside / "set" / "old").write_bytes(b"gone")

    dry = command("folder", "sync", str(here), "data:set", "--delete", "--dry-run")
    assert sorted(dry.out.split("\n")) == ["", "copy a", "copy sub/b", "create sub", "delete old"]
    assert tree(inside) == {"set/old": b"gone"}

    assert command("folder", "sync", str(here), "data:set", "--delete").code == 0
    assert tree(inside) == {"set/a": b"1", "set/sub/b": b"22"}
    assert command("folder", "sync", str(here), "data:set", "--dry-run").out == ""

    (here / "a").write_bytes(b"X")
    os.utime(here / "a", (0, 0))  # as old as can be: only the contents tell
    assert command("folder", "sync", str(here), "data:set", "-n").out == ""
    assert command("folder", "sync", str(here), "data:set", "-n", "--checksum").out == "copy a\n"

    assert command("folder", "sync", "data:set", str(back)).code == 0
    assert tree(back) == {"a": b"1", "sub/b": b"22"}
    assert command("folder", "sync", str(here), str(back)).code != 0


def test_a_large_file_goes_on_where_it_stopped(
    folder: VFolder, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RESUMABLE_BYTES", 1000)
    source = tmp_path / "model"
    source.write_bytes(os.urandom(3_000_000))
    append = resumable._append

    def append_some(transport: object, address: str, content: object, size_bytes: int) -> bool:
        append(transport, address, lambda: iter((source.read_bytes()[:2_000_000],)), 2_000_000)  # type: ignore[arg-type]
        raise Unreachable("The network is gone.")

    there = client.folders.get(str(folder.pk)).files
    with monkeypatch.context() as patch:
        patch.setattr(resumable, "_append", append_some)
        patch.setattr(resumable, "PAUSES_S", (0.0,))
        with pytest.raises(Unreachable):
            there.upload(source)
    assert Upload.objects.get().offset_bytes == 2_000_000

    there.upload(source)
    assert tree(Path(mount_source(folder))) == {"model": source.read_bytes()}
    assert Upload.objects.count() == 1
