"""bin/down --purge removes what belongs to the installation and nothing else."""

import asyncio
import contextlib
import io
import json
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient
from docker.types import IPAMConfig, IPAMPool

from portal.ops.engine.install import SYSTEM_SOCKET
from portal.ops.engine.objects import (
    connect,
    is_engine_shared,
    labelled_objects,
    mark_presence,
    purge_machines,
    remove_images,
    remove_objects,
)
from portal.ops.errors import PreflightFailed
from portal.ops.locks import directory_lock
from portal.ops.paths import CHECKOUT, Layout
from portal.ops.setup import purge as purging
from portal.ops.setup.copy_check import check_is_original, check_not_copied
from portal.ops.setup.env_file import new_installation_id, read_env, write_env
from portal.ops.setup.purge import (
    mounts_below,
    purge,
    purge_checkout,
    purge_data,
    remove_tree,
    remove_trees,
    unmount_below,
)
from portal.ops.setup.service_account import server_account
from portal.ops.system import is_root
from portal.ops.up import write_settings
from tests.contract.test_engine_faults import engine_over_tls, make_certificates


def silent(_: str) -> None:
    pass


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    return Layout(checkout=checkout, data=checkout / "var")


def fill(layout: Layout, installation: str = "abcdefgh") -> None:
    layout.data.mkdir()
    write_env(layout.env_file, {"BERTH_INSTALLATION": installation})
    closed = layout.data / "folders" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0o000)


def test_the_data_directory_goes_with_all_in_it(layout: Layout) -> None:
    fill(layout)
    purge_data(layout, silent)
    assert not layout.data.exists()


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A directory of an account that may not pass where modes forbid it, unlike root, as who this process acts meanwhile."""
    with tempfile.TemporaryDirectory(prefix="berth-purge-") as directory:
        if not is_root():
            yield Path(directory)
            return
        account = server_account()
        assert account
        os.chown(directory, account.uid, account.gid)
        os.seteuid(account.uid)
        try:
            yield Path(directory)
        finally:
            os.seteuid(0)


def test_what_a_program_closed_goes_and_what_its_links_point_to_keeps_its_mode(as_nobody: Path) -> None:
    outside, tree = as_nobody / "outside", as_nobody / "tree"
    outside.touch(mode=0o440)
    (tree / "full" / "below").mkdir(parents=True)
    (tree / "full" / "below" / "file").touch()
    (tree / "full" / "link").symlink_to(outside)
    (tree / "full" / "to a directory").symlink_to(as_nobody)
    (tree / "full" / "dangling").symlink_to("nothing")
    for closed, mode in ((tree / "full" / "below", 0o000), (tree / "full", 0o500), (tree, 0o000)):
        closed.chmod(mode)
    said: list[str] = []

    remove_tree(tree, said.append)

    assert said == []
    assert not tree.exists()
    assert stat.S_IMODE(outside.stat().st_mode) == 0o440
    assert stat.S_IMODE(as_nobody.stat().st_mode) == 0o700


def test_links_to_and_in_a_build_go_and_not_what_they_point_to(tmp_path: Path) -> None:
    deep = tmp_path / "outside" / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    build, linked = tmp_path / "build", tmp_path / "linked"
    (build / "one" / "two" / "three" / "four").mkdir(parents=True)
    for link in (linked, build / "one" / "link", build / "one" / "two" / "three" / "link"):
        link.symlink_to(tmp_path / "outside")
    remove_trees([build, linked], silent)
    assert {entry.name for entry in tmp_path.iterdir()} == {"outside"}
    assert (deep / "file").exists()


def test_a_directory_that_was_never_ours_stays(layout: Layout) -> None:
    layout.data.mkdir()
    (layout.data / "thesis.tex").touch()
    purge_data(layout, silent)
    assert (layout.data / "thesis.tex").exists()


def test_quarters_elsewhere_go_too_but_only_if_they_bear_our_name(layout: Layout, tmp_path: Path) -> None:
    fill(layout)
    ours, foreign = tmp_path / "quarters" / "abcdefgh", tmp_path / "foreign"
    for directory in (ours, foreign):
        (directory / "postgres").mkdir(parents=True)
    layout.service_home_link.symlink_to(ours)
    purge_data(layout, silent)
    assert not ours.parent.exists()

    fill(layout)
    layout.service_home_link.symlink_to(foreign)
    purge_data(layout, silent)
    assert (foreign / "postgres").exists()


def run_once(layout: Layout) -> None:
    """As far as its env file is concerned."""
    write_settings(Namespace(host="127.0.0.1", port=8080), layout)


def test_a_copy_is_not_purged_and_does_not_start_beside_its_original(layout: Layout, tmp_path: Path) -> None:
    layout.data.mkdir()
    run_once(layout)
    copy = Layout(checkout=layout.checkout, data=tmp_path / "backup")
    shutil.copytree(layout.data, copy.data)

    with pytest.raises(PreflightFailed, match=f"copied or moved from {layout.data}") as refusal:
        purge(copy, silent)
    assert f"rm -r {copy.data}" in refusal.value.fix
    assert copy.env_file.exists()
    with pytest.raises(PreflightFailed, match=f"a copy of {layout.data}"):
        check_not_copied(copy)
    check_not_copied(layout)
    check_is_original(layout)


def test_data_that_were_moved_are_purged_once_they_ran_at_their_new_place(
    layout: Layout, tmp_path: Path
) -> None:
    layout.data.mkdir()
    run_once(layout)
    name = read_env(layout.env_file)["BERTH_INSTALLATION"]
    moved = Layout(checkout=layout.checkout, data=tmp_path / "elsewhere")
    layout.data.rename(moved.data)
    with pytest.raises(PreflightFailed, match="moved"):
        purge(moved, silent)

    check_not_copied(moved)
    run_once(moved)
    assert read_env(moved.env_file)["BERTH_INSTALLATION"] == name
    purge(moved, silent)
    assert not moved.data.exists()


def test_a_link_to_the_data_is_no_copy(layout: Layout, tmp_path: Path) -> None:
    layout.data.mkdir()
    run_once(layout)
    link = tmp_path / "link"
    link.symlink_to(layout.data)
    check_is_original(Layout(checkout=layout.checkout, data=link))


def test_only_what_bin_up_built_leaves_the_checkout(layout: Layout) -> None:
    source = layout.checkout / "portal" / "settings.py"
    for directory in (
        layout.venv,
        layout.node_modules,
        layout.assets,
        layout.languages,
        layout.static,
        source.parent,
    ):
        directory.mkdir(parents=True)
    source.touch()
    (layout.venv / "berth-requirements").touch()
    (layout.static / ".berth-sources").touch()

    purge_checkout(layout, silent)

    assert {path.name for path in layout.checkout.iterdir()} == {"portal", "node_modules"}
    assert source.exists()


def note_engine(layout: Layout, address: str) -> None:
    write_env(layout.env_file, {**read_env(layout.env_file), "BERTH_ENGINE": address})


def test_data_are_purged_though_their_engine_is_gone(
    layout: Layout, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(layout)
    note_engine(layout, "unix:///nonexistent/docker.sock")
    layout.venv.symlink_to(CHECKOUT / ".venv")

    purge(layout, silent)

    assert "the engine does not answer" in capfd.readouterr().out
    assert not layout.data.exists()
    assert (CHECKOUT / ".venv" / "bin" / "python").exists()


def test_nothing_is_purged_where_the_engine_cannot_be_asked(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without .venv and PyPI: the objects on the engine could not be named any more."""

    def fail(*_: object) -> None:
        raise PreflightFailed("PyPI does not answer.", "Check the network.")

    fill(layout)
    note_engine(layout, "unix:///nonexistent/docker.sock")
    (layout.checkout / "portal" / "ops").mkdir(parents=True)  # holds the lock of a set-up
    monkeypatch.setattr(purging, "ensure_venv", fail)

    with pytest.raises(PreflightFailed, match="PyPI"):
        purge(layout, silent)
    assert layout.env_file.exists()


def test_what_others_run_from_stays_and_it_is_said_who_they_are(layout: Layout) -> None:
    layout.venv.mkdir()
    (layout.venv / "berth-requirements").touch()
    said: list[str] = []
    with directory_lock(layout.checkout, is_shared=True):
        purge(layout, said.append)
    assert layout.venv.exists()
    assert f"process {os.getpid()}" in said[-1]

    purge(layout, silent)
    assert not layout.venv.exists()


def test_tests_hold_the_checkout_that_they_run_from() -> None:
    with directory_lock(CHECKOUT, waits=False) as is_ours_alone:
        assert not is_ours_alone


@pytest.fixture
def engine() -> Iterator[DockerClient]:
    with contextlib.closing(connect(SYSTEM_SOCKET)) as client:
        yield client


@pytest.fixture
def installation(engine: DockerClient) -> Iterator[str]:
    """An installation of this test alone; whatever it leaves is removed."""
    name = new_installation_id()
    yield name
    remove_objects(engine, name, silent)
    remove_images(engine, silent, label=f"io.berth.role={name}")


def make_objects(engine: DockerClient, installation: str) -> None:
    """A network, a volume, an image and a container that was never started."""
    labels = {"io.berth.installation": installation}
    subnet = IPAMPool(subnet=f"10.214.{int(installation.encode().hex(), 16) % 256}.0/28")
    engine.networks.create(f"berth-{installation}", labels=labels, ipam=IPAMConfig(pool_configs=[subnet]))
    engine.volumes.create(f"berth-home-{installation}", labels=labels)
    archive = io.BytesIO()
    tarfile.open(fileobj=archive, mode="w").close()
    engine.api.import_image_from_data(
        archive.getvalue(),
        repository=f"berth/{installation}",
        tag="latest",
        changes=[f"LABEL io.berth.role={installation}"],
    )
    engine.containers.create(
        f"berth/{installation}", ["/nothing"], name=f"berth-{installation}", labels=labels
    )


def objects(engine: DockerClient, installation: str) -> list[int]:
    found = labelled_objects(engine, f"io.berth.installation={installation}")
    images = engine.images.list(filters={"label": f"io.berth.role={installation}"})
    return [len(things) for things in (*found, images)]


@pytest.mark.docker
def test_objects_and_images_of_an_installation_leave_the_engine(
    engine: DockerClient, installation: str
) -> None:
    make_objects(engine, installation)
    assert objects(engine, installation) == [1, 1, 1, 1]

    remove_objects(engine, installation, silent)
    remove_images(engine, silent, label=f"io.berth.role={installation}")

    assert objects(engine, installation) == [0, 0, 0, 0]


@pytest.mark.docker
def test_objects_of_another_installation_stay_and_so_does_an_image_that_they_use(
    engine: DockerClient, installation: str
) -> None:
    make_objects(engine, installation)

    remove_objects(engine, new_installation_id(), silent)
    remove_images(engine, silent, label=f"io.berth.role={installation}")

    assert objects(engine, installation) == [1, 1, 1, 1]


@pytest.mark.docker
def test_an_idle_installation_is_noticed_by_another_one(engine: DockerClient, installation: str) -> None:
    mark_presence(engine, installation)
    mark_presence(engine, installation)
    assert is_engine_shared(engine, new_installation_id())

    remove_objects(engine, installation, silent)
    assert engine.volumes.list(filters={"label": f"io.berth.portal={installation}"}) == []


@pytest.mark.docker
async def test_helpers_leave_remote_machines_and_it_is_said_which_did_not_answer(
    engine: DockerClient, installation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "NO_PROXY", "no_proxy", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # and set back afterwards
    make_objects(engine, installation)
    keys = make_certificates(tmp_path)
    for name, made in (("ca", "ours.pem"), ("cert", "portal.pem"), ("key", "portal.key")):
        (keys / f"{name}.pem").symlink_to(keys / made)
    said: list[str] = []
    async with engine_over_tls(keys) as address:
        machines = {
            "gpu-01": {"address": address, "directory": str(keys)},
            "gpu-02": {"address": "tcp://127.0.0.1:9", "directory": str(keys)},
        }
        (tmp_path / "machines.json").write_text(json.dumps(machines))
        await asyncio.to_thread(purge_machines, tmp_path / "machines.json", installation, said.append)
    assert objects(engine, installation)[:3] == [0, 0, 0], said
    assert said[0] == "gpu-01: removed 1 containers, 1 networks and 1 volumes"
    assert said[1].startswith("gpu-02 (tcp://127.0.0.1:9) could not be cleaned")


def test_what_is_mounted_in_the_data_is_unmounted_and_stays_on_its_server(tmp_path: Path) -> None:
    server, data = tmp_path / "server", tmp_path / "data"
    (server / "folder").mkdir(parents=True)
    (server / "folder" / "file").write_text("kept")
    point = data / "mounts" / "a mount"
    point.mkdir(parents=True)
    subprocess.run(["mount", "--bind", server, point], check=True)
    try:
        assert mounts_below(data) == [str(point)]
        unmount_below(data, silent)
    finally:
        subprocess.run(["umount", "-q", "--lazy", point], check=False)
    remove_tree(data, silent)

    assert not data.exists()
    assert (server / "folder" / "file").read_text() == "kept"
