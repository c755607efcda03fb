"""Container specifications of a session, as data."""

from uuid import UUID

import pytest

from agents.runtime.docker.encoding import RAISE_OOM_SCORE
from common.values.resources import ResourceSlots
from sessions_app.core.cluster import ClusterMember
from sessions_app.core.container_spec import (
    ClusterAddresses,
    ClusterPlan,
    KernelPlan,
    MountRequest,
    build_app_argv,
    build_container_spec,
    build_network_spec,
    home_volume_name,
)

SESSION = UUID("11111111-1111-4111-8111-111111111111")
KERNEL = UUID("22222222-2222-4222-8222-222222222222")
POOLED = UUID("33333333-3333-4333-8333-333333333333")


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


MAIN, SUB = (ClusterMember(rank, role, 1) for rank, role in enumerate(("main", "sub")))


def test_containers_of_one_machine_share_a_network_that_is_large_enough() -> None:
    pair = plan(cluster=ClusterPlan([MAIN, SUB], SUB))
    spec = build_container_spec(pair)
    assert (spec.environment["RANK"], spec.environment["WORLD_SIZE"]) == ("1", "2")
    assert "sh /" in " ".join(spec.command)
    assert build_network_spec(pair).prefix == 28
    many = [ClusterMember(rank, "sub", rank) for rank in range(40)]
    assert build_network_spec(plan(cluster=ClusterPlan(many, many[0]))).prefix == 26


def test_pooled_network_has_the_label_of_no_session() -> None:
    network = build_network_spec(plan(pooled_network_id=POOLED))
    assert str(SESSION) not in network.labels.values()
    assert network.name == f"berth-net-{POOLED.hex}"
    assert [home_volume_name(KERNEL, attempt) for attempt in (1, 2)] == [
        f"berth-home-{KERNEL.hex}",
        f"berth-home-{KERNEL.hex}-2",
    ]


def test_container_of_several_machines_has_its_address_and_the_names_of_all() -> None:
    hosts = (("main1", "10.215.7.1"), ("sub1", "10.215.7.2"))
    addresses = ClusterAddresses(subnet="10.215.7.0/24", gateway="10.215.7.254", mtu=1450, hosts=hosts)
    across = plan(cluster=ClusterPlan([MAIN, SUB], MAIN), addresses=addresses)
    spec, network = build_container_spec(across), build_network_spec(across)
    assert (spec.address, spec.hosts) == ("10.215.7.1", hosts)
    assert (network.subnet, network.gateway, network.mtu) == ("10.215.7.0/24", "10.215.7.254", 1450)
