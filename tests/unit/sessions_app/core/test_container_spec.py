"""Container specifications of a session, as data."""

from uuid import UUID

import pytest

from agents.runtime.docker.encoding import RAISE_OOM_SCORE
from common.values.resources import ResourceSlots
from sessions_app.core.container_spec import (
    KernelPlan,
    MountRequest,
    build_app_argv,
    build_container_spec,
    build_network_spec,
)

SESSION = UUID("11111111-1111-4111-8111-111111111111")
KERNEL = UUID("22222222-2222-4222-8222-222222222222")


def plan(**changes: object) -> KernelPlan:
    values: dict[str, object] = {
        "installation": "abcdefgh",
        "session_id": SESSION,
        "kernel_id": KERNEL,
        "attempt": 1,
        "session_name": "train",
        "project": "vision",
        "kernel_name": "main1",
        "image": "berth/python:1",
        "command": "",
        "slots": ResourceSlots({"cpu": 1500, "mem": 2**30}),
        "shm_bytes": 2**26,
        "uid": 1000,
        "gid": 1000,
        "network_pool": "10.213.0.0/16",
        **changes,
    }
    return KernelPlan(**values)  # type: ignore[arg-type]


def test_names_and_labels_derive_from_ids_alone() -> None:
    spec = build_container_spec(plan())
    assert spec.name == f"berth-{KERNEL.hex}-1"
    assert spec.network == build_network_spec(plan()).name == f"berth-{SESSION.hex}"
    assert spec.labels == {
        "io.berth.installation": "abcdefgh",
        "io.berth.session": str(SESSION),
        "io.berth.kernel": str(KERNEL),
        "io.berth.attempt": "1",
    }


def test_container_gets_what_was_asked_and_no_capability() -> None:
    spec = build_container_spec(plan())
    assert (spec.cpu_milli, spec.mem_bytes, spec.shm_bytes) == (1500, 2**30, 2**26)
    assert spec.user == "1000:1000"
    assert spec.capabilities == ()


def test_home_is_a_scratch_volume_of_the_person_and_folders_lie_in_it() -> None:
    spec = build_container_spec(plan(mounts=[MountRequest("/srv/f1", "/home/work/data", is_readonly=True)]))
    home, folder = spec.mounts
    assert (home.kind, home.target, home.owner) == ("volume", "/home/work", (1000, 1000))
    assert (folder.kind, folder.source, folder.target, folder.is_readonly) == (
        "bind",
        "/srv/f1",
        "/home/work/data",
        True,
    )


def test_command_is_one_argument_of_the_persons_own_shell() -> None:
    command = build_container_spec(plan(command="echo $(id); ls 'a b'")).command
    assert command is not None
    [shell, _, line, name, told] = command
    assert (shell, name, told) == ("sh", "sh", "echo $(id); ls 'a b'")
    assert RAISE_OOM_SCORE + 'exec sh -c "$1"' in line


def test_image_that_bears_it_is_not_written_to_and_has_places_for_scratch() -> None:
    spec = build_container_spec(plan(has_readonly_root=True, cpuset="3"))
    assert (spec.is_readonly, spec.cpuset) == (True, "3")
    _, memory, disk = spec.mounts
    assert (memory.kind, memory.target, memory.size_bytes) == ("tmpfs", "/tmp", 2**29)
    assert (disk.kind, disk.target, disk.source) == ("volume", "/var/tmp", "")
    assert spec.environment["TMPDIR"] == "/var/tmp"

    other = build_container_spec(plan())
    assert not other.is_readonly
    assert len(other.mounts) == 1
    assert "TMPDIR" not in other.environment


def test_person_cannot_replace_variables_of_berth() -> None:
    spec = build_container_spec(plan(environment={"BERTH_SESSION_ID": "forged", "HOME": "/root", "A": "b"}))
    assert spec.environment["BERTH_SESSION_ID"] == str(SESSION)
    assert spec.environment["HOME"] == "/home/work"
    assert spec.environment["A"] == "b"


@pytest.mark.parametrize("word", ["$(touch /tmp/x)", "`id`", "a; rm -rf /", "it's", "a\nb"])
def test_words_of_an_app_command_are_not_read_by_a_shell(word: str) -> None:
    import shlex

    [_, _, line] = build_app_argv(["serve", word], port=80, start_dir="/home/work")
    assert shlex.split(line.removeprefix("exec ").partition(" >/proc/")[0]) == ["serve", word]


def test_token_of_an_app_comes_from_its_environment() -> None:
    [_, _, line] = build_app_argv(
        ["jupyter", "--token={token}", "--port={port}", "--dir={start_dir}"],
        port=8888,
        start_dir="/home/work/data",
    )
    assert '"$BERTH_APP_TOKEN"' in line
    assert "--port=8888 --dir=/home/work/data" in line
