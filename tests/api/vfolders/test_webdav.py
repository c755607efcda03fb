"""WebDAV: the promises that no client can show. Real clients are in tests/client/webdav."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.test import Client

from common import clock
from common.actors import Actor
from common.db.streaming import in_own_thread
from common.rest.request_body import RequestBody
from common.token_scopes import TokenScope
from tests.conftest import People
from tests.factories import make_token
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_limits import limit
from tests.webdav import LOCK, Dav
from vfolders.files import operations
from vfolders.files.turns import turn
from vfolders.models import DavLock, DavProperty, FileOperation, VFolder
from vfolders.selectors import mount_source
from vfolders.uploads.receiving import Receiver
from vfolders.webdav import properties

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]

SET_PROPERTY = '<propertyupdate xmlns="DAV:"><set><prop><y xmlns="x">1</y></prop></set></propertyupdate>'


@pytest.fixture
def folder(people: People, tmp_path: Path) -> VFolder:
    make_storage_host(tmp_path)
    return make_folder(people.member, name="data")


@pytest.fixture
def dav(people: People, folder: VFolder) -> Dav:
    return Dav(make_token(people.member, scopes=[TokenScope.FOLDERS.value]))


def text(answer: Any) -> str:
    return b"".join(answer).decode()


def test_the_top_lists_own_folders_and_those_of_projects(people: People, dav: Dav) -> None:
    make_folder(people.project_admin, name="models", project=people.project)

    assert "<D:href>/dav/data/</D:href>" in text(dav("PROPFIND", "", depth="1"))
    group = f"/dav/@{people.project.name}/"
    assert f"<D:href>{group}</D:href>" in text(dav("PROPFIND", "", depth="1"))
    assert f"<D:href>{group}models/</D:href>" in text(dav("PROPFIND", group[5:], depth="1"))
    assert dav("PUT", f"{group[5:]}models/a.txt", b"x").status_code == 201
    for method in ("PUT", "DELETE", "MKCOL", "PROPPATCH", "LOCK"):
        assert dav(method, f"@{people.project.name}/").status_code == 405


def test_only_tokens_with_a_fitting_scope_enter(people: People, folder: VFolder) -> None:
    browser = Client()
    browser.force_login(people.member, backend="accounts.sign_in.auth_backends.SignInBackend")
    refused = browser.generic("PROPFIND", "/dav/")
    assert refused.status_code == 401
    assert refused["WWW-Authenticate"].startswith("Basic ")

    reader = Dav(make_token(people.member, "reader", scopes=["read"]))
    assert reader("PROPFIND", "data/", depth="0").status_code == 207
    assert reader("PUT", "data/a.txt", b"x").status_code == 403
    assert (
        Dav(make_token(people.member, "other", scopes=["sessions"]))("PROPFIND", "", depth="0").status_code
        == 403
    )
    assert Dav(make_token(people.outsider))("PROPFIND", "data/", depth="0").status_code == 404


def test_wrong_tokens_are_throttled_and_a_right_one_is_not(dav: Dav) -> None:
    wrong = Dav("bkxxxxxxxxxxxxxxxx.secret")
    statuses = [wrong("PROPFIND", "", depth="0").status_code for _ in range(62)]
    assert statuses[:60] == [401] * 60
    assert statuses[-1] == 429
    assert dav("PROPFIND", "", depth="0").status_code == 207


def test_any_name_keeps_its_bytes(folder: VFolder, dav: Dav) -> None:
    names = [
        "a b?c#d;e&f.txt",
        "%2e%2e",
        "<x>&amp;.txt",
        "'\"",
        "café",
        "caf\u0065\u0301",
        "日本語",
        "-x",
        "._a",
        "x" * 255,
    ]
    for name in names:
        assert dav("PUT", f"data/{quote(name, safe='')}", name.encode()).status_code in (201, 204)
        answer: Any = dav("GET", f"data/{quote(name, safe='')}")
        assert b"".join(answer) == name.encode()
    listed = text(dav("PROPFIND", "data/", depth="1"))
    for path in Path(mount_source(folder)).iterdir():
        assert f"<D:href>/dav/data/{quote(path.name)}</D:href>" in listed


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "MKCOL", "PROPFIND", "PROPPATCH", "LOCK"])
def test_no_address_leaves_the_folder(folder: VFolder, dav: Dav, tmp_path: Path, method: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (Path(mount_source(folder)) / "link").symlink_to(outside)
    (Path(mount_source(folder)) / "file").symlink_to(outside / "secret")
    for path in (
        "../x",
        "%2e%2e/x",
        "%2e%2e%2fx",
        "link/secret",
        "/etc/passwd",
        "a%00b",
        "./a",
        "a/" * 200,
        "y" * 300,
    ):
        answer = dav(method, f"data/{path}", LOCK if method == "LOCK" else b"", depth="0")
        assert 400 <= answer.status_code < 500, f"{path} {answer.status_code}"
        assert b"<s:message>" in answer.content or b"NUL" in answer.content
    if method in ("GET", "PROPFIND", "PROPPATCH"):
        assert dav(method, "data/file", depth="0").status_code in (404, 409)
    assert (outside / "secret").read_text() == "secret"
    assert list(outside.iterdir()) == [outside / "secret"]


def test_a_quota_in_the_middle_leaves_the_old_file(people: People, folder: VFolder, dav: Dav) -> None:
    assert dav("PUT", "data/a.txt", b"old").status_code == 201
    limit(people.member, max_folder_bytes=1000)

    refused = dav("PUT", "data/a.txt", b"x" * 2000)

    assert refused.status_code == 507
    assert "<s:message>" in text(refused)
    free = '<propfind xmlns="DAV:"><prop><quota-available-bytes/></prop></propfind>'
    assert ">997</D:quota-available-bytes>" in text(dav("PROPFIND", "data/", free, depth="0"))
    assert [path.read_bytes() for path in Path(mount_source(folder)).iterdir()] == [b"old"]


def test_a_lock_binds_others_until_it_ends(people: People, dav: Dav) -> None:
    make_folder(people.project_admin, name="shared", project=people.project)
    place = f"@{people.project.name}/shared/a.txt"
    locked = dav("LOCK", place, LOCK, timeout="Second-60")
    token = locked["Lock-Token"]
    other = Dav(make_token(people.project_admin))

    assert locked.status_code == 201
    assert other("PUT", place, b"x").status_code == 423
    assert other("PUT", place, b"x", **{"if": f"({token})"}).status_code == 423
    assert other("UNLOCK", place, lock_token=token).status_code == 403
    assert dav("PUT", place, b"x").status_code == 423
    assert dav("PUT", place, b"x", **{"if": f"({token})"}).status_code == 204
    DavLock.objects.update(expires_at="2000-01-01T00:00:00Z")
    assert other("PUT", place, b"y").status_code == 204


def test_what_would_be_without_bounds_is_refused(dav: Dav) -> None:
    for headers in ({}, {"depth": "infinity"}):
        refused = dav("PROPFIND", "data/", **headers)
        assert refused.status_code == 403
        assert "propfind-finite-depth" in text(refused)
    assert dav("PROPFIND", "data/", b"<" * 300_000, depth="0").status_code == 413
    assert (
        dav(
            "PROPFIND", "data/", '<!DOCTYPE x><propfind xmlns="DAV:"><allprop/></propfind>', depth="0"
        ).status_code
        == 400
    )


def test_names_that_no_entry_has_cannot_swell_the_answer(folder: VFolder, dav: Dav) -> None:
    for count in range(450):
        (Path(mount_source(folder)) / f"f{count}").touch()
    names = "".join(f'<n:p{count:03} xmlns:n="http://{"a" * 370}"/>' for count in range(200))
    body = '<propfind xmlns="DAV:"><prop>{}</prop></propfind>'

    refused = dav("PROPFIND", "data/", body.format(names), depth="1")

    assert refused.status_code == 507
    assert "450 entries" in text(refused)
    few = text(dav("PROPFIND", "data/", body.format('<x xmlns="y"/>'), depth="1"))
    assert few.count('<D:prop><n:x xmlns:n="y"/></D:prop><D:status>HTTP/1.1 404') == 451


def test_a_long_copy_is_not_made_a_second_time_by_a_worker(
    folder: VFolder, dav: Dav, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(mount_source(folder)) / "a").write_bytes(b"x")
    seen: list[list[UUID]] = []
    run = operations._run

    def run_long(operation: FileOperation, actor: Actor) -> None:
        with monkeypatch.context() as later:
            later.setattr(operations, "_LATE", timedelta(seconds=-60))
            seen.append(operations.late_operations())
        run(operation, actor)

    monkeypatch.setattr(operations, "_run", run_long)

    assert dav("COPY", "data/a", destination="/dav/data/b").status_code == 201
    assert seen == [[]]


def test_copies_of_one_user_leave_turns_to_others(people: People, folder: VFolder, dav: Dav) -> None:
    (Path(mount_source(folder)) / "a").write_bytes(b"x")
    with turn(people.member.pk), turn(people.member.pk):
        busy = dav("COPY", "data/a", destination="/dav/data/b")
        assert (busy.status_code, busy["Retry-After"]) == (503, "10")
        assert dav("MOVE", "data/a", destination="/dav/data/c").status_code == 201
        with turn(people.outsider.pk), turn(people.outsider.pk), turn(people.project_admin.pk) as is_mine:
            assert not is_mine
    assert dav("COPY", "data/c", destination="/dav/data/b").status_code == 201


@pytest.mark.parametrize("what", ["new", "unchanged", "unlocked"])
def test_conditions_and_locks_are_looked_at_again_when_the_body_is_here(
    people: People, folder: VFolder, dav: Dav, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    file = Path(mount_source(folder)) / "a"
    headers = {"if_none_match": "*"} if what == "new" else {}
    if what == "unchanged":
        headers = {"if_match": dav("PUT", "data/a", b"old")["ETag"]}
    receive = Receiver.receive

    def change() -> None:
        if what == "unlocked":
            lock = {"path": "a", "is_exclusive": True, "is_deep": False, "user": people.outsider}
            DavLock.objects.create(folder=folder, expires_at=clock.now() + timedelta(hours=1), **lock)
        else:
            file.write_bytes(b"other")

    async def receive_slowly(self: Receiver, body: RequestBody) -> None:
        await receive(self, body)
        await in_own_thread(change)

    monkeypatch.setattr(Receiver, "receive", receive_slowly)

    assert dav("PUT", "data/a", b"mine", **headers).status_code == (423 if what == "unlocked" else 412)
    assert what == "unlocked" or file.read_bytes() == b"other"


def test_copies_and_moves_keep_to_the_limit_of_properties(
    people: People, folder: VFolder, dav: Dav, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = make_folder(people.member, name="full")
    (Path(mount_source(folder)) / "a").write_bytes(b"x")
    for each, path in ((folder, "a"), (full, "old")):
        DavProperty.objects.create(folder=each, path=path, name="{x}y", xml="<y xmlns='x'/>")
    monkeypatch.setattr(properties, "MAX_PROPERTIES", 1)

    for method in ("COPY", "MOVE"):
        assert dav(method, "data/a", destination="/dav/full/a").status_code == 507
    assert dav("COPY", "data/a", destination="/dav/data/b").status_code == 507
    assert not list(Path(mount_source(full)).iterdir())
    assert dav("MOVE", "data/a", destination="/dav/data/b").status_code == 201
    monkeypatch.setattr(properties, "MAX_MEGABYTES", 0)
    assert dav("PROPPATCH", "data/b", SET_PROPERTY).status_code == 507
    monkeypatch.undo()
    assert dav("COPY", "data/b", destination="/dav/full/old").status_code == 201
    assert dict(DavProperty.objects.values_list("folder__name", "path")) == {"data": "b", "full": "old"}


def test_what_clients_do_not_see_is_not_replaced_unasked(folder: VFolder, dav: Dav) -> None:
    root = Path(mount_source(folder))
    (root / "a").write_bytes(b"x")
    (root / "link").symlink_to("a")

    assert dav("LOCK", "data/link", LOCK, depth="0").status_code == 409
    assert not DavLock.objects.exists()
    for method in ("COPY", "MOVE"):
        assert dav(method, "data/a", destination="/dav/data/link", overwrite="F").status_code == 412
    assert (root / "link").is_symlink()
    assert dav("COPY", "data/a", destination="/dav/data/link").status_code == 201
    assert dav("LOCK", "data/new", LOCK, depth="0").status_code == 201


def test_windows_and_macos_get_what_they_look_for(dav: Dav) -> None:
    options = dav("OPTIONS", "data/")
    assert options["DAV"] == "1, 2"
    assert options["MS-Author-Via"] == "DAV"
    assert "LOCK" in options["Allow"]
    assert dav("PUT", "data/.DS_Store", b"x", x_expected_entity_length="1").status_code == 201
    found = text(dav("PROPFIND", "data/.DS_Store", depth="0"))
    assert "<D:creationdate>" in found
    assert "<D:getlastmodified>" in found
