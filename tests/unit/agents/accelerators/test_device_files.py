"""Vendors that an administrator describes by device files: no form gives a part of the machine itself."""

from dataclasses import replace
from typing import Any

import pytest

from agents.accelerators.base import AcceleratorDevice
from agents.accelerators.device_files import DeviceFileVendor, describe_vendor, vendor_mistakes
from agents.accelerators.grant_builder import GrantedDevice, MachineFacts, build_grant
from agents.accelerators.report_parser import read_devices
from tests.doubles.machine_reports import report_of

BOARD = DeviceFileVendor(
    name="board",
    title="Boards",
    model="Board 9",
    device="/dev/board/card{n}",
    mem_bytes=2**34,
    also=("/dev/board/card{n}ctl", "/dev/board/card{n}pe*?", "/dev/board/all?"),
    binds=("/opt/board/lib", "/usr/bin/board-smi?"),
    variables={"BOARD_CARDS": "{n*}"},
    capabilities=("IPC_LOCK",),
    has_groups=True,
    locks_memory=True,
)
REFUSED: list[tuple[str, Any]] = [
    ("device", path)
    for path in (
        "/dev/mem", "/dev/kmem", "/dev/port", "/dev/sd{n}", "/dev/sda{n}", "/dev/nvme{n}", "/dev/nvme{n}n1", "/dev/vda",
        "/dev/vd{n}", "/dev/dm-{n}", "/dev/mapper/root", "/dev/loop{n}", "/dev/disk/by-id/x", "/dev/block/8:0",
        "/dev/char/1:1", "/dev/kvm", "/dev/tty{n}", "/dev/input/event{n}", "/dev/md{n}", "/dev/cpu/{n}/msr", "/dev/../etc/x",
        "/dev/board/../sda", "/etc/passwd", "/var/run/docker.sock", "/dev", "/dev/", "dev/board{n}", "/dev/board*",
        "/dev/board{n}{n}", "/dev/board{m}", "/dev/board {n}", "/dev/board{n}?", "/dev/cpu{n}/msr", "",
        "/dev/ng{n}n1", "/dev/raw/raw{n}", "/dev/ublkc{n}", "/dev/crash", "/dev/oldmem", "/dev/iommu", "/dev/fw{n}", "/dev/cxl/mem{n}",
    )
]  # fmt: skip
REFUSED += [
    ("also", (path,))
    for path in (
        "/dev/*", "/dev/s*", "/dev/m*", "/dev/me*", "/dev/nv*", "/dev/board/*", "/dev/*/card{n}", "/dev/bo*/card",
        "/dev/board/b*", "/dev/sda?", "/run/docker.sock", "/dev/shm/x", "/dev/vfio/1", "/dev/{n}*",
    )
]  # fmt: skip
REFUSED += [
    ("binds", (path,))
    for path in ("/", "/opt", "/usr", "/etc", "/opt/../etc", "/run/docker.sock", "/opt/x:/etc", "/usr/*", "opt/x", "/home/a")
]  # fmt: skip
REFUSED += [
    ("name", "cuda"), ("name", "nvidia"), ("name", "mem"), ("name", "Board"), ("name", ""), ("name", "b" * 32), ("name", "mig-1g"),
    ("title", ""), ("model", "a|b"), ("model", "{n}"), ("mem_bytes", -1), ("mem_bytes", 2**60),
    ("also", tuple(f"/dev/card{n}" for n in range(40))),
    ("variables", {"LD_PRELOAD": "x"}), ("variables", {"BERTH_X": "x"}), ("variables", {"NVIDIA_VISIBLE_DEVICES": "all"}),
    ("variables", {"A": "{index*}"}), ("variables", {"1A": ""}), ("variables", {"A": "x\ny"}),
    ("capabilities", ("SYS_ADMIN",)), ("capabilities", ("SYS_PTRACE",)),
]  # fmt: skip


def test_form_that_could_give_more_than_devices_is_refused_at_its_field(subtests: pytest.Subtests) -> None:
    assert vendor_mistakes(BOARD) == {}
    for field, value in REFUSED:
        with subtests.test(f"{field}: {value}"):
            mistakes = vendor_mistakes(replace(BOARD, **{field: value}))
            assert field in mistakes
            if field != "device":
                assert list(mistakes) == [field]


def test_form_becomes_a_description_that_finds_and_gives_its_devices() -> None:
    vendor = describe_vendor(BOARD)
    nodes = [f"/dev/board/card{n}{part}" for n in (1, 10) for part in ("", "ctl", "pe0", "pe1")]
    report = report_of({"nodes": nodes})
    reading = read_devices(vendor, report)
    assert [(each.device_id, each.index, each.model, each.mem_bytes) for each in reading.devices or ()] == [
        ("board:1", 1, "Board 9", 2**34),
        ("board:10", 10, "Board 9", 2**34),
    ]
    [first, _] = reading.devices or ()
    known = MachineFacts(nodes=dict.fromkeys(nodes, 44))
    grant = build_grant(vendor, [GrantedDevice(first)], known)
    assert [node.path for node in grant.nodes] == [node for node in nodes if "card10" not in node]
    assert [bind.source for bind in grant.binds] == ["/opt/board/lib"]
    assert (grant.groups, grant.capabilities, grant.locks_memory) == ((44,), ("IPC_LOCK",), True)
    assert grant.environment["BOARD_CARDS"] == "1"
    assert (grant.requests, grant.runtime, grant.syscalls) == ((), "", ())


def test_machine_with_one_file_has_one_device() -> None:
    vendor = describe_vendor(replace(BOARD, device="/dev/board/all", also=()))
    [device] = read_devices(vendor, report_of({"nodes": ["/dev/board/all"]})).devices or ()
    assert isinstance(device, AcceleratorDevice)
    assert (device.device_id, device.index) == ("board:0", 0)


def test_values_survive_their_storage() -> None:
    assert DeviceFileVendor.from_json(BOARD.to_json()) == BOARD
