"""Accelerators of a session request: kinds, parts of one device, MIG slices, requirements. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.accelerators.grant_builder import allowed_counts
from common.i18n import gettext as _
from common.values.resources import (
    CPU,
    MAX_PER_CONTAINER,
    MEM,
    MIG,
    MILLI,
    PART_CORES,
    PART_MEM,
    ResourceSlots,
    format_bytes,
    is_slot_name,
    mig_slot,
    parse_bytes,
    split_part,
)
from common.values.text import quoted
from sessions_app.core.request_fields import Problems

MIG_FIELD = "mig"
ANY_KIND = "gpu"
"""Slot of a request that means the only kind of accelerators of the group, unless it has this slot."""
LEAST_PART_BYTES = 2**20
MAX_VERSION = 6
LEVELS = ("none", "cooperative", "server", "driver", "hardware")
"""Isolation of a part of a device, from the least to the best."""
_PROFILE = re.compile(r"\d{1,2}[a-z]\.\d{1,4}gb(\+[a-z0-9.]{1,12})?\Z", re.IGNORECASE | re.ASCII)
_PERCENT = re.compile(r"\d{1,3}\Z", re.ASCII)
_VERSION = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class DevicePart:
    """Part of one device by memory and percent of compute, of which at least one is not 0."""

    slot: str
    mem_bytes: int = 0
    cores: int = 0

    @classmethod
    def of(cls, slots: ResourceSlots) -> "DevicePart | None":
        """Return the part that a request asks for in these terms, or None."""
        for name in slots:
            slot, end = split_part(name)
            if end:
                return cls(slot, slots[slot + PART_MEM], slots[slot + PART_CORES] // MILLI)
        return None

    def share(self, device_mem_bytes: int) -> int:
        """Return the share of a device with this memory, in thousandths, rounded up; it may exceed
        one device.
        """
        by_memory = -(-self.mem_bytes * MILLI // device_mem_bytes) if self.mem_bytes else 0
        return max(by_memory, self.cores * MILLI // 100)

    def in_slots(self, slots: ResourceSlots, share: int) -> ResourceSlots:
        """Return the amounts with `share` of the slot instead of memory and compute."""
        others = {name: amount for name, amount in slots.items() if not split_part(name)[1]}
        return ResourceSlots({**others, self.slot: share})

    def put_back(self, slots: ResourceSlots) -> ResourceSlots:
        """Return the amounts with memory and compute instead of the share, as they were asked for."""
        others = {name: amount for name, amount in slots.items() if name != self.slot}
        parts = {self.slot + PART_MEM: self.mem_bytes, self.slot + PART_CORES: self.cores * MILLI}
        return ResourceSlots({**others, **parts})


def least_amounts(slots: ResourceSlots, kinds: Sequence[str]) -> ResourceSlots:
    """Return the amounts that a session with these would need at least where there are `kinds` of
    devices: something of a device for a part whose share is not known yet.
    """
    only = kinds[0] if len(kinds) == 1 else ANY_KIND
    amounts: dict[str, int] = {}
    for name, amount in slots.items():
        slot, end = split_part(name)
        amounts[only if slot == ANY_KIND and slot not in kinds else slot] = 1 if end else amount
    return ResourceSlots(amounts)


def expand_mig(amounts: dict[str, object], problems: Problems) -> None:
    """Replace {"mig": "1g.10gb"} and {"mig": {"1g.10gb": 2}} by the slots of the profiles."""
    wanted = amounts.pop(MIG_FIELD, None)
    if wanted is None:
        return
    counts = {wanted: 1} if isinstance(wanted, str) else wanted
    if not isinstance(counts, Mapping) or not counts:
        problems[MIG_FIELD] = [
            _("Name a MIG profile, like {example}, not {value}.").format(
                example='"1g.10gb"', value=quoted(wanted)
            )
        ]
        return
    for profile, count in counts.items():
        if not isinstance(profile, str) or not _PROFILE.match(profile.strip()):
            problems[MIG_FIELD] = [
                _("{profile} is not a MIG profile. Write it like 1g.10gb.").format(profile=quoted(profile))
            ]
        elif not problems.get(MIG_FIELD):
            amounts[mig_slot(profile)] = count


def check_part(name: str, value: object) -> ResourceSlots:
    """Return an amount of "cuda.mem" or "cuda.cores". Raises ValueError."""
    slot, end = split_part(name)
    if not is_slot_name(slot) or slot in (CPU, MEM):
        raise ValueError(
            _("{name} is not the name of a resource. Use cpu, mem or a device name.").format(
                name=quoted(name)
            )
        )
    if slot.startswith(MIG):
        raise ValueError(_("A MIG slice is given whole: ask for a number of them."))
    if end == PART_MEM:
        amount = parse_bytes(value, MAX_PER_CONTAINER)
        if amount < LEAST_PART_BYTES:
            raise ValueError(_("Ask for at least {amount}.").format(amount=format_bytes(LEAST_PART_BYTES)))
        return ResourceSlots({name: amount})
    if isinstance(value, float) and value.is_integer():  # JSON knows one kind of numbers
        value = int(value)
    text = value.strip() if isinstance(value, str) else str(value) if type(value) is int else ""
    if not _PERCENT.match(text) or not 1 <= int(text) <= 100:
        raise ValueError(
            _("{value} is no part of the compute of a device. Write whole percent from 1 to 100.").format(
                value=quoted(value)
            )
        )
    return ResourceSlots({name: int(text) * MILLI})


def check_kinds(slots: ResourceSlots, problems: Problems) -> None:
    """Add to `problems` accelerators that cannot be combined in one session."""
    names = [name for name in slots if name not in (CPU, MEM)]
    kinds = sorted({split_part(name)[0] for name in names})
    if len(kinds) > 1:
        first, second = kinds[:2]
        problems[second] = [
            _("A session gets accelerators of one kind: {first} or {second}, not both.").format(
                first=first, second=second
            )
        ]
    for name in names:
        slot, end = split_part(name)
        if end and slots[slot]:
            problems[slot] = [
                _("Say the part of {device} once: as a number like 0.5, or by memory and cores.").format(
                    device=slot
                )
            ]
        counts = allowed_counts(name)
        if counts and slots[name] not in [count * MILLI for count in counts]:
            problems[name] = [
                _("Devices of this kind are linked in sets: ask for {counts} of them.").format(
                    counts=", ".join(map(str, counts))
                )
            ]
        if slot.startswith(MIG) and slots[name] % MILLI:
            problems[name] = [_("A MIG slice is given whole: ask for a number of them.")]


def has_part(slots: ResourceSlots) -> bool:
    """Return True if a part of one device is requested, in any form."""
    return any(split_part(name)[1] or (name not in (CPU, MEM) and slots[name] % MILLI) for name in slots)


def check_device_mem(value: object) -> int:
    """Return the least memory of each device in bytes; 0: any. Raises ValueError."""
    return 0 if value is None or value == "" else parse_bytes(value, MAX_PER_CONTAINER)


def check_device_api(value: object) -> str:
    """Return the least version of CUDA or ROCm, like "12.4"; "" for any. Raises ValueError."""
    if value is None or value == "":
        return ""
    text = value.strip() if isinstance(value, str) else ""
    if not _VERSION.match(text):
        raise ValueError(
            _("{value} is no version. Write it as text, like {example}.").format(
                value=quoted(value), example='"12.4"'
            )
        )
    return text


def api_version(text: str) -> int:
    """Return a version as reported by devices: 12040 for "12.4"; 0 for ""."""
    found = _VERSION.match(text)
    return int(found[1]) * 1000 + int(found[2] or 0) * 10 if found else 0


def check_isolation(value: object) -> str:
    """Return the least isolation of a part of a device, "" for any. Raises ValueError."""
    if value is None or value == "" or value == LEVELS[0]:
        return ""
    if not isinstance(value, str) or value not in LEVELS:
        raise ValueError(
            _("{value} is no level of isolation. Use {levels}.").format(
                value=quoted(value), levels=", ".join(LEVELS)
            )
        )
    return value


def check_device_combinations(request: Mapping[str, Any], problems: Problems) -> None:
    """Add to `problems` requirements of accelerators that the request does not ask for, or that
    exclude each other.
    """
    resources = request["resources"]
    if not resources:
        return
    devices = {name: amount for name, amount in resources.slots.items() if name not in (CPU, MEM)}
    if not devices:
        if request["device_model"]:
            problems.setdefault(
                "device_model", [_("It asks for no accelerator, so none can be of this model.")]
            )
        for name in ("device_mem", "device_api", "linked_devices", "isolation"):
            if request[name]:
                problems.setdefault(name, [_("It asks for no accelerator.")])
    elif request["linked_devices"]:
        if has_part(resources.slots):
            problems.setdefault(
                "linked_devices", [_("A part of one device cannot be linked. Ask for whole devices.")]
            )
        elif sum(devices.values()) < 2 * MILLI:
            problems.setdefault(
                "linked_devices", [_("Only several devices can be linked. Ask for at least two.")]
            )
