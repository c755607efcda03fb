"""Commands that storage hosts run, and how their APIs are called, on doubles."""

from pathlib import Path
from uuid import UUID

import pytest

from tests.doubles.storage_apis import APIS, SimulatedCommands, host, serving
from vfolders.storage.backends import api_quota
from vfolders.storage.base import StorageUnavailable
from vfolders.storage.commands import Commands

FOLDER = UUID("6ba7b810-9dad-41d1-80b4-00c04fd430c8")


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (
            "nfs",
            {"options": "suid"},
            "mount -t nfs -o vers=4.2,soft,timeo=100,retrans=3,suid,nosuid,nodev nas.example.org:/export/folders {at}",
        ),
        (
            "smb",
            {"domain": "EXAMPLE"},
            (
                "mount -t cifs -o username=berth,domain=EXAMPLE,uid={uid},gid={gid},file_mode=0644,dir_mode=0755,"
                "vers=3.1.1,seal,mfsymlinks,nosuid,nodev //nas.example.org/folders/berth {at}"
            ),
        ),
        (
            "cephfs",
            {"client": "kernel", "path": "/berth"},
            "mount -t ceph -o name=admin,secretfile={at}.secret,nosuid,nodev 10.0.0.5:6789,10.0.0.6:6789:/berth {at}",
        ),
        (
            "weka",
            {"api": "https://localhost:1"},
            "mount -t wekafs -o nosuid,nodev nas.example.org/default {at}",
        ),
        (
            "hdfs",
            {"api": "https://localhost:1"},
            "hadoop-fuse-dfs -oserver=nas.example.org,port=8020,allow_other,rw,nosuid,nodev {at}",
        ),
    ],
)
def test_a_share_is_mounted_by_a_command_without_secrets(
    kind: str, values: dict[str, str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "behind").mkdir()
    commands = SimulatedCommands(tmp_path / "behind")
    storage = host(kind, tmp_path, commands, **values)
    try:
        storage.attach()
    finally:
        storage.detach()
    owner = storage.owner
    wanted = words.format(at=tmp_path / "mount", uid=owner.uid, gid=owner.gid).split()
    assert commands.done[0] == wanted
    assert "hunter2" not in str(commands.done)
    if kind == "smb":
        assert commands.environments[0] == {"PASSWD": "hunter2"}


def test_project_quotas_are_set_on_the_mount_point_in_kib(tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    commands = SimulatedCommands(tmp_path / "behind")
    storage = host("xfs", tmp_path, commands)
    storage.prepare()
    storage.create_folder(FOLDER, quota_bytes=2**30)
    storage.delete_folder(FOLDER)
    number = str(1000 + FOLDER.int % (2**31 - 1000))
    assert commands.done == [
        ["chattr", "-p", number, "+P", str(tmp_path / "root" / FOLDER.hex)],
        ["setquota", "-P", number, "0", "1048576", "0", "0", "/"],
        ["setquota", "-P", number, "0", "0", "0", "0", "/"],
    ]
    assert list((tmp_path / "root" / ".projects").iterdir()) == []


def test_a_kernel_without_project_quotas_is_named(tmp_path: Path) -> None:
    storage = host("ext4", tmp_path, Commands())
    storage.prepare()
    assert any("prjquota" in line or "not on ext4" in line for line in storage.lacks())


def test_an_api_that_answers_without_end_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "behind").mkdir()
    monkeypatch.setattr(api_quota, "MOST_BYTES", 4)
    with serving(APIS["onefs"](tmp_path / "behind"), tmp_path) as (address, authority):
        storage = host("onefs", tmp_path, Commands(), api=address, authority=authority)
        with pytest.raises(StorageUnavailable, match="more than"):
            storage.read_usage(storage.api(), "x")  # type: ignore[attr-defined]


def test_an_api_whose_certificate_is_not_trusted_gets_no_password(tmp_path: Path) -> None:
    (tmp_path / "behind").mkdir()
    api = APIS["onefs"](tmp_path / "behind")
    with serving(api, tmp_path) as (address, authority):
        trusting = host("onefs", tmp_path, Commands(), api=address, authority=authority)
        assert trusting.read_usage(trusting.api(), "x") is None  # type: ignore[attr-defined]
        doubting = host("onefs", tmp_path, Commands(), api=address)
        with pytest.raises(StorageUnavailable, match="SSLError"):
            doubting.read_usage(doubting.api(), "x")  # type: ignore[attr-defined]
        assert len(api.requests) == 1
    with pytest.raises(StorageUnavailable, match="ConnectionError"):
        trusting.read_usage(trusting.api(), "x")  # type: ignore[attr-defined]
