"""Builds the grant of a container from the vendor's description, its devices, and what the machine and
its engine have. Pure.

Nothing here depends on what a user or an image asks for: the grant is complete, and the encoding puts it
above everything else.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.accelerators.base import AcceleratorDevice
from agents.accelerators.description import (
    AllowedSets,
    GrantMethod,
    GrantParts,
    VendorDescription,
    shipped_vendors,
    vendor_named,
)
from agents.accelerators.grant import BoundPath, DeviceGrant, DeviceNode, DriverRequest, join_grants

WHOLE = 1000
_UNITS = {"m": 2**20, "g": 2**30}
_TEMPLATE = re.compile(r"\{([a-z][a-z0-9_]*)(\*?)\}")
_PATH_PART = re.compile(r"\{[a-z0-9_]+\}|\[[^\]]+\]|\*|[^{\[*]+")
_PATH_VALUE = re.compile(r"[\w.:@-]+")
Values = Mapping[str, str]


class NoGrant(ValueError):
    """The machine cannot give these devices; the text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class GrantedDevice:
    """A device and the part of it that a container gets, in thousandths."""

    device: AcceleratorDevice
    share: int = WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Facts of a machine and its engine: version, runtimes and CDI devices of the engine; `nodes`:
    {path: id of the owning group} of device nodes; `paths`: other existing files.
    """

    engine_version: str = ""
    runtimes: Collection[str] = ()
    cdi_devices: Collection[str] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    paths: Collection[str] = ()


def build_grant(
    vendor: VendorDescription,
    devices: Sequence[GrantedDevice],
    machine: MachineFacts,
    *,
    extras: Collection[str] = (),
) -> DeviceGrant:
    """Return what a container gets for these devices, which are all of this vendor. `extras` are the
    names of the description's extras that the resource group allows. Raises NoGrant.
    """
    given = in_order(devices)
    if not is_allowed_set(vendor.grant.allowed_sets, [each.device for each in given]):
        raise NoGrant(f"{vendor.title}: these {len(given)} devices cannot be given together.")
    values = [_values(each.device, position) for position, each in enumerate(given)]
    method = next((method for method in vendor.grant.methods if _holds(method, values, machine)), None)
    if method is None:
        raise NoGrant(f"{vendor.title}: the machine’s engine has no way to give them to a container.")
    more = [extra for name, extra in vendor.grant.extras.items() if name in extras]
    parts = [_part(extra, values, machine) for extra in (method, *more)]
    requested = DeviceGrant(requests=_requests(method, values), runtime=method.runtime)
    grant = join_grants(*parts, requested, describing_grant(given))
    targets = [node.target or node.path for node in grant.nodes]
    if len(set(targets)) < len(targets):
        raise NoGrant(f"{vendor.title}: two of these devices would have the same name in the container.")
    return grant


def describing_grant(devices: Sequence[GrantedDevice]) -> DeviceGrant:
    """Return a grant of variables alone, which tell programs their devices: BERTH_DEVICES, a list of
    objects with slot, index, id, model, memory (bytes) and share (1: whole), and BERTH_GPU_COUNT.
    """
    rows = [
        {
            "slot": each.device.slot_name,
            "index": each.device.index,
            "id": each.device.device_id,
            "model": each.device.model,
            "memory": each.device.mem_bytes * each.share // WHOLE,
            "share": each.share / WHOLE if each.share < WHOLE else 1,
        }
        for each in in_order(devices)
    ]
    return DeviceGrant(
        environment={
            "BERTH_DEVICES": json.dumps(rows, separators=(",", ":")),
            "BERTH_GPU_COUNT": str(len(rows)),
        }
    )


def in_order(devices: Iterable[GrantedDevice]) -> list[GrantedDevice]:
    """Return the devices in the order in which a container numbers them: by slot and index."""
    return sorted(devices, key=lambda each: (each.device.slot_name, each.device.index, each.device.device_id))


def devices_named_in(text: str, grants: Mapping[int, DeviceGrant]) -> set[int]:
    """Return the keys of the grants of single devices of which an engine's error message names a node or
    an id that no other has.
    """
    owners: dict[str, set[int]] = {}
    for key, grant in grants.items():
        for name in (*(node.path for node in grant.nodes), *(i for r in grant.requests for i in r.ids)):
            owners.setdefault(name, set()).add(key)
    return {
        key
        for name, keys in owners.items()
        if len(keys) == 1 and re.search(rf"{re.escape(name)}(?![\w-])", text)
        for key in keys
    }


# Sets of devices


def allowed_counts(slot_name: str) -> tuple[int, ...]:
    """Return the numbers of devices of a slot that one container may get; () if any."""
    rules = [vendor.grant.allowed_sets for vendor in shipped_vendors() if vendor.slot == slot_name]
    return tuple(sorted({count for rule in rules if rule for count in rule.sets}))


def sets_of_vendor(vendor_name: str) -> AllowedSets | None:
    """Return the sets in which the vendor's devices may be given; None if in any."""
    vendor = vendor_named(vendor_name) if vendor_name else None
    return vendor.grant.allowed_sets if vendor else None


def device_sets(rule: AllowedSets) -> dict[int, list[frozenset[str]]]:
    """Return the allowed sets of values of the rule's key by number; no set means any devices."""
    return {
        count: [] if sets == "any" else [frozenset(map(str, one)) for one in sets]
        for count, sets in rule.sets.items()
    }


def is_allowed_set(rule: AllowedSets | None, devices: Sequence[AcceleratorDevice]) -> bool:
    """Return True if a container may get exactly these devices together."""
    if rule is None:
        return True
    sets = device_sets(rule).get(len(devices))
    if sets is None:
        return False
    return not sets or frozenset(_field(device, rule.key) for device in devices) in sets


# Parts of a grant


def _holds(method: GrantMethod, values: Sequence[Values], machine: MachineFacts) -> bool:
    kind, _, argument = method.when.partition(" ")
    if kind == "cdi":
        ids = [name for request in _requests(method, values) for name in request.ids]
        return bool(ids) and set(ids) <= set(machine.cdi_devices)
    if kind == "runtime":
        return argument in machine.runtimes
    if kind == "engine":
        return _version(machine.engine_version) >= _version(argument.removeprefix(">= "))
    return True


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:3]))


def _requests(method: GrantMethod, values: Sequence[Values]) -> tuple[DriverRequest, ...]:
    if method.request is None:
        return ()
    ids = [_filled(text, one) for one in values for text in method.request.ids]
    return (DriverRequest(method.request.driver, tuple(dict.fromkeys(ids)), method.request.capabilities),)


def _part(extra: GrantParts, values: Sequence[Values], machine: MachineFacts) -> DeviceGrant:
    groups = {machine.nodes[path] for path, _ in _paths(extra.groups, values, machine.nodes, must_exist=True)}
    return DeviceGrant(
        nodes=tuple(DeviceNode(*pair) for pair in _paths(extra.devices, values, machine.nodes)),
        environment={name: _joined(text, values) for name, text in extra.env.items()},
        groups=tuple(sorted(groups - {0})),  # the group of root opens far more than a device
        binds=tuple(
            BoundPath(*pair) for pair in _paths(extra.binds, values, {*machine.paths, *machine.nodes})
        ),
        capabilities=extra.caps,
        syscalls=extra.syscalls,
        locks_memory=extra.memlock,
        shm_bytes=int(extra.shm[:-1]) * _UNITS[extra.shm[-1]] if extra.shm else 0,
    )


def _paths(
    templates: Sequence[str], values: Sequence[Values], known: Collection[str], *, must_exist: bool = False
) -> list[tuple[str, str]]:
    """Return the paths of the machine and in the container ("": the same) for these templates, each once,
    those of the first device first. Raises NoGrant if one that is not optional is unknown: globs always,
    others only if they `must_exist`; an engine refuses those itself.
    """
    found: dict[tuple[str, str], None] = {}
    for one in values:
        for template in templates:
            text, optional = template.removesuffix("?"), template.endswith("?")
            source, _, target = text.partition(":")
            pattern, is_glob = _path_pattern(source, one)
            if is_glob or optional or must_exist:
                matches = sorted((path for path in known if pattern.fullmatch(path)), key=_natural)
            else:
                matches = [_filled_path(source, one)]
            if not matches and not optional:
                raise NoGrant(f"The machine has no {_filled_path(source, one)}.")
            found |= dict.fromkeys((path, _filled_path(target, one)) for path in matches)
    return list(found)


def _path_pattern(template: str, values: Values) -> tuple[re.Pattern[str], bool]:
    """Return the pattern of a path and whether it is a glob. “*” stands for characters of one name, and
    after a number it does not continue the number: “npu{index}*” of device 1 is not that of device 10.
    """
    pattern, is_glob, follows_number = "", False, False
    for part in _PATH_PART.findall(template):
        if part == "*":
            pattern += r"(?!\d)[^/]*" if follows_number else "[^/]*"
        elif part.startswith("["):
            pattern += part
        else:
            pattern += re.escape(_filled_path(part, values))
        is_glob |= part == "*" or part.startswith("[")
        follows_number = part.startswith("{") and _filled_path(part, values)[-1:].isdigit()
    return re.compile(pattern), is_glob


def _filled_path(template: str, values: Values) -> str:
    """Fill in values that a path may contain. Raises NoGrant for others, which could lead elsewhere."""
    for name, _ in _TEMPLATE.findall(template):
        if name in values and (not _PATH_VALUE.fullmatch(values[name]) or ".." in values[name]):
            raise NoGrant(f"“{values[name]}” cannot be part of a path of a device.")
    return _filled(template, values)


def _filled(template: str, values: Values) -> str:
    """Fill in the values of one device. Raises NoGrant if it has none."""
    return _TEMPLATE.sub(lambda found: _value(values, found[1]), template)


def _joined(template: str, values: Sequence[Values]) -> str:
    """Fill in the values of all devices, joined by commas. Raises NoGrant."""
    return _TEMPLATE.sub(lambda found: ",".join(_value(one, found[1]) for one in values), template)


def _value(values: Values, name: str) -> str:
    if not values.get(name):
        raise NoGrant(f"The machine did not tell “{name}” of device {values['index']}.")
    return values[name]


def _values(device: AcceleratorDevice, position: int) -> dict[str, str]:
    """Return what templates may name: facts of the device, and its position in the container."""
    known = {
        "uuid": device.device_id,
        "model": device.model,
        "pci": device.pci_address,
        "parent": device.parent_id,
        "profile": device.profile,
        **{name: str(value) for name, value in device.facts.items()},
    }
    return {**known, "index": str(device.index), "i": str(position)}


def _field(device: AcceleratorDevice, name: str) -> str:
    return _values(device, 0).get(name, "")


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a sort key by which npu2 is before npu10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path)]
