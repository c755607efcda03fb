"""Paths and entries that want to lead out of a folder, and hosts that fail, by every way in: REST, pages, WebDAV.

What the storage does with each is in tests/contract/test_storage_files.py; here the edges are asked once.
"""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import unquote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from tests.conftest import People
from tests.factories import actor_for, api_client, make_token
from tests.factories_folders import make_folder, make_storage_host
from tests.webdav import LOCK, Dav
from vfolders import services
from vfolders.core.paths import MAX_DEPTH
from vfolders.models import StorageHost, VFolder
from vfolders.selectors import mount_source
from vfolders.storage.backends.local import LocalStorage
from vfolders.storage.host_calls import HostCalls

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]
SECRET = b"secret of the machine"
# As in a URL; forms and JSON have it decoded once.
WRONG = (
    "../secret", "a/../../secret", "%2e%2e/secret", "%2e%2e%2fsecret", "..", ".", "./a", "/etc/passwd", "%2fetc/passwd", "a//b",
    "a%00b", "n" * 300, "/".join(["d"] * (MAX_DEPTH + 1)), ".berth-trash/x", ".berth-uploads/x", "",
)  # fmt: skip
DOUBLY_ENCODED = ("%252e%252e/secret", "%252fetc%252fpasswd", "%25252e%25252e/secret")
NODES = ("link", "directory/secret", "absolute", "pipe", "socket", "device", "loop", "dangling")
Ask = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Ways:
    """Requests about a path, by name: those that read, and those that write."""

    reading: dict[str, Ask]
    writing: dict[str, Ask]


@pytest.fixture
def host(tmp_path: Path) -> StorageHost:
    return make_storage_host(tmp_path)


@pytest.fixture
def folder(people: People, host: StorageHost) -> VFolder:
    return make_folder(people.member, name="data")


@pytest.fixture
def inside(folder: VFolder) -> Path:
    return Path(mount_source(folder))


@pytest.fixture
def outside(tmp_path: Path, inside: Path) -> Path:
    """A directory beside the folders, to which links in the folder point."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_bytes(SECRET)
    (inside / "link").symlink_to("../../outside/secret")
    (inside / "directory").symlink_to(place)
    (inside / "absolute").symlink_to("/etc/shadow")
    (inside / "loop").symlink_to("loop")
    (inside / "dangling").symlink_to(place / "new")
    os.mkfifo(inside / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        where = os.getcwd()
        os.chdir(inside)  # the whole path may be too long for a socket
        listener.bind("socket")
        os.chdir(where)
    if os.geteuid() == 0:
        os.mknod(inside / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    return place


@pytest.fixture
def ways(people: People, folder: VFolder) -> Ways:
    rest, dav, page = api_client(people.member), Dav(make_token(people.member, "dav")), Client()
    page.force_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    api = f"/api/v1/folders/{folder.pk}"

    def url(name: str) -> str:
        return reverse(name, args=[folder.pk])

    def put(path: str) -> Any:
        return rest.put(f"{api}/files/{path}", b"x", content_type="application/octet-stream")

    def upload(path: str) -> Any:
        chosen = {"chosen": SimpleUploadedFile("x", b"x")}
        return page.post(url("folder-upload"), chosen, query_params={"path": unquote(path) or "."})

    def operate(kind: str, paths: list[str], **more: str) -> Any:
        return rest.post(
            f"{api}/operations/", {"kind": kind, "paths": paths, "taken": "replace", **more}, format="json"
        )

    return Ways(
        reading={
            "rest file": lambda path: rest.get(f"{api}/files/{path}") if path else put(path),
            "rest entries": lambda path: rest.get(f"{api}/entries/", {"path": unquote(path) or "."}),
            "rest text": lambda path: rest.get(f"{api}/text/", {"path": unquote(path)}),
            "rest search": lambda path: rest.get(f"{api}/search/", {"path": unquote(path) or ".", "q": "s"}),
            "page": lambda path: page.get(url("folder"), {"path": unquote(path) or "."}),
            "page download": lambda path: page.get(url("folder-download"), {"path": unquote(path)}),
            "dav file": lambda path: dav("GET", f"data/{path or '/'}"),
            "dav list": lambda path: dav("PROPFIND", f"data/{path or '/'}", depth="1"),
        },
        writing={
            "rest put": put,
            "rest directory": lambda path: rest.post(f"{api}/directories/", {"path": unquote(path)}),
            "rest delete": lambda path: rest.delete(f"{api}/files/{path}"),
            "rest move": lambda path: operate("move", [unquote(path)], to="", name="moved"),
            "rest copy": lambda path: operate("copy", [unquote(path)], to="", name="copied"),
            "rest into": lambda path: operate("copy", ["ordinary"], to=unquote(path) or "."),
            "rest unpack": lambda path: operate("unpack", [unquote(path)]),
            "page upload": upload,
            "page directory": lambda path: page.post(
                url("folder-make-directory"), {"name": "x"}, query_params={"path": unquote(path) or "."}
            ),
            "dav put": lambda path: dav("PUT", f"data/{path or '/'}", b"x"),
            "dav directory": lambda path: dav("MKCOL", f"data/{path or '/'}"),
            "dav delete": lambda path: dav("DELETE", f"data/{path or '/'}"),
            "dav move": lambda path: dav("MOVE", f"data/{path or '/'}", destination="/dav/data/moved"),
            "dav to": lambda path: dav("COPY", "data/ordinary", destination=f"/dav/data/{path or '/'}"),
            "dav lock": lambda path: dav("LOCK", f"data/{path or '/'}", LOCK, depth="0"),
            "dav property": lambda path: dav("PROPPATCH", f"data/{path or '/'}", b""),
        },
    )


def body(answer: Any) -> bytes:
    return b"".join(answer) if answer.streaming else bytes(answer.content)


def test_a_wrong_path_is_refused_everywhere(
    ways: Ways, inside: Path, outside: Path, subtests: pytest.Subtests
) -> None:
    (inside / "ordinary").write_bytes(b"x")
    before = sorted(os.listdir(inside))
    for name, ask in (ways.reading | ways.writing).items():
        with subtests.test(name):
            for path in WRONG:
                answer = ask(path)
                assert 300 < answer.status_code < 500, f"{path[:40]!r}: {answer.status_code}"
                assert SECRET not in body(answer)
        assert sorted(os.listdir(inside)) == before, name
    assert os.listdir(outside) == ["secret"]


@pytest.mark.wide
def test_what_is_encoded_twice_is_a_name(
    ways: Ways, inside: Path, outside: Path, subtests: pytest.Subtests
) -> None:
    (inside / "ordinary").write_bytes(b"x")
    for name, ask in (ways.reading | ways.writing).items():
        with subtests.test(name):
            for path in DOUBLY_ENCODED:
                answer = ask(path)
                assert answer.status_code < 500, path
                assert SECRET not in body(answer)
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == SECRET
    assert (inside / "%2e%2e" / "secret").is_file() or (inside / "%2fetc%2fpasswd").exists()


def test_links_pipes_sockets_and_devices_are_never_read(
    ways: Ways, inside: Path, outside: Path, subtests: pytest.Subtests
) -> None:
    for name, ask in ways.reading.items():
        with subtests.test(name):
            for path in filter(lambda path: os.path.lexists(inside / path), NODES):
                answer = ask(path)
                assert 400 <= answer.status_code < 500, f"{path}: {answer.status_code}"
                assert SECRET not in body(answer)


@pytest.mark.wide
def test_writing_to_links_pipes_sockets_and_devices_changes_nothing_outside(
    ways: Ways, inside: Path, outside: Path, subtests: pytest.Subtests
) -> None:
    (inside / "ordinary").write_bytes(b"x")
    for name, ask in ways.writing.items():
        with subtests.test(name):
            for path in NODES:
                assert ask(path).status_code < 500, path
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == SECRET


def answers_of_failing(ways: Ways) -> Iterator[tuple[str, Any]]:
    for name in ("rest file", "rest entries", "page", "page download", "dav file", "dav list"):
        yield name, ways.reading[name]("ordinary")
    for name in ("rest put", "rest directory", "rest delete", "page directory", "dav put", "dav delete"):
        yield name, ways.writing[name]("ordinary")


def test_a_vanished_host_is_named_as_such(ways: Ways, inside: Path, subtests: pytest.Subtests) -> None:
    (inside / "ordinary").write_bytes(b"x")
    root = inside.parent
    root.rename(root.with_name("elsewhere"))
    for name, answer in answers_of_failing(ways):
        with subtests.test(name):
            assert answer.status_code in (503, 302), answer.status_code
            assert answer.status_code == 302 or b"storage host" in body(answer)
    assert not root.exists()


def test_a_stalled_host_is_given_up_and_the_others_go_on(
    ways: Ways,
    people: People,
    inside: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    other = StorageHost.objects.create(name="other", config={"root": str(tmp_path / "other")})
    (tmp_path / "other").mkdir()
    healthy = services.create_folder(actor=actor_for(people.member), name="healthy", host=other.name)
    stalls, opened, run, arun = Event(), LocalStorage._open_folder, HostCalls.run, HostCalls.arun

    def stalled(storage: LocalStorage, folder_id: Any) -> Any:
        if folder_id != healthy.pk:
            stalls.wait(30)
        return opened(storage, folder_id)

    monkeypatch.setattr(LocalStorage, "_open_folder", stalled)
    monkeypatch.setattr(HostCalls, "run", lambda calls, call, timeout_s=0.0: run(calls, call, timeout_s=0.1))
    monkeypatch.setattr(
        HostCalls, "arun", lambda calls, call, timeout_s=0.0: arun(calls, call, timeout_s=0.1)
    )
    try:
        for name, answer in answers_of_failing(ways):
            with subtests.test(name):
                assert answer.status_code in (503, 302), answer.status_code
                assert answer.status_code == 302 or b"does not answer" in body(answer)
        dav = Dav(make_token(people.member, "other"))
        assert dav("PROPFIND", "healthy/", depth="1").status_code == 207
    finally:
        stalls.set()
