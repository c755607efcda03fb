"""Vendors that an administrator describes by device files: the values of the form, their rules, and
the description that is made of them. Pure.

A container can get only what stands in these values: character devices below /dev that belong to no
part of the machine itself, read-only files below /opt and /usr, variables, and two capabilities.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agents.accelerators.description import (
    VendorDescription,
    is_denied_variable,
    shipped_vendors,
    validated,
)
from common.i18n import gettext as _
from common.values.resources import MIG, is_slot_name
from common.values.text import quoted

CAPABILITIES = ("IPC_LOCK", "SYS_NICE")
BOUND_BELOW = ("/opt/", "/usr/")
MOST_PATHS = 32
MAX_MEM_BYTES = 2**50
MAX_TITLE = 100
NUMBER = "{n}"
_PATH = re.compile(r"(?:/[\w.+@-]+)+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# Directories of /dev through which other devices can be reached, and files of the machine itself: memory,
# disks, consoles, input, clocks, and what makes or controls other devices. An ending “*”: all of that kind.
_DIRECTORIES = (
    "block", "bsg", "bus", "cciss", "char", "cpu*", "cxl", "disk", "dma_heap", "fd", "hugepages*", "input", "mapper", "mqueue", "net",
    "pts", "raw", "shm", "snd", "usb*", "vfio", "vg*", "zvol",
)  # fmt: skip
_MACHINE = (
    "mem", "kmem", "port", "kmsg", "core", "console", "tty*", "vcs*", "initctl", "log", "sd*", "hd*", "vd*", "xvd*",
    "nvme*", "ng*", "ublk*", "dasd*", "ubi*", "oldmem", "crash", "iommu", "fw*", "ndctl*", "megaraid*", "root", "dm-*", "loop*", "md*", "nbd*", "rbd*", "drbd*", "zram*", "ram*", "sg*", "sr*", "st*", "nst*", "mmcblk*",
    "mtd*", "pmem*", "dax*", "bcache*", "btrfs*", "zfs", "device-mapper", "fuse", "cuse", "kvm", "vhost*", "vsock",
    "uinput", "uhid", "hidraw*", "event*", "mouse*", "watchdog*", "rtc*", "hpet", "nvram", "tpm*", "mei*", "mcelog",
    "snapshot", "userfaultfd", "autofs", "ppp", "rfkill", "i2c-*", "ipmi*", "gpiochip*", "ptp*", "uio*", "udmabuf",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFileVendor:
    """Values of the form.

    `name` is also the slot that sessions request. `device` is the path of a device's file, with {n} for
    its number ("/dev/card{n}"); without {n}, the machine has one device. `also`: further files of each
    device (with {n}), or of all; an ending “*” stands for any end of the name, and “?” after a path
    means that it may be absent. `binds` are files or directories of the machine, read-only. `variables`
    may contain {n*}, the numbers of all devices. `has_groups`: programs join the groups that own the
    files. `takes_several`: the driver serves several programs at once, so a device may be given in parts
    that nothing limits (time slices).
    """

    name: str
    title: str
    model: str
    device: str
    mem_bytes: int = 0
    also: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    has_groups: bool = False
    locks_memory: bool = False
    takes_several: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DeviceFileVendor":
        lists = {name: tuple(data.get(name, ())) for name in ("also", "binds", "capabilities")}
        return cls(**{**data, **lists})


def vendor_mistakes(vendor: DeviceFileVendor) -> dict[str, list[str]]:
    """Return {field: sentences} of what cannot be accepted; empty if everything can."""
    found: dict[str, list[str]] = {}
    for name, sentence in _mistakes(vendor):
        found.setdefault(name, []).append(sentence)
    return found


def describe_vendor(vendor: DeviceFileVendor) -> VendorDescription:
    """Return the description of a vendor without mistakes. Raises DescriptionError."""
    index = f"{NUMBER}|int" if NUMBER in vendor.device else "=0|int"
    paths = [_template(path) for path in (vendor.device, *vendor.also)]
    method = {
        "devices": paths,
        "groups": [path for path in paths if "*" not in path] if vendor.has_groups else [],
        "binds": list(vendor.binds),
        "env": {name: text.replace("{n*}", "{index*}") for name, text in vendor.variables.items()},
        "caps": list(vendor.capabilities),
        "memlock": vendor.locks_memory,
    }
    fields = {"index": index, "model": f"={vendor.model}", "mem_bytes": f"={vendor.mem_bytes}|int"}
    data = {
        "name": vendor.name,
        "title": vendor.title,
        "slot": vendor.name,
        "verified": {"by": "none", "note": "Described by an administrator; use is not measured."},
        "match": {"paths": [vendor.device.replace(NUMBER, "[0-9]*")]},
        "discover": {"nodes": vendor.device, "fields": fields},
        "identify": {"by": ["index"], "stable": False},
        "grant": {"methods": [method], "unit": "device" if NUMBER in vendor.device else "machine"},
        "sharing": {"slice": {"level": "none"}} if vendor.takes_several else {},
    }
    return validated(data, vendor.name)


def _template(path: str) -> str:
    return path.replace(NUMBER, "{index}")


def _mistakes(vendor: DeviceFileVendor) -> Iterator[tuple[str, str]]:
    yield from _text_mistakes(vendor)
    if not 0 <= vendor.mem_bytes <= MAX_MEM_BYTES:
        yield "mem_bytes", _("Memory of a device is between nothing and 1 PiB.")
    for name in ("also", "binds"):
        if len(getattr(vendor, name)) > MOST_PATHS:
            yield name, _("Name {count} paths at most.").format(count=MOST_PATHS)
    yield from _file_mistakes(vendor)
    for path in vendor.binds[:MOST_PATHS]:
        plain = path.removesuffix("?")
        if not _PATH.fullmatch(plain) or ".." in plain.split("/") or not plain.startswith(BOUND_BELOW):
            yield "binds", _("{path} is not a path below /opt or /usr.").format(path=quoted(path))
    yield from _variable_mistakes(vendor)
    for capability in vendor.capabilities:
        if capability not in CAPABILITIES:
            yield (
                "capabilities",
                _("{capability} is not one of {capabilities}.").format(
                    capability=quoted(capability), capabilities=", ".join(CAPABILITIES)
                ),
            )


def _text_mistakes(vendor: DeviceFileVendor) -> Iterator[tuple[str, str]]:
    taken = {"cpu", "mem"}.union(*({each.name, each.slot} for each in shipped_vendors()))
    if not is_slot_name(vendor.name) or vendor.name.startswith(MIG):
        sentence = _("{name} is not a name: small letters, digits and hyphens.")
        yield "name", sentence.format(name=quoted(vendor.name))
    elif vendor.name in taken:
        sentence = _("Berth already knows {name}. Take another name.")
        yield "name", sentence.format(name=quoted(vendor.name))
    for name in ("title", "model"):
        text = getattr(vendor, name)
        if not text.strip() or len(text) > MAX_TITLE or set(text) & set("|{}") or not text.isprintable():
            sentence = _("{text} is empty, too long, or has one of the characters | { }.")
            yield name, sentence.replace("{text}", quoted(text))


def _file_mistakes(vendor: DeviceFileVendor) -> Iterator[tuple[str, str]]:
    if vendor.device.count(NUMBER) > 1 or set("*?") & set(vendor.device):
        yield "device", _("Write {n} once, for the number of the device, and neither * nor ?.")
    yield from (("device", sentence) for sentence in _path_mistakes(vendor.device))
    for path in vendor.also[:MOST_PATHS]:
        yield from (("also", sentence) for sentence in _path_mistakes(path.removesuffix("?")))
        if NUMBER in path and NUMBER not in vendor.device:
            sentence = _("{path} has {n}, but the file of the device has not.")
            yield "also", sentence.replace("{path}", quoted(path))


def _variable_mistakes(vendor: DeviceFileVendor) -> Iterator[tuple[str, str]]:
    for name, text in vendor.variables.items():
        if not _VARIABLE.fullmatch(name) or name.startswith(("BERTH_", "LD_")) or is_denied_variable(name):
            yield "variables", _("{name} cannot be set.").format(name=quoted(name))
        elif set("{}") & set(text.replace("{n*}", "")) or not text.isprintable() or len(text) > 1000:
            yield (
                "variables",
                _("The value of {name} is too long, or has other braces than {n*}.").replace(
                    "{name}", quoted(name)
                ),
            )


def _path_mistakes(path: str) -> Iterator[str]:
    """Yield why a path, maybe with {n} and an ending “*”, cannot be a file of a device."""
    plain = path.replace(NUMBER, "0")
    stem = plain.removesuffix("*")
    if (
        not _PATH.fullmatch(stem)
        or ".." in stem.split("/")
        or not stem.startswith("/dev/")
        or len(path) > 200
    ):
        yield _("{path} is not the path of a file below /dev.").format(path=quoted(path))
        return
    directory, _slash, name = plain.removeprefix("/dev/").rpartition("/")
    if path.endswith("*") and len(name.rstrip("0*")) < 2:
        yield _("{path} is too wide: name at least two letters before the *.").format(path=quoted(path))
        return
    first = directory.split("/")[0]
    is_wide = path.endswith("*")
    if (first and any(_overlap(first, False, each) for each in _DIRECTORIES)) or (
        not first
        and any(_overlap(name.removesuffix("*"), is_wide, each) for each in (*_MACHINE, *_DIRECTORIES))
    ):
        yield _("{path} would give a disk, memory or another part of the machine itself.").format(
            path=quoted(path)
        )


def _overlap(stem: str, is_wide: bool, refused: str) -> bool:
    """Return True if a name that is, or begins with, `stem` can be a refused one."""
    begin = refused.removesuffix("*")
    if refused.endswith("*") and stem.startswith(begin):
        return True
    return stem == refused or (is_wide and begin.startswith(stem))
