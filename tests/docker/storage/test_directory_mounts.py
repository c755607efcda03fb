"""Mounts of directories in folders on a real engine, while a session swaps them for links."""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from agents.models import Agent
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import RuntimeFault, RuntimeUnavailable
from sessions_app.core.container_spec import build_container_spec, home_volume_name, kernel_labels
from sessions_app.launch import directory_mounts
from sessions_app.launch.directory_mounts import DirectorySwapped, held_directories
from sessions_app.launch.launcher import build_kernel_plan, record_container
from sessions_app.models import Kernel
from tests import engines
from tests.factories_folders import make_folder, make_storage_host
from tests.factories_sessions import Place
from vfolders.selectors import mount_source
from vfolders.storage import trees

pytestmark = [pytest.mark.django_db, pytest.mark.docker, pytest.mark.timeout(180)]


@pytest.fixture
def inside(place: Place, tmp_path: Path) -> Path:
    """Return the directory of the folder that a session wants, beside a link to /etc."""
    make_storage_host(tmp_path)
    folder = Path(mount_source(make_folder(place.owner, name="data")))
    (folder / "deep" / "raw").mkdir(parents=True)
    (folder / "deep" / "raw" / "mine").write_text("x")
    (folder / "deep" / "trap").symlink_to("/etc")
    return folder / "deep" / "raw"


@pytest.fixture
def kernel(
    place: Place, inside: Path, runtime: DockerRuntime, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Kernel]:
    """Return the kernel of a session that is about to start on the real engine."""
    monkeypatch.setattr(directory_mounts, "built_image_ids", lambda: [engines.TINY_IMAGE])
    session = place.place(mounts=[{"folder": "data/deep/raw", "path": "/home/work/in"}])
    Agent.objects.filter(pk=place.agent.pk).update(address=engines.ADDRESS)
    kernel = place.fresh(session).kernels.get()
    yield kernel
    for attempt in range(1, kernel.attempt + 1):
        kernel.attempt = attempt
        runtime.remove_container(kernel.container_name)
        directory_mounts.remove_directory_volumes(kernel, runtime)
        runtime.remove_volume(home_volume_name(kernel.pk, attempt))


def entries(kernel: Kernel, runtime: DockerRuntime) -> list[str]:
    """Start the kernel's container as a launch does; return what it finds in the mount."""
    plan = replace(build_kernel_plan(kernel.session, kernel), image=engines.TINY_IMAGE)
    spec = replace(build_container_spec(plan), network="none", aliases=())
    runtime.ensure_volume(home_volume_name(kernel.pk, kernel.attempt), kernel_labels(plan))
    with held_directories(kernel, plan, runtime):
        runtime.ensure_container(spec)
        runtime.start_container(spec.name)
    return runtime.run_process(spec.name, ("ls", "-a", "/home/work/in")).output.decode().split()


def test_session_gets_the_directory_alone_and_writes_there(
    kernel: Kernel, runtime: DockerRuntime, inside: Path
) -> None:
    assert entries(kernel, runtime) == [".", "..", "mine"]
    os.chown(inside, 1000, 1000)
    runtime.run_process(kernel.container_name, ("touch", "/home/work/in/new"), user="1000:1000")
    assert sorted(os.listdir(inside)) == ["mine", "new"]
    assert not [
        each
        for each in runtime.list_containers({"io.berth.role": "directories"})
        if kernel.pk.hex in each.name
    ]


def test_directory_that_became_a_link_or_went_is_refused(
    kernel: Kernel, runtime: DockerRuntime, inside: Path
) -> None:
    inside.rename(inside.with_name("other"))
    for target in ("/etc", "other", ".."):
        inside.symlink_to(target)
        with pytest.raises(DirectorySwapped, match="a link is in its place"):
            entries(kernel, runtime)
        inside.unlink()
    with pytest.raises(DirectorySwapped):
        entries(kernel, runtime)


def test_what_the_engine_mounted_is_looked_at_and_kept(
    kernel: Kernel, runtime: DockerRuntime, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A swap after the portal opened the directory is noticed; one after the look is without effect."""
    real, parent = DockerRuntime.ensure_helper, os.open(inside.parent, os.O_RDONLY)

    def swap_then_mount(*arguments: object) -> object:
        trees.exchange(parent, "raw", parent, "trap")
        return real(*arguments)  # type: ignore[arg-type]

    with ExitStack() as closed:
        closed.callback(os.close, parent)
        monkeypatch.setattr(DockerRuntime, "ensure_helper", swap_then_mount)
        with pytest.raises(DirectorySwapped):
            entries(kernel, runtime)
        monkeypatch.undo()
        trees.exchange(parent, "raw", parent, "trap")
        monkeypatch.setattr(directory_mounts, "built_image_ids", lambda: [engines.TINY_IMAGE])
        start = DockerRuntime.start_container

        def swap_then_start(*arguments: object) -> None:
            trees.exchange(parent, "raw", parent, "trap")
            start(*arguments)  # type: ignore[arg-type]

        kernel.attempt = 2
        monkeypatch.setattr(DockerRuntime, "start_container", swap_then_start)
        assert entries(kernel, runtime) == [".", "..", "mine"]


def test_start_that_ends_after_its_caller_gave_up_gets_the_directory(
    kernel: Kernel, runtime: DockerRuntime, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(DockerRuntime, "start_container", give_up)
        with pytest.raises(RuntimeUnavailable):
            entries(kernel, runtime)
    swap(inside)
    runtime.start_container(kernel.container_name)
    listed = runtime.run_process(kernel.container_name, ("ls", "/home/work/in"))
    assert listed.output.decode().split() == ["mine"]
    swap(inside)
    assert entries(kernel, runtime) == [".", "..", "mine"]  # of the container that runs


@pytest.mark.parametrize("is_answered", [True, False])
def test_container_that_got_something_else_is_removed(
    kernel: Kernel, runtime: DockerRuntime, inside: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """The helper ends before the start, whose answer arrives or is lost."""
    start = DockerRuntime.start_container

    def start_late(*arguments: object) -> None:
        runtime.remove_container(directory_mounts._helper_name(kernel))
        swap(inside)
        start(*arguments)  # type: ignore[arg-type]
        swap(inside)
        if not is_answered:
            give_up()

    with monkeypatch.context() as patched:
        patched.setattr(DockerRuntime, "start_container", start_late)
        with pytest.raises(RuntimeUnavailable):
            entries(kernel, runtime)
    if is_answered:
        assert runtime.inspect_container(kernel.container_name) is None
        assert entries(kernel, runtime) == [".", "..", "mine"]
        return
    with pytest.raises(DirectorySwapped):
        entries(kernel, runtime)
    assert runtime.inspect_container(kernel.container_name) is None


def test_recorded_container_keeps_a_directory_that_was_moved(
    kernel: Kernel, runtime: DockerRuntime, inside: Path
) -> None:
    entries(kernel, runtime)
    record_container(kernel, runtime.inspect_container(kernel.container_name))
    inside.rename(inside.with_name("moved"))
    assert entries(kernel, runtime) == [".", "..", "mine"]


def swap(inside: Path) -> None:
    """Exchange the directory and the link to /etc."""
    parent = os.open(inside.parent, os.O_RDONLY)
    trees.exchange(parent, "raw", parent, "trap")
    os.close(parent)


def give_up(*_arguments: object) -> None:
    raise RuntimeUnavailable("no answer in time")


def test_session_that_swaps_all_the_time_never_gets_a_file_of_the_machine(
    kernel: Kernel, runtime: DockerRuntime, inside: Path
) -> None:
    is_over, parent = threading.Event(), os.open(inside.parent, os.O_RDONLY)

    def swap() -> None:
        while not is_over.wait(0.0005):
            trees.exchange(parent, "raw", parent, "trap")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for attempt in range(1, 7):
            kernel.attempt = attempt
            try:
                assert entries(kernel, runtime) == [".", "..", "mine"]
            except (DirectorySwapped, RuntimeFault):
                continue
    finally:
        is_over.set()
        swapper.join()
        os.close(parent)
