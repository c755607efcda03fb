"""Requests to Docker as data, and decoding of its answers."""

import base64
import io
import json
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import IPv4Network
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.accelerators.description import no_accelerators
from agents.accelerators.grant import BoundPath, DeviceGrant, DeviceNode, DriverRequest
from agents.runtime.docker import encoding
from agents.runtime.docker.connection import fault_of_answer
from agents.runtime.docker.sync_runtime import DockerRuntime
from agents.runtime.port import (
    ContainerGone,
    ContainerSpec,
    ContainerStatus,
    DeviceUnavailable,
    HelperSpec,
    ImageMissing,
    MountSpec,
    NetworkMissing,
    NetworkSpec,
    OutOfCapacity,
    RegistryCredentials,
    RuntimeRefused,
    RuntimeUnavailable,
)
from agents.runtime.profiles.seccomp import profile_text


def spec(**changes: object) -> ContainerSpec:
    told = {"name": "berth-1", "image": "berth/python:1", "labels": {"a": "b"}, "cpu_milli": 1500}
    return ContainerSpec(**(told | {"mem_bytes": 2**30} | changes))  # type: ignore[arg-type]


def host_config(**changes: object) -> encoding.Json:
    config: encoding.Json = encoding.container_config(spec(**changes))["HostConfig"]
    return config


def test_container_has_no_capability_no_new_privilege_and_no_swap() -> None:
    host = host_config()

    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] == []
    assert host["SecurityOpt"] == ["no-new-privileges:true", f"seccomp={profile_text()}"]
    assert host["Memory"] == host["MemorySwap"] == 2**30
    assert "Privileged" not in host
    assert "PortBindings" not in host


def test_helper_has_what_its_spec_names_and_nothing_more() -> None:
    plain = HelperSpec(name="berth-look", image="berth/tools:1", labels={"a": "b"}, command=("look",))
    host = encoding.helper_config(plain)["HostConfig"]
    assert (host["NetworkMode"], host["PidMode"], host["CgroupnsMode"]) == ("none", "", "private")
    assert (host["Privileged"], host["CapDrop"], host["CapAdd"], host["Mounts"]) == (False, ["ALL"], [], [])
    assert host["RestartPolicy"] == {"Name": "no"}
    assert {"Devices", "DeviceRequests", "Runtime", "GroupAdd"}.isdisjoint(host)
    assert "HABANA_VISIBLE_DEVICES=none" in encoding.helper_config(plain)["Env"]

    grant = DeviceGrant(
        nodes=(DeviceNode("/dev/rbln3", "/dev/rbln0"),),
        requests=(DriverRequest("nvidia", ("GPU-1",), ("gpu", "utility")),),
        runtime="habana",
        environment={"HABANA_VISIBLE_DEVICES": "all"},
        groups=(44,),
        binds=(BoundPath("/opt/groq"),),
        locks_memory=True,
    )
    config = encoding.helper_config(replace(plain, grant=grant, sees_processes=True, is_restarted=True))
    host = config["HostConfig"]
    assert host["Devices"] == [
        {"PathOnHost": "/dev/rbln3", "PathInContainer": "/dev/rbln0", "CgroupPermissions": "rw"}
    ]
    assert host["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["GPU-1"], "Capabilities": [["gpu", "utility"]]}
    ]
    assert (host["Runtime"], host["GroupAdd"], host["PidMode"]) == ("habana", ["44"], "host")
    assert [(mount["Source"], mount["Target"], mount["ReadOnly"]) for mount in host["Mounts"]] == [
        ("/opt/groq", "/opt/groq", True)
    ]
    assert {"Name": "memlock", "Soft": -1, "Hard": -1} in host["Ulimits"]
    assert host["RestartPolicy"] == {"Name": "unless-stopped"}
    assert "HABANA_VISIBLE_DEVICES=all" in config["Env"]


def test_engine_tells_its_cdi_devices_from_others() -> None:
    told = [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}, {"Source": "other", "ID": "x"}]
    assert encoding.cdi_devices({"DiscoveredDevices": told}) == ("nvidia.com/gpu=0",)
    assert encoding.cdi_devices({}) == ()


def test_limits_of_the_container_are_those_of_the_spec() -> None:
    host = host_config(pids_limit=100, shm_bytes=2**26, nofile=1024, log_bytes=2**20)

    assert host["CpuQuota"] / host["CpuPeriod"] == 1.5
    assert host["PidsLimit"] == 100
    assert host["ShmSize"] == 2**26
    assert {"Name": "nofile", "Soft": 1024, "Hard": 1024} in host["Ulimits"]
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": str(2**17), "max-file": "8"}}


def test_container_runs_on_its_cores_and_writes_to_its_root_only_if_it_may() -> None:
    host = host_config(cpuset="0-2,5", is_readonly=True)
    assert (host["CpusetCpus"], host["ReadonlyRootfs"]) == ("0-2,5", True)
    assert (host_config()["CpusetCpus"], host_config()["ReadonlyRootfs"]) == ("", False)


def test_grant_reaches_the_container_whatever_its_environment_says() -> None:
    grant = DeviceGrant(
        nodes=(DeviceNode("/dev/rbln3", "/dev/rbln0"), DeviceNode("/dev/rsd0")),
        requests=(
            DriverRequest("cdi", ("nvidia.com/gpu=GPU-1",)),
            DriverRequest("nvidia", ("GPU-2",), ("gpu", "compute")),
        ),
        runtime="habana",
        environment={"HABANA_VISIBLE_DEVICES": "2,3"},
        groups=(44, 109),
        binds=(BoundPath("/usr/bin/rbln-smi"),),
        capabilities=("SYS_NICE",),
        syscalls=("io_uring_setup",),
        locks_memory=True,
        shm_bytes=2**30,
    )
    asked = {"HABANA_VISIBLE_DEVICES": "all", "AMD_VISIBLE_DEVICES": "all"}
    config = encoding.container_config(spec(grant=grant, environment=asked))
    environment = dict(each.split("=", 1) for each in config["Env"])
    assert environment == {**no_accelerators(), "HABANA_VISIBLE_DEVICES": "2,3"}

    host = config["HostConfig"]
    assert host["Devices"] == [
        {"PathOnHost": "/dev/rbln3", "PathInContainer": "/dev/rbln0", "CgroupPermissions": "rw"},
        {"PathOnHost": "/dev/rsd0", "PathInContainer": "/dev/rsd0", "CgroupPermissions": "rw"},
    ]
    assert host["DeviceRequests"] == [
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1"]},
        {"Driver": "nvidia", "DeviceIDs": ["GPU-2"], "Capabilities": [["gpu", "compute"]]},
    ]
    assert (host["Runtime"], host["GroupAdd"], host["CapAdd"]) == ("habana", ["44", "109"], ["SYS_NICE"])
    assert host["Mounts"] == [
        {
            "Type": "bind",
            "Target": "/usr/bin/rbln-smi",
            "ReadOnly": True,
            "Source": "/usr/bin/rbln-smi",
            "BindOptions": {"Propagation": "rprivate"},
        }
    ]
    assert host["ShmSize"] == 2**30
    assert {"Name": "memlock", "Soft": -1, "Hard": -1} in host["Ulimits"]
    assert host["SecurityOpt"][1] == f"seccomp={profile_text(('io_uring_setup',))}"

    without = host_config()
    assert {"Devices", "DeviceRequests", "GroupAdd", "Runtime"}.isdisjoint(without)
    assert "memlock" not in {each["Name"] for each in without["Ulimits"]}


def test_call_that_a_driver_needs_is_allowed_and_no_other() -> None:
    usual, more = (json.loads(profile_text(calls))["syscalls"] for calls in ((), ("io_uring_setup",)))
    assert set(more[0]["names"]) - set(usual[0]["names"]) == {"io_uring_setup"}
    assert set(usual[-1]["names"]) - set(more[-1]["names"]) == {"io_uring_setup"}
    assert more[1:-1] == usual[1:-1]


def test_container_runs_in_the_runtime_of_its_sandbox_and_in_no_second_one() -> None:
    assert host_config(runtime="runsc")["Runtime"] == "runsc"
    assert "Runtime" not in host_config()
    with pytest.raises(ValueError, match="one runtime, not runsc and habana"):
        spec(runtime="runsc", grant=DeviceGrant(runtime="habana"))


def test_credentials_go_in_a_header_of_their_own() -> None:
    assert encoding.registry_headers(None) == {}
    headers = encoding.registry_headers(RegistryCredentials("reader", "secret"))
    told = json.loads(base64.urlsafe_b64decode(headers["X-Registry-Auth"]))
    assert told == {"username": "reader", "password": "secret"}


def test_kill_for_memory_is_read_with_its_instant() -> None:
    event = {
        "Action": "oom",
        "timeNano": 1_795_304_861_500_000_000,
        "Actor": {"Attributes": {"name": "berth-1"}},
    }
    kill = encoding.memory_kill_of(event)
    assert (kill.container, kill.at) == ("berth-1", datetime(2026, 11, 21, 23, 47, 41, 500_000, tzinfo=UTC))


def test_container_without_a_network_has_none() -> None:
    assert host_config()["NetworkMode"] == "none"
    assert "NetworkingConfig" not in encoding.container_config(spec())


def test_container_is_known_in_its_network_by_its_aliases() -> None:
    config = encoding.container_config(spec(network="berth-n", aliases=("main1",)))

    assert config["HostConfig"]["NetworkMode"] == "berth-n"
    assert config["NetworkingConfig"] == {"EndpointsConfig": {"berth-n": {"Aliases": ["main1"]}}}


def test_what_is_not_asked_for_is_left_to_the_image() -> None:
    assert {"Entrypoint", "User", "WorkingDir", "Hostname"}.isdisjoint(encoding.container_config(spec()))
    assert encoding.container_config(spec(command=("sleep", "infinity")))["Entrypoint"] == [
        "sleep",
        "infinity",
    ]


def test_mounts_say_what_they_are() -> None:
    host = host_config(
        mounts=(
            MountSpec("volume", "/home/work", "home"),
            MountSpec("bind", "/home/work/data", "/srv/data", is_readonly=True),
            MountSpec("tmpfs", "/tmp", size_bytes=2**20),
        )
    )

    assert host["Mounts"] == [
        {"Type": "volume", "Target": "/home/work", "ReadOnly": False, "Source": "home"},
        {
            "Type": "bind",
            "Target": "/home/work/data",
            "ReadOnly": True,
            "Source": "/srv/data",
            "BindOptions": {"Propagation": "rprivate"},
        },
    ]
    assert host["Tmpfs"] == {"/tmp": "rw,nosuid,nodev,exec,mode=1777,size=1048576"}


def test_network_has_a_subnet_and_an_interface_name_of_its_own() -> None:
    first, second = (
        encoding.network_config(NetworkSpec(name, {}), IPv4Network("10.213.0.16/28")) for name in ("a", "b")
    )

    assert first["EnableIPv6"] is False
    assert first["IPAM"]["Config"] == [{"Subnet": "10.213.0.16/28"}]
    names = {config["Options"]["com.docker.network.bridge.name"] for config in (first, second)}
    assert len(names) == 2
    assert all(len(name) <= 15 for name in names)


def test_archive_of_an_owner_has_the_top_of_the_volume_and_nothing_else() -> None:
    archive = encoding.owner_archive(MountSpec("volume", "/home/work", "home", owner=(1000, 100)))
    with tarfile.open(fileobj=io.BytesIO(archive)) as unpacked:
        [top] = unpacked.getmembers()
    assert (top.name, top.isdir(), top.uid, top.gid, top.mode) == ("../work", True, 1000, 100, 0o755)


@given(st.sets(st.integers(0, 255), max_size=200), st.integers(24, 30))
def test_free_subnets_overlap_nothing_that_is_taken(taken_hosts: set[int], prefix: int) -> None:
    taken = [f"10.9.0.{host}/32" for host in taken_hosts] + ["fd00::/64", "nonsense", "192.168.0.0/16"]
    free = list(encoding.free_subnets("10.9.0.0/24", prefix, taken))

    hosts_of_free = {int(address) & 255 for subnet in free for address in subnet}
    assert hosts_of_free.isdisjoint(taken_hosts)
    assert len(free) == len(set(free))
    size = 2 ** (32 - prefix)
    blocks = {host // size for host in range(256)} - {host // size for host in taken_hosts}
    assert len(free) == len(blocks)


def test_subnet_that_was_given_back_is_not_the_next_one_given() -> None:
    firsts = {
        next(encoding.free_subnets("10.9.0.0/16", 28, [], seed=f"berth-{number}")) for number in range(8)
    }
    assert len(firsts) > 1


def test_network_that_holds_the_whole_pool_leaves_nothing() -> None:
    assert list(encoding.free_subnets("10.9.0.0/24", 28, ["10.0.0.0/8"])) == []


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40))), st.data())
def test_frames_are_undone_however_they_are_cut(frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(bytes([kind, 0, 0, 0]) + len(body).to_bytes(4, "big") + body for kind, body in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = encoding.ChannelSplitter()

    ends = [0, *cuts, len(stream)]
    pieces = [stream[begin:end] for begin, end in pairwise(ends)]
    parts = [part for piece in pieces for part in splitter.feed(piece)]
    for channel in (1, 2):
        texts = [b"".join(text for kind, text in found if kind == channel) for found in (parts, frames)]
        assert texts[0] == texts[1]


def test_pull_progress_sums_layers_and_never_goes_back() -> None:
    tracker = encoding.PullTracker()
    seen = [
        tracker.feed(line)
        for line in (
            {"status": "Pulling from berth/python", "id": "1"},
            {"status": "Already exists", "id": "a"},
            {"status": "Pulling fs layer", "id": "b", "progressDetail": {}},
            {"status": "Downloading", "id": "b", "progressDetail": {"current": 40, "total": 100}},
            {"status": "Downloading", "id": "b", "progressDetail": {"current": 30, "total": 100}},
            {"status": "Download complete", "id": "b", "progressDetail": {}},
            {"status": "Extracting", "id": "b", "progressDetail": {"current": 1, "total": 100}},
            {"status": "Pull complete", "id": "b", "progressDetail": {}},
        )
    ]

    done = [progress.done_bytes for progress in seen]
    assert done == sorted(done)
    assert done[3:6] == [40, 40, 100]
    assert (seen[-1].layers_done, seen[-1].layers_total, seen[-1].total_bytes) == (2, 2, 100)


def test_instants_of_the_engine_are_read_and_its_zero_is_none() -> None:
    assert encoding.parse_instant("0001-01-01T00:00:00Z") is None
    assert encoding.parse_instant("") is None
    assert encoding.parse_instant("2026-11-21T03:06:45.626367123Z") == datetime(
        2026, 11, 21, 3, 6, 45, 626367, tzinfo=UTC
    )
    assert encoding.parse_instant("2026-11-21T04:06:45+01:00") == datetime(2026, 11, 21, 3, 6, 45, tzinfo=UTC)


def test_exit_code_is_unknown_until_the_container_has_ended() -> None:
    row = {
        "Id": "1" * 64,
        "Names": ["/berth-1"],
        "State": "running",
        "Status": "Up 3 seconds",
        "Labels": None,
    }
    assert encoding.state_of_listing(row).exit_code is None
    over = encoding.state_of_listing(row | {"State": "exited", "Status": "Exited (137) 2 minutes ago"})
    assert (over.status, over.exit_code) == (ContainerStatus.EXITED, 137)


@pytest.mark.parametrize(
    ("status", "text", "fault"),
    [
        (404, "No such image: berth/python:1", ImageMissing),
        (404, "No such container: berth-1", ContainerGone),
        (409, "Container 12ab is not running", ContainerGone),
        (500, "write /var/lib/docker/tmp: no space left on device", OutOfCapacity),
        (503, "service unavailable", RuntimeUnavailable),
        (404, "network berth-1 not found", NetworkMissing),
        (404, "failed to set up container networking: network berth-1 not found", NetworkMissing),
        (500, 'error gathering device information while adding custom device "/dev/nope"', DeviceUnavailable),
        (500, 'could not select device driver "" with capabilities: [[gpu]]', DeviceUnavailable),
        (500, "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=9", DeviceUnavailable),
        (400, "unknown or invalid runtime name: habana", DeviceUnavailable),
        (500, "error setting rlimit type 8: operation not permitted", DeviceUnavailable),
        (500, "OCI runtime create failed", RuntimeRefused),
        (500, 'error mounting "/f" to rootfs at "/home/work/unresolvable CDI devices"', RuntimeRefused),
    ],
)
def test_answers_of_the_engine_become_faults_of_ours(status: int, text: str, fault: type[Exception]) -> None:
    assert type(fault_of_answer(status, text)) is fault


def test_devices_that_an_engine_cannot_give_are_refused_in_words() -> None:
    fault = fault_of_answer(500, "error setting rlimit type 8: operation not permitted")
    assert str(fault).startswith("The engine may not lift the limit of locked memory: ")


def test_engine_on_the_network_needs_certificates() -> None:
    with pytest.raises(RuntimeRefused, match="certificates"):
        DockerRuntime("tcp://127.0.0.1:2375")


def test_network_whose_bridge_is_taken_gets_another_one() -> None:
    subnet = IPv4Network("10.213.0.16/28")
    configs = [encoding.network_config(NetworkSpec("a", {}), subnet, spare=number) for number in range(3)]
    bridges = [config["Options"]["com.docker.network.bridge.name"] for config in configs]
    assert len(set(bridges)) == 3
    assert bridges[0] == encoding.bridge_name("a")
    assert all(name.startswith("bth") and len(name) == 15 for name in bridges)
