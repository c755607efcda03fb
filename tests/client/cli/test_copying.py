"""Copies between this computer, folders and sessions follow the same rules and can be repeated."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from berth import Client
from berth.cli.exits import FAILED, REFUSED
from tests import factories
from tests.client.conftest import Command
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place, make_place
from vfolders.selectors import mount_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(150)]

# (source, target, where its file `a` is afterwards). There are: data/a, data/sub/b, file, and in the target have/, have/data.
RULES = [
    ("file", "", "file"),
    ("file", "new", "new"),
    ("file", "new/", "new/file"),
    ("file", "deep/er/new", "deep/er/new"),
    ("file", "have", "have/file"),
    ("data", "", "data/a"),
    ("data", "new", "new/data/a"),
    ("data", "data", "data/a"),
    ("data", "data/", "data/data/a"),
    ("data", "have", "have/data/a"),
    ("data", "have/data", "have/data/a"),
    ("data/.", "", "a"),
    ("data/.", "new", "new/a"),
]


@dataclass
class There:
    """A folder or the home directory of a session, or a directory here, by the same words."""

    name: str
    files: Any
    local: Path

    def put(self, path: str, content: bytes) -> None:
        if self.files is None:
            (self.local / path).parent.mkdir(parents=True, exist_ok=True)
            (self.local / path).write_bytes(content)
        else:
            self.files.write(path, content)

    def get(self, path: str) -> bytes:
        if self.files is None:
            return (self.local / path).read_bytes()
        return b"".join(self.files.read(path))

    def tree(self, path: str = "") -> set[str]:
        if self.files is None:
            return {one.relative_to(self.local).as_posix() for one in self.local.rglob("*")}
        names = set()
        for entry in self.files.list(path).entries:
            below = f"{path}/{entry.name}".lstrip("/")
            names |= {below} | (self.tree(below) if entry.is_directory else set())
        return names - {".profile"}

    def address(self, path: str) -> str:
        return f"{self.local}/{path}" if self.files is None else f"{self.name}:{path}"


@pytest.fixture
def place(transactional_db: None, tmp_path: Path) -> Place:
    make_storage_host(tmp_path / "host")
    return make_place()


@pytest.fixture
def client(place: Place, portal_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    token = factories.make_token(place.owner)
    monkeypatch.setenv("BERTH_URL", portal_url)
    monkeypatch.setenv("BERTH_TOKEN", token)
    with Client(portal_url, token) as client:
        yield client


@pytest.fixture
def make(place: Place, client: Client, tmp_path: Path) -> Any:
    numbers = iter(range(1000))

    def make(kind: str) -> There:
        name = f"{kind}-{next(numbers)}"
        local = tmp_path / name
        if kind == "folder":
            folder = make_folder(place.owner, name=name)
            return There(name, client.folders.get(str(folder.pk)).files, Path(mount_source(folder)))
        if kind == "session":
            session = place.run(name=name, resources={"cpu": 0.1, "mem": "64m"})
            return There(name, client.sessions.get(str(session.pk)).files, local)
        local.mkdir()
        return There(name, None, local)

    return make


@pytest.mark.parametrize(
    ("source_kind", "target_kind"),
    [("local", "folder"), ("local", "session"), ("folder", "local"), ("session", "local")],
)
def test_each_copy_follows_the_rules_and_ends_where_it_did_when_it_is_made_again(
    source_kind: str, target_kind: str, make: Any, command: Command
) -> None:
    source = make(source_kind)
    source.put("data/a", b"1")
    source.put("data/sub/b", b"1")
    source.put("file", b"1")
    ends = {}
    for what, to, _ in RULES:
        target = make(target_kind)
        target.put("have/data/other", b"old")
        target.put("have/data/a", b"old")
        trees = []
        for _ in range(2):
            done = command("cp", source.address(what), target.address(to))
            assert done.code == 0, (what, to, done.err)
            trees.append(target.tree())
        assert trees[0] == trees[1], (what, to)
        assert target.get("have/data/other") == b"old"
        found = {path for path in trees[0] if path.split("/")[-1] in ("a", "file", "new")}
        holding = {path.rpartition("/")[0] for path in trees[0]}
        ends[what, to] = {path for path in found - holding if target.get(path) == b"1"}
    assert ends == {(what, to): {end} for what, to, end in RULES}


@pytest.mark.parametrize("kind", ["local", "folder", "session"])
def test_a_file_and_a_directory_never_take_the_place_of_each_other(
    kind: str, make: Any, command: Command
) -> None:
    source = make("folder" if kind == "local" else "local")
    source.put("data/a", b"new")
    source.put("data/sub/b", b"new")
    target = make(kind)
    target.put("file", b"old")
    target.put("data", b"old")
    target.put("in/a/x", b"old")
    target.put("in/sub", b"old")
    before = target.tree()
    for what, to in (
        ("data", ""),
        ("data", "file/"),
        ("data/.", "file"),
        ("data/a", "in"),
        ("data/a", "file/"),
    ):
        done = command("cp", source.address(what), target.address(to))
        assert done.code in (REFUSED, 2), (what, to, done)
        assert done.err.startswith("berth: ")
        assert target.tree() == before, (what, to)
    nested = command("cp", source.address("data/."), target.address("in"))
    assert nested.code != 0
    assert (target.tree(), target.get("in/sub"), target.get("in/a/x")) == (before, b"old", b"old")


ODD = ["new\nline", "end\n", "tab\t", "-rf", "'\"$(x)`", "back\\slash", "x" * 255, "…\x1b[31m"]


@pytest.mark.parametrize("kind", ["folder", "session"])
def test_an_entry_with_an_odd_name_is_copied_and_stops_no_other(
    kind: str, make: Any, command: Command, tmp_path: Path
) -> None:
    there, here, back = make(kind), make("local"), make("local")
    for name in ODD:
        here.put(f"d/{name}/{name}", b"1")
    here.put("d/zz", b"1")
    here.local.joinpath("d", os.fsdecode(b"caf\xe9")).write_bytes(b"1")

    up = command("cp", here.address("d"), there.address(""))
    down = command("cp", there.address("d"), back.address(""))

    refused = {name for name in ODD if any(sign < " " for sign in name)} if kind == "folder" else set()
    assert up.code == (FAILED if kind == "folder" else 0), up.err
    assert down.code == 0, down.err
    assert {path.name for path in (back.local / "d").iterdir()} == (
        {*ODD, "zz"} - refused | ({os.fsdecode(b"caf\xe9")} if kind == "session" else set())
    )
    if kind == "folder":
        assert up.err.count("left out: ") == len(refused) + 1
        for name in refused:  # a session made them
            (there.local / "d" / name).mkdir()
            (there.local / "d" / name / name).write_bytes(b"2")
        (there.local / "d" / os.fsdecode(b"caf\xe9")).write_bytes(b"2")
        again = command("cp", there.address("d"), back.address(""))
        assert (again.code, again.err.count("left out: ")) == (FAILED, 1)
        for name in refused:
            assert (back.local / "d" / name / name).read_bytes() == b"2"
            assert command("folder", "cat", there.name, f"d/{name}/{name}").out == "2"
            assert command("folder", "rm", there.name, f"d/{name}", "--yes").code == 0
    else:
        for name in ODD:
            assert b"".join(there.files.read(f"d/{name}/{name}")) == b"1"
            assert there.files.stat(f"d/{name}").is_directory
            there.files.write(f"d/{name}/{name}", b"2")


def test_what_cannot_be_read_here_is_told_and_stops_no_other(
    make: Any, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make("local")
    here.put("d/a", b"1")
    here.put("d/gone", b"1")
    here.put("d/z", b"1")
    whole_open = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "gone":
            raise PermissionError(13, "Permission denied", str(path))
        return whole_open(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    for kind in ("folder", "session"):
        there = make(kind)
        done = command("cp", here.address("d"), there.address(""))
        assert (done.code, "gone: it cannot be read: Permission denied" in done.err) == (FAILED, True)
        assert there.tree() == {"d", "d/a", "d/z"}
