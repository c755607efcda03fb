"""Work with the files of a folder by command, against the web process; a worker works while a command waits."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from tests.client.conftest import Command
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place
from vfolders.files.operations import run_operation
from vfolders.models import FileOperation
from vfolders.selectors import mount_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]


def work(_pause_s: float) -> None:
    for operation in FileOperation.objects.filter(ended_at=None):
        run_operation(operation.pk)


def zip_of(**files: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"set/{name}.txt", text)
    return written.getvalue()


def test_files_are_moved_unpacked_found_and_restored(
    place: Place, berth: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.folders.time.sleep", work)
    make_storage_host(tmp_path)
    inside = Path(mount_source(make_folder(place.owner, name="data")))
    (inside / "old").mkdir()
    (inside / "old" / "a.txt").write_text("a")
    (inside / "pack.zip").write_bytes(zip_of(one="1", two="2"))

    assert berth("folder", "mv", "data", "old/a.txt", "b.txt").code == 0
    assert (inside / "b.txt").read_text() == "a"
    moved = berth("folder", "mv", "data", "b.txt", "old/", "--json")
    assert json.loads(moved.out)["state"] == "done"
    assert (inside / "old" / "a.txt").exists() is False
    assert (inside / "old" / "b.txt").read_text() == "a"

    assert berth("folder", "unpack", "data", "pack.zip").code == 0
    assert (inside / "set" / "two.txt").read_text() == "2"
    (inside / "pack.zip").write_bytes(zip_of(two="new", three="3"))
    refused = berth("folder", "unpack", "data", "pack.zip", "--json")
    assert refused.code != 0
    assert json.loads(refused.out)["state"] == "failed"
    assert "“set/two.txt”" in refused.err
    assert not (inside / "set" / "three.txt").exists()
    assert berth("folder", "unpack", "data", "pack.zip", "--if-taken", "skip").code == 0
    assert (inside / "set" / "two.txt").read_text() == "2"

    found = berth("folder", "find", "data", "*.txt").out
    assert sorted(found.split()) == ["old/b.txt", "set/one.txt", "set/three.txt", "set/two.txt"]
    assert berth("folder", "find", "data", "set", "--json").out.count('"path"') == 1

    undo = berth("folder", "rm", "data", "set", "--yes").err.partition("Undo: berth ")[2].split()
    assert not (inside / "set").exists()
    assert undo[:3] == ["folder", "restore-files", "data"]
    assert berth(*undo).code == 0
    assert (inside / "set" / "one.txt").read_text() == "1"
    assert berth(*undo).code != 0
