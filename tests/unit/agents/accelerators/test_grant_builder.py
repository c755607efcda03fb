"""Grants of each vendor as data, and what no report of a machine can widen."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agents.accelerators.base import AcceleratorDevice
from agents.accelerators.description import no_accelerators, parse_description, shipped_vendors, vendor_named
from agents.accelerators.grant import DeviceGrant, DeviceNode, DriverRequest
from agents.accelerators.grant_builder import (
    GrantedDevice,
    MachineFacts,
    NoGrant,
    allowed_counts,
    build_grant,
    devices_named_in,
)
from agents.runtime.docker.encoding import container_config
from agents.runtime.port import ContainerSpec

G = 2**30
RDMA = {"/dev/infiniband/uverbs0": 0, "/dev/infiniband/rdma_cm": 0, "/dev/gdrdrv": 0, "/dev/nvidia-fs0": 0}


def device(index: int, vendor: str = "nvidia", **facts: str | int) -> GrantedDevice:
    return GrantedDevice(
        AcceleratorDevice(
            vendor=vendor, slot_name="cuda", device_id=f"GPU-{index}", index=index, model="M", mem_bytes=80 * G, facts=facts
        )
    )  # fmt: skip


def node(path: str, target: str = "") -> dict[str, str]:
    return {"PathOnHost": path, "PathInContainer": target or path, "CgroupPermissions": "rw"}


def hook(driver: str, *ids: str) -> dict[str, Any]:
    return {
        "DeviceRequests": [
            {
                "Driver": driver,
                "DeviceIDs": list(ids),
                "Capabilities": [["gpu", "compute", "utility", "graphics", "video"]],
            }
        ],
        "Env": {
            "NVIDIA_VISIBLE_DEVICES": ",".join(ids),
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility,graphics,video",
        },
    }


CDI = {"cdi_devices": ("nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1", "nvidia.com/gpu=all")}
BY_CDI = {
    "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1"]}]
}
TWO = (device(1), device(0))
AMD = (device(1, "amd", minor=129),)
AMD_NODES = {"/dev/kfd": 109, "/dev/dri/renderD128": 109, "/dev/dri/renderD129": 44}
GAUDI = (device(3, "gaudi", module=0), device(5, "gaudi", module=1))
GAUDI_ENV = {"HABANA_VISIBLE_MODULES": "0,1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
LOCKING = {"CapAdd": ["IPC_LOCK"], "Ulimits": ["memlock"]}
RNGD = ("mgmt", "pe0", "pe0-3", "ch0", "dmar", "bar0")
# Vendor, devices, what the machine has, extras; then all by which the container differs from one without devices.
GRANTS: Mapping[str, tuple[str, Sequence[GrantedDevice], dict[str, Any], tuple[str, ...], dict[str, Any]]] = {
    "nvidia 20.10": ("nvidia", TWO, {"engine_version": "20.10.24"}, (), hook("nvidia", "GPU-0", "GPU-1")),
    "nvidia 25": ("nvidia", TWO[1:], {"engine_version": "25.0.3"}, (), hook("nvidia", "GPU-0")),
    "nvidia 25 with CDI": ("nvidia", TWO, {"engine_version": "25.0.3", **CDI}, (), BY_CDI),
    "nvidia 28.2": ("nvidia", TWO, {"engine_version": "28.2.0", **CDI}, (), BY_CDI),
    "nvidia 29.2": ("nvidia", TWO, {"engine_version": "29.2.0", **CDI}, (), BY_CDI),
    "nvidia 29.2 with a stale list": (
        "nvidia", (device(7),), {"engine_version": "29.2.0", **CDI}, (), hook("nvidia.runtime-hook", "GPU-7"),
    ),
    "nvidia with networks and storage": (
        "nvidia", TWO, {"engine_version": "28.2.0", **CDI, "nodes": RDMA, "paths": ("/run/udev",)}, ("rdma", "storage"),
        BY_CDI
        | {
            "Devices": [
                node("/dev/infiniband/uverbs0"), node("/dev/infiniband/rdma_cm"), node("/dev/gdrdrv"),
                node("/dev/nvidia-fs0"),
            ],
            "Ulimits": ["memlock"],
            "ShmSize": G,
            "Mounts": ["/run/udev"],
        },
    ),
    "nvidia where there are none": (
        "nvidia", TWO, {"engine_version": "28.2.0", **CDI}, ("rdma", "storage"), BY_CDI | {"Ulimits": ["memlock"], "ShmSize": G},
    ),
    "amd": (
        "amd", AMD, {"engine_version": "20.10.24", "nodes": AMD_NODES}, (),
        {"Devices": [node("/dev/kfd"), node("/dev/dri/renderD129")], "GroupAdd": ["44", "109"], "ShmSize": G},
    ),
    "gaudi by its runtime": (
        "gaudi", GAUDI, {"engine_version": "28.2.0", "runtimes": ("runc", "habana")}, (),
        {
            "Runtime": "habana", "Env": {"HABANA_VISIBLE_DEVICES": "3,5", **GAUDI_ENV}, "CapAdd": ["SYS_NICE"],
            "ShmSize": 10 * G,
        },
    ),
    "gaudi by nodes": (
        "gaudi", GAUDI, {"engine_version": "20.10.24"}, (),
        {
            "Devices": [
                node("/dev/accel/accel3"), node("/dev/accel/accel_controlD3"), node("/dev/accel/accel5"),
                node("/dev/accel/accel_controlD5"),
            ],
            "Env": GAUDI_ENV, "CapAdd": ["SYS_NICE"], "ShmSize": 10 * G,
        },
    ),
    "rebellions": (
        "rebellions", (device(3, set=1), device(1, set=1)), {"paths": ("/usr/bin/rbln-smi",)}, (),
        LOCKING | {
            "Devices": [
                node("/dev/rbln1", "/dev/rbln0"), node("/dev/rsd1", "/dev/rsd0"), node("/dev/rbln3", "/dev/rbln1"),
            ],
            "Mounts": ["/usr/bin/rbln-smi"], "ShmSize": G,
        },
    ),
    "furiosa-rngd": (
        "furiosa-rngd", (device(1),), {"nodes": dict.fromkeys([f"/dev/rngd/npu{n}{part}" for n in (1, 10) for part in RNGD], 0)},
        (), LOCKING | {"Devices": [node(f"/dev/rngd/npu1{part}") for part in RNGD], "ShmSize": G,
                    "SecurityOpt": ["io_uring_enter", "io_uring_register", "io_uring_setup"]},
    ),
    "furiosa-warboy": (
        "furiosa-warboy", (device(0),), {"nodes": dict.fromkeys(["/dev/npu0", "/dev/npu0_mgmt", "/dev/npu0pe0", "/dev/npu1pe0"], 0)},
        (), {"Devices": [node("/dev/npu0"), node("/dev/npu0_mgmt"), node("/dev/npu0pe0")], "ShmSize": G},
    ),
    "tenstorrent": (
        "tenstorrent", (device(1),), {"paths": ("/dev/hugepages-1G",)}, (),
        {"Devices": [node("/dev/tenstorrent/1")], "Mounts": ["/dev/hugepages-1G"], "CapAdd": ["SYS_NICE"], "ShmSize": G},
    ),
    "graphcore": (
        "graphcore", (device(0),), {"nodes": {"/dev/infiniband/uverbs0": 0}, "paths": ("/etc/ipuof.conf.d",)}, (),
        LOCKING | {
            "Devices": [node("/dev/infiniband/uverbs0")], "Mounts": ["/etc/ipuof.conf.d"], "ShmSize": G,
            "Env": {"IPUOF_CONFIG_PATH": "/etc/ipuof.conf.d/ipuof.conf"},
        },
    ),
    "groq": ("groq", (device(1),), {"nodes": {"/dev/groqA0.pci": 0, "/dev/groqA1.pci": 0}}, (),
             {"Devices": [node("/dev/groqA1.pci")], "Ulimits": ["memlock"]}),
    "hyperaccel": (
        "hyperaccel", (device(0, number=49408, minor=130),), {"nodes": {"/dev/dri/renderD130": 44}}, (),
        LOCKING | {
            "Devices": [node("/dev/xfpga/xvc_pri.m49408.0"), node("/dev/dri/renderD130")], "GroupAdd": ["44"],
            "Mounts": ["/opt/hyperdex"], "ShmSize": G,
        },
    ),
    "sambanova": ("sambanova", (device(0),), {"nodes": {"/dev/rdu": 0, "/dev/rdu_mem_map": 0}}, (),
                  LOCKING | {"Devices": [node("/dev/rdu"), node("/dev/rdu_mem_map")], "ShmSize": G}),
    "intel-gpu": (
        "intel-gpu", (device(1, minor=129, card=3),), {"nodes": {"/dev/dri/renderD129": 44, "/dev/dri/card3": 44}}, (),
        {"Devices": [node("/dev/dri/renderD129"), node("/dev/dri/card3")], "GroupAdd": ["44"], "ShmSize": G},
    ),
    "tpu": ("tpu", (device(0),), {}, (), {"Devices": [node("/dev/accel0")], "Ulimits": ["memlock"], "ShmSize": G}),
    "neuron": ("neuron", (device(0),), {}, (), LOCKING | {"Devices": [node("/dev/neuron0")], "ShmSize": G}),
    "ascend by its runtime": (
        "ascend", (device(1),), {"runtimes": ("ascend",)}, (),
        {"Runtime": "ascend", "Env": {"ASCEND_VISIBLE_DEVICES": "1"}, "ShmSize": G},
    ),
    "cambricon": ("cambricon", (device(0),), {}, (),
                  {"Devices": [node("/dev/cambricon_dev0"), node("/dev/cambricon_ctl")], "ShmSize": G}),
    "mock": ("mock", (device(0), device(1)), {}, (),
             {"Devices": [node("/dev/berth-mock0"), node("/dev/berth-mock1")], "Env": {"BERTH_MOCK_DEVICES": "0,1"}}),
}  # fmt: skip


def config(grant: DeviceGrant | None = None) -> dict[str, Any]:
    asked = {"NVIDIA_VISIBLE_DEVICES": "all", "HABANA_VISIBLE_DEVICES": "all", "AMD_VISIBLE_DEVICES": "all"}
    spec = ContainerSpec(
        name="n", image="i", labels={}, cpu_milli=1000, mem_bytes=G, environment=asked, grant=grant or DeviceGrant()
    )  # fmt: skip
    body = container_config(spec)
    host: dict[str, Any] = body["HostConfig"]
    return {
        **{name: value for name, value in host.items() if name != "Ulimits"},
        "Mounts": [mount["Source"] for mount in host["Mounts"] if mount["ReadOnly"]],
        "Ulimits": [each["Name"] for each in host["Ulimits"] if each["Name"] not in ("nofile", "core")],
        "Env": dict(each.split("=", 1) for each in body["Env"]),
    }


def system_calls(container: dict[str, Any]) -> set[str]:
    [profile] = [each for each in container["SecurityOpt"] if each.startswith("seccomp=")]
    rules = json.loads(profile.removeprefix("seccomp="))["syscalls"]
    return {name for rule in rules if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}


@pytest.mark.parametrize("case", GRANTS)
def test_container_differs_by_its_grant_alone(case: str) -> None:
    name, devices, has, extras, expected = GRANTS[case]
    vendor = vendor_named(name)
    assert vendor is not None
    grant = build_grant(vendor, devices, MachineFacts(**has), extras=extras)

    plain, given = config(), config(grant)
    environment = given.pop("Env")
    rows = json.loads(environment.pop("BERTH_DEVICES"))
    assert [row["index"] for row in rows] == sorted(each.device.index for each in devices)
    assert environment.pop("BERTH_GPU_COUNT") == str(len(devices))
    assert environment == {**no_accelerators(), **expected.get("Env", {})}
    differing = {key: value for key, value in given.items() if value != plain.get(key)}
    if "SecurityOpt" in differing:
        differing["SecurityOpt"] = sorted(system_calls(given) - system_calls(plain))
    assert differing == {key: value for key, value in expected.items() if key != "Env"}


def test_every_vendor_has_its_grants_asserted() -> None:
    giving = {vendor.name for vendor in shipped_vendors() if vendor.grant.methods}
    assert giving == {name for name, *_ in GRANTS.values()}


def test_devices_tell_what_they_are_and_how_much_of_them_is_given() -> None:
    vendor = vendor_named("nvidia")
    assert vendor is not None
    part = GrantedDevice(device(2).device, share=250)
    grant = build_grant(vendor, [part], MachineFacts(engine_version="28.2"))
    [row] = json.loads(grant.environment["BERTH_DEVICES"])
    assert row == {"slot": "cuda", "index": 2, "id": "GPU-2", "model": "M", "memory": 20 * G, "share": 0.25}


CARD = """
name: card
title: Card
slot: card
verified: {by: none, note: n}
match: {paths: ["/dev/card*"]}
discover:
  nodes: /dev/card{n}
  fields: {index: "{n}|int", set: "=0"}
identify: {by: [index], stable: false}
grant:
  methods: [%s]
"""


def grant_of(way: str, devices: Sequence[GrantedDevice], nodes: Mapping[str, int]) -> DeviceGrant:
    return build_grant(parse_description(CARD % way, "card.yaml"), devices, MachineFacts(nodes=nodes))


def test_glob_of_one_device_does_not_reach_into_the_next() -> None:
    nodes = dict.fromkeys(
        ["/dev/card1", "/dev/card1pe10", "/dev/card1pe2", "/dev/card10", "/dev/card10pe0"], 0
    )
    grant = grant_of('{devices: ["/dev/card{index}*"]}', [device(1, "card")], nodes)
    assert [each.path for each in grant.nodes] == ["/dev/card1", "/dev/card1pe2", "/dev/card1pe10"]


def test_position_numbers_devices_in_the_container() -> None:
    grant = grant_of('{devices: ["/dev/card{index}:/dev/card{i}"]}', [device(5), device(3)], {})
    assert grant.nodes == (DeviceNode("/dev/card3", "/dev/card0"), DeviceNode("/dev/card5", "/dev/card1"))


@pytest.mark.parametrize(
    ("way", "devices", "sentence"),
    [
        ('{devices: ["/dev/card{set}"]}', [device(0, set="0/../sda")], "cannot be part of a path"),
        ('{devices: ["/dev/card{set}"]}', [device(0, set="..")], "cannot be part of a path"),
        ('{devices: ["/dev/card{set}*"]}', [device(0, set="*")], "cannot be part of a path"),
        ('{devices: ["/dev/card{set}"]}', [device(0)], "did not tell “set” of device 0"),
        ('{devices: ["/dev/card{index}x*"]}', [device(0)], "has no /dev/card0x"),
        ('{groups: ["/dev/card{index}"]}', [device(0)], "has no /dev/card0"),
        ('{devices: ["/dev/card{index}:/dev/card"]}', [device(0), device(1)], "the same name"),
        ('{when: "runtime card", runtime: card}', [device(0)], "no way to give them"),
    ],
)
def test_grant_that_cannot_be_is_refused_in_words(
    way: str, devices: Sequence[GrantedDevice], sentence: str
) -> None:
    with pytest.raises(NoGrant, match=sentence):
        grant_of(way, devices, {})


def test_gaudis_are_given_in_the_sets_that_their_links_allow() -> None:
    vendor = vendor_named("gaudi")
    assert vendor is not None
    assert (allowed_counts("gaudi"), allowed_counts("cuda")) == ((1, 2, 4, 8), ())
    for modules, is_allowed in (
        ([6], True),
        ([2, 3], True),
        ([3, 4], False),
        ([0, 1, 2], False),
        ([4, 5, 6, 7], True),
    ):
        devices = [device(index, "gaudi", module=module) for index, module in enumerate(modules)]
        if is_allowed:
            build_grant(vendor, devices, MachineFacts())
        else:
            with pytest.raises(NoGrant, match="cannot be given together"):
                build_grant(vendor, devices, MachineFacts())


def test_message_of_an_engine_names_the_devices_at_fault() -> None:
    grants = {
        index: DeviceGrant(
            nodes=(DeviceNode(f"/dev/card{index}"), DeviceNode("/dev/shared")),
            requests=(DriverRequest("cdi", (f"card.com/x=C-{index}",)),),
        )
        for index in (1, 10)
    }
    missing = 'error gathering device information while adding custom device "/dev/card{}": no such file'
    assert devices_named_in(missing.format(1), grants) == {1}
    assert devices_named_in(missing.format(10), grants) == {10}
    assert devices_named_in("unresolvable CDI devices card.com/x=C-10, card.com/x=C-1", grants) == {1, 10}
    assert devices_named_in('custom device "/dev/shared"', grants) == set()
