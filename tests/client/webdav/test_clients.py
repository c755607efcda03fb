"""Programs that people use for WebDAV work against the web process of production."""

import os
import re
import socket
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from accounts.models import KeyPair
from common.token_scopes import TokenScope
from tests.conftest import People
from tests.factories import make_token
from tests.factories_folders import make_folder, make_storage_host
from tests.waiting import wait_until
from vfolders.core.paths import UPLOADS_DIRECTORY
from vfolders.models import VFolder
from vfolders.selectors import mount_source

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.wide]
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
SUITES = ("basic", "copymove", "props", "locks", "http")


@pytest.fixture
def folder(people: People, tmp_path: Path) -> VFolder:
    make_storage_host(tmp_path)
    return make_folder(people.member, name="data")


@pytest.fixture
def token(people: People) -> str:
    token = make_token(people.member)
    KeyPair.objects.filter(user=people.member).update(scopes=[TokenScope.FOLDERS.value])
    return token


@pytest.mark.parametrize("suite", SUITES)
def test_litmus_finds_no_fault(
    folder: VFolder, token: str, portal_url: str, tmp_path: Path, suite: str
) -> None:
    result = subprocess.run(
        ["litmus", "-k", f"{portal_url}/dav/data/", "me", token],
        env={**ENVIRONMENT, "TESTS": suite, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    summary = re.search(r"(\d+) passed, (\d+) failed", result.stdout)
    assert summary is not None, result.stdout
    assert summary[2] == "0", result.stdout
    assert "SKIPPED" not in result.stdout


def run(*command: str, home: Path, given: str = "") -> str:
    """Return what a program says. Raises CalledProcessError with it."""
    environment = {**ENVIRONMENT, "HOME": str(home)}
    done = subprocess.run(
        command,
        env=environment,
        cwd=home,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def make_tree(top: Path) -> None:
    (top / "sub" / "deeper").mkdir(parents=True)
    (top / "a b?.txt").write_text("one")
    (top / "sub" / "\u00e9;#%.bin").write_bytes(b"\0\xff" * 100_000)
    (top / "sub" / "deeper" / "empty").touch()


def content(top: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file() and ".berth-" not in str(path)
    }


def test_rclone_syncs_both_ways(folder: VFolder, token: str, portal_url: str, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    make_tree(source)
    # As the page says.
    run(
        "rclone", "config", "create", "berth", "webdav", f"url={portal_url}/dav/", "vendor=owncloud", "user=me",
        f"pass={token}", home=tmp_path,
    )  # fmt: skip

    run("rclone", "sync", str(source), "berth:data/in", home=tmp_path)
    run("rclone", "sync", "berth:data/in", str(back), home=tmp_path)
    assert content(back) == content(source) == content(Path(mount_source(folder)) / "in")

    os.utime(source / "a b?.txt", (1_000_000_000, 1_000_000_000))
    (source / "sub" / "deeper" / "empty").unlink()
    run("rclone", "sync", str(source), "berth:data/in", home=tmp_path)
    assert (Path(mount_source(folder)) / "in" / "a b?.txt").stat().st_mtime == 1_000_000_000
    run("rclone", "move", "berth:data/in/sub", "berth:data/moved", home=tmp_path)
    assert content(Path(mount_source(folder)) / "moved") == content(source / "sub")
    assert "data/" in run("rclone", "lsf", "berth:", home=tmp_path)


def test_cadaver_moves_locks_and_deletes(
    folder: VFolder, token: str, portal_url: str, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text(f"machine localhost login me password {token}\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / "a.txt").write_text("content")
    said = run(
        "cadaver", f"{portal_url}/dav/data/", home=tmp_path,
        given="mkcol one\nput a.txt one/a.txt\nlock one/a.txt\nunlock one/a.txt\ncopy one two\nmove one/a.txt b.txt\n"
        "propset b.txt color red\npropget b.txt color\nget b.txt back.txt\nls two\nrmcol one\nquit\n",
    )  # fmt: skip
    assert "failed" not in said.lower(), said
    assert "red" in said
    assert (tmp_path / "back.txt").read_text() == "content"
    assert set(content(Path(mount_source(folder)))) == {"b.txt", "two/a.txt"}


def test_davfs_is_a_file_system(folder: VFolder, token: str, portal_url: str, tmp_path: Path) -> None:
    place = tmp_path / "drive"
    place.mkdir()
    secrets, settings = tmp_path / "secrets", tmp_path / "davfs2.conf"
    secrets.write_text(f'{portal_url}/dav/data/ me "{token}"\n')
    secrets.chmod(0o600)
    settings.write_text(f"secrets {secrets}\ndelay_upload 0\nuse_locks 1\n")
    run("mount.davfs", "-o", f"conf={settings}", f"{portal_url}/dav/data/", str(place), home=tmp_path)
    try:
        make_tree(place / "tree")
        (place / "tree" / "a b?.txt").rename(place / "renamed.txt")
        assert (place / "renamed.txt").read_text() == "one"
    finally:
        run("umount", str(place), home=tmp_path)  # waits for uploads
    stored = content(Path(mount_source(folder)))
    assert stored["renamed.txt"] == b"one"
    assert len(stored) == 3


def test_a_portal_killed_during_an_upload_leaves_the_old_file(
    folder: VFolder, token: str, tmp_path: Path
) -> None:
    inside = Path(mount_source(folder))
    (inside / "model").write_bytes(b"old")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.set_inheritable(True)
        database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
        portal = subprocess.Popen(
            [sys.executable, "-m", "portal.processes.web_server", "--host", "127.0.0.1", "--port", str(port),
             "--fd", str(listener.fileno())],
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "DATABASE_URL": database.geturl()},
            pass_fds=[listener.fileno()],
        )  # fmt: skip
    upload = socket.create_connection(("127.0.0.1", port))
    try:
        basic = b64encode(f"me:{token}".encode()).decode()
        head = f"PUT /dav/data/model HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {basic}\r\n"
        upload.sendall(f"{head}Content-Length: {2**30}\r\n\r\n".encode() + b"x" * 2**20)
        aside = inside / UPLOADS_DIRECTORY
        wait_until(
            lambda: any(each.stat().st_size for each in aside.iterdir()) if aside.is_dir() else False,
            deadline_s=60,
        )
    finally:
        portal.kill()
        portal.wait()
        upload.close()

    assert (inside / "model").read_bytes() == b"old"
    assert sorted(each.name for each in inside.iterdir()) == [UPLOADS_DIRECTORY, "model"]
