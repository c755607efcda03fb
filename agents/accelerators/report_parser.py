"""Interpreter of descriptions: from what a machine reported to its devices, their use and their
health.

Pure, and total: a tool that hangs, is missing, prints garbage or too much makes the devices of its
vendor unknown, with a reason; nothing that a machine reports raises an error.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Any

from agents.accelerators.base import AcceleratorDevice, DeviceProcess, DeviceUse
from agents.accelerators.description import CAPTURE, KNOWN_FIELDS, Source, VendorDescription
from agents.accelerators.filters import MAX_NUMBER, MAX_TEXT, filtered, number, storable
from agents.accelerators.report import MachineReport, ProbeRequest, command_key
from common.i18n import gettext_noop
from common.values.resources import mig_slot
from common.values.stored_message import StoredMessage, one_line

PCI_DEVICES = "/sys/bus/pci/devices/*"
MAX_DEVICES = 1024
NOTHING = StoredMessage()
TOOL_MISSING = gettext_noop("The tool “{tool}” is not on the machine.")
TOOL_SLOW = gettext_noop("The tool “{tool}” did not answer in time.")
TOOL_LONG = gettext_noop("The tool “{tool}” printed more than can be read.")
TOOL_FAILED = gettext_noop("The tool “{tool}” failed.")
TOOL_UNCLEAR = gettext_noop("The tool “{tool}” printed something that Berth does not understand.")
NO_DRIVER = gettext_noop("The machine has such devices, but its driver shows none.")
NO_ID = gettext_noop("Some devices cannot be told apart, and are not used.")
_FAILURES = {"missing": TOOL_MISSING, "timeout": TOOL_SLOW, "too_long": TOOL_LONG}

Row = Mapping[str, Any]
Read = Callable[[str, str], Any]
"""Returns the raw value of a name in a row; the first filter tells a link from a file."""


LISTS = frozenset({"processes", "xids"})
"""Fields whose values may be lists."""


@dataclass(frozen=True, slots=True)
class VendorReading:
    """Devices of one vendor, by index; None: unknown. `problem` says what is wrong, if anything."""

    vendor: str
    devices: tuple[AcceleratorDevice, ...] | None
    problem: StoredMessage = NOTHING


class _Unreadable(Exception):
    """A command without a usable answer."""

    def __init__(self, text: str, tool: str, *, quote: str = "", is_missing: bool = False) -> None:
        super().__init__(text)
        name = "NVML" if tool == "berth-nvml" else tool
        self.message = StoredMessage(text, {"tool": name}, storable(one_line(quote)) or "")
        self.is_missing = is_missing


# Requests to probes


def presence_probe(vendors: Iterable[VendorDescription]) -> ProbeRequest:
    """Return the request for what shows whether a machine has devices of these vendors; it needs no
    container's devices and no tools.
    """
    request = ProbeRequest(
        files=tuple(f"{PCI_DEVICES}/{name}" for name in ("vendor", "device", "class", "numa_node"))
    )
    for vendor in vendors:
        request += ProbeRequest(paths=vendor.match.paths)
    return request


def use_probe(vendor: VendorDescription) -> ProbeRequest:
    """Return the request for the use and the health of one vendor's devices; empty if nothing tells them."""
    sources = (*vendor.measure.sources, *([vendor.health.source] if vendor.health.source else ()))
    given = vendor.discover.requires
    request = ProbeRequest()
    for source in sources:
        request += _wanted_by(source)
    if not request.commands:  # files of the kernel need nothing of the vendor
        return request
    return request + ProbeRequest(
        given_devices=given.devices,
        given_files=given.files,
        given_drivers=(given.driver,) if given.driver else (),
        given_runtimes=(given.runtime,) if given.runtime else (),
    )


def device_probe(vendor: VendorDescription) -> ProbeRequest:
    """Return the request for the devices of one vendor, their use and their health."""
    given = vendor.discover.requires
    request = use_probe(vendor) + ProbeRequest(
        given_devices=given.devices,
        given_files=given.files,
        given_drivers=(given.driver,) if given.driver else (),
        given_runtimes=(given.runtime,) if given.runtime else (),
    )
    for source in (vendor.discover, *vendor.discover.detail):
        request += _wanted_by(source)
    for extra in (*vendor.grant.methods, *vendor.grant.extras.values()):
        paths = [path.split(":")[0].rstrip("?") for path in (*extra.devices, *extra.groups)]
        request += ProbeRequest(nodes=tuple(_any_value(path) for path in paths))
        request += ProbeRequest(paths=tuple(bind.split(":")[0].rstrip("?") for bind in extra.binds))
    return request


def _wanted_by(source: Source) -> ProbeRequest:
    if source.command:
        return ProbeRequest(commands=(source.command,))
    if source.nodes:
        return ProbeRequest(nodes=(_any_value(source.nodes),))
    if not source.sysfs:
        return ProbeRequest()
    each = _any_value(source.sysfs)
    readings = [*source.fields.values(), *(text.split(" ")[0] for text in (*source.where, *source.unless))]
    files: list[str] = []
    links: list[str] = []
    for reading in readings:
        name, *filters = reading.split("|")
        if name.startswith(("{", "=")):
            continue
        (links if "link" in filters else files).append(f"{each}/{name.split(':')[0]}")
        files += [f"{each}/{other.split(':')[1]}" for other in filters if other.startswith("kfd_bdf:")]
    return ProbeRequest(paths=(each,), files=tuple(dict.fromkeys(files)), links=tuple(links))


def _any_value(template: str) -> str:
    return re.sub(r"\{[^}]*\}", "*", template)


# What it tells


def is_present(vendor: VendorDescription, report: MachineReport) -> bool:
    """Return True if a sign of the vendor's devices is there."""
    match = vendor.match
    return (
        _has_pci(vendor, report)
        or any(_matching(path, (*report.paths, *report.nodes)) for path in match.paths)
        or (bool(match.cdi) and any(name.startswith(f"{match.cdi}=") for name in report.cdi_devices))
        or (bool(match.runtime) and match.runtime in report.runtimes)
    )


def read_devices(vendor: VendorDescription, report: MachineReport) -> VendorReading:
    """Return the devices of one vendor on the machine; never raises."""
    if not is_present(vendor, report):
        return VendorReading(vendor.name, ())
    problem = NOTHING
    try:
        rows = list(_rows(vendor.discover, vendor, report))
    except _Unreadable as unreadable:
        return VendorReading(vendor.name, None, unreadable.message)
    if len(rows) > MAX_DEVICES:
        return VendorReading(vendor.name, None, StoredMessage(TOOL_UNCLEAR, {"tool": vendor.title}))
    for detail in vendor.discover.detail:
        try:
            rows = _joined(rows, list(_rows(detail, vendor, report)), detail.join) if rows else rows
        except _Unreadable as unreadable:
            # Without the tool, devices are told by what the kernel shows. A tool that only failed
            # this time must not change their ids.
            if not unreadable.is_missing:
                return VendorReading(vendor.name, None, unreadable.message)
            problem = NOTHING if detail.optional else unreadable.message
    found = [row for row in rows if all(_is_known(row.get(name)) for name in vendor.identify.need)]
    devices, all_told = _devices(vendor, [_with_numa(row, report) for row in found])
    if not all_told:
        problem = StoredMessage(NO_ID)
    elif not devices and _has_pci(vendor, report):
        problem = StoredMessage(NO_DRIVER)
    if vendor.grant.unit == "machine" and len(devices) > 1:
        devices = (_whole_machine(devices),)
    return VendorReading(vendor.name, devices, problem)


def read_measures(
    vendor: VendorDescription, devices: Sequence[AcceleratorDevice], report: MachineReport
) -> dict[str, dict[str, Any]]:
    """Return the known measures (`MEASURES`) of these devices of the vendor, by device id; never
    raises. A device or a measure without a value is absent.
    """
    told = _told(vendor, vendor.measure.sources, devices, report)
    for device in devices:
        kinds = {"always", "partition"} if device.profile else {"always"}
        for name, absent in vendor.measure.absent.items():
            if kinds & set(absent):
                told.get(device.device_id, {}).pop(name, None)
    return {device_id: values for device_id, values in told.items() if values}


def read_health(
    vendor: VendorDescription, devices: Sequence[AcceleratorDevice], report: MachineReport
) -> dict[str, dict[str, Any]]:
    """Return the known values of the health source of these devices, by device id; never raises."""
    source = vendor.health.source
    return _told(vendor, (source,) if source else (), devices, report)


def read_uses(
    vendor: VendorDescription, devices: Sequence[AcceleratorDevice], report: MachineReport
) -> tuple[DeviceUse, ...]:
    """Return the use of these devices of the vendor, in their order; devices that told nothing are
    absent. Never raises.
    """
    measures = read_measures(vendor, devices, report)
    return tuple(
        _use(vendor, device.device_id, measures[device.device_id])
        for device in devices
        if device.device_id in measures
    )


def _use(vendor: VendorDescription, device_id: str, values: Mapping[str, Any]) -> DeviceUse:
    return DeviceUse(
        device_id=device_id,
        percent=_whole_number(values.get("util"), 100),
        mem_bytes=_whole_number(values.get("mem_used")),
        mem_total_bytes=_whole_number(values.get("mem_total")),
        watts=values.get("watts") if isinstance(values.get("watts"), int | float) else None,
        celsius=_whole_number(values.get("celsius"), 1000),
        activity=_activity(vendor, values),
        processes=_processes(values.get("processes")),
    )


def _activity(vendor: VendorDescription, values: Mapping[str, Any]) -> int | None:
    """Return the percentage that the vendor's idle rule judges; None: nothing to judge."""
    held, idle = vendor.measure.held, vendor.measure.idle
    level = values.get(held.by) if held else None
    is_held = level > held.above if held and isinstance(level, int | float) else None
    if idle.by == "held":
        return None if is_held is None else 100 * is_held
    if idle.by == "session" or (idle.when_held and not is_held):
        return None
    return _whole_number(values.get("util"), 100)


def _processes(rows: Any) -> tuple[DeviceProcess, ...] | None:
    """Return the processes in [{pid, mem, util}, …]; None if unknown."""
    if not isinstance(rows, list):
        return None
    return tuple(
        DeviceProcess(row["pid"], _whole_number(row.get("mem")), _whole_number(row.get("util"), 100))
        for row in rows
        if isinstance(row, dict) and _whole_number(row.get("pid"))
    )


def _told(
    vendor: VendorDescription,
    sources: Sequence[Source],
    devices: Sequence[AcceleratorDevice],
    report: MachineReport,
) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for source in sources:
        try:
            rows = {row.get(source.join): row for row in _rows(source, vendor, report)}
        except _Unreadable:
            continue
        for device in devices:
            row = rows.get(device.facts.get(source.join)) if source.join in device.facts else None
            known = {name: value for name, value in (row or {}).items() if name != source.join}
            told.setdefault(device.device_id, {}).update(
                {name: value for name, value in known.items() if value is not None}
            )
    return {device_id: values for device_id, values in told.items() if values}


# Devices


def _devices(vendor: VendorDescription, rows: Sequence[Row]) -> tuple[tuple[AcceleratorDevice, ...], bool]:
    """Return the devices of the rows, and whether each row could be told from the others."""
    ids = _ids(vendor, rows)
    groups: dict[Any, list[int]] = {}
    order = sorted(range(len(rows)), key=lambda place: _sort_key(rows[place], ids[place]))
    for position, place in enumerate(order):
        if rows[place].get("links") not in (None, 0, "", "0x0"):
            groups.setdefault(rows[place]["links"], []).append(_index(rows[place], position))
    devices = tuple(
        _device(vendor, rows[place], ids[place], position, groups)
        for position, place in enumerate(order)
        if ids[place]
    )
    return devices, all(ids)


def _device(
    vendor: VendorDescription, row: Row, device_id: str, position: int, groups: Mapping[Any, list[int]]
) -> AcceleratorDevice:
    linked = groups.get(row.get("links"), [])
    numa = _whole_number(row.get("numa"), 2**16)
    facts = {name: value for name, value in row.items() if _is_known(value) and name not in _TYPED}
    return AcceleratorDevice(
        vendor=vendor.name,
        slot_name=mig_slot(str(row.get("profile") or "")) if row.get("parent") else vendor.slot,
        device_id=device_id,
        index=_index(row, position),
        model=str(row.get("model") or vendor.title),
        mem_bytes=_whole_number(row.get("mem_bytes")) or 0,
        numa_node=numa,
        link_group=min(linked) if len(linked) > 1 else None,
        pci_address=str(row.get("pci") or "")[:40],
        parent_id=_named(vendor, str(row["parent"])) if row.get("parent") else "",
        profile=str(row.get("profile") or "")[:40],
        facts={name: value if isinstance(value, int) else str(value) for name, value in facts.items()},
        driver=str(row.get("driver") or "")[:60],
        api_version=_whole_number(row.get("api_version"), 2**31 - 1) or 0,
    )


_TYPED = set(KNOWN_FIELDS) - {"index", "uuid", "serial", "pci", "profile"}


def _whole_machine(devices: Sequence[AcceleratorDevice]) -> AcceleratorDevice:
    """Return the devices of a machine as one, for vendors that cannot separate them."""
    return replace(
        devices[0],
        model=f"{len(devices)} × {devices[0].model}",
        mem_bytes=sum(device.mem_bytes for device in devices),
        link_group=None,
        numa_node=None,
    )


def _with_numa(row: Row, report: MachineReport) -> Row:
    """Return the row with the NUMA node that the kernel tells of its PCI address, if it has none."""
    if row.get("numa") is not None or not row.get("pci"):
        return row
    text = report.files.get(f"{PCI_DEVICES[:-1]}{row['pci']}/numa_node", "").strip()
    return {**row, "numa": int(text) if text.isdecimal() else None}


def _ids(vendor: VendorDescription, rows: Sequence[Row]) -> list[str]:
    """Return an id for each row, by the first key that is known and that no other row has; "" for a
    row that has none.
    """
    keys = [key.split("+") for key in vendor.identify.by]
    candidates = [[_id(vendor, row, key) for row in rows] for key in keys]
    chosen: list[str] = []
    for place in range(len(rows)):
        own = (ids[place] for ids in candidates if ids[place] and ids.count(ids[place]) == 1)
        chosen.append(next(own, ""))
    return chosen


def _id(vendor: VendorDescription, row: Row, key: Sequence[str]) -> str:
    values = [row.get(name) for name in key]
    if not all(_is_known(value) for value in values):
        return ""
    texts = [str(value) for value in values]
    if vendor.identify.reject and any(re.search(vendor.identify.reject, text) for text in texts):
        return ""
    name = _named(vendor, ":".join(texts))
    return name if len(name) <= MAX_TEXT else ""


def _named(vendor: VendorDescription, text: str) -> str:
    return text if vendor.identify.unique else f"{vendor.name}:{text}"


def _index(row: Row, position: int) -> int:
    index = _whole_number(row.get("index"), 2**16)
    return position if index is None else index


def _sort_key(row: Row, device_id: str) -> tuple[int, str, str]:
    index = _whole_number(row.get("index"), 2**16)
    return (2**16 + 1 if index is None else index, str(row.get("pci") or ""), device_id)


def _joined(rows: Sequence[Row], details: Sequence[Row], join: str) -> list[Row]:
    by_value = {row[join]: row for row in details if _is_known(row.get(join))}
    return [
        {
            **row,
            **{name: value for name, value in by_value.get(row.get(join), {}).items() if _is_known(value)},
        }
        for row in rows
    ]


# Rows of a source


def _rows(source: Source, vendor: VendorDescription, report: MachineReport) -> Iterator[Row]:
    """Yield the rows of a source, each with its fields; None is an unknown value. Raises _Unreadable."""
    for read in _readers(source, report):
        if not all(_holds(text, read, vendor) for text in source.where):
            continue
        if any(_holds(text, read, vendor) for text in source.unless):
            continue
        row = {name: _value(reading, read, vendor) for name, reading in source.fields.items()}
        yield {name: value for name, value in row.items() if not isinstance(value, list) or name in LISTS}


def _readers(source: Source, report: MachineReport) -> Iterator[Read]:
    """Yield a function for each row that returns the raw value of a name."""
    if source.command:
        yield from _answer_readers(source, report)
        return
    paths = () if not source.fields else report.paths if source.sysfs else tuple(report.nodes)
    pattern = _pattern(source.sysfs or source.nodes)
    for path in sorted(paths):
        if found := pattern.fullmatch(path):
            captures = {**found.groupdict(), "path": path}
            yield partial(_file_value, path, captures, report)


@lru_cache(maxsize=256)
def _pattern(template: str) -> re.Pattern[str]:
    """Return the pattern of a glob with captures: numbers, or a PCI address for {bdf}."""
    parts = CAPTURE.split(template)
    text = ""
    for place, part in enumerate(parts):
        if place % 2:
            text += f"(?P<{part}>[0-9a-f:.]+)" if part == "bdf" else f"(?P<{part}>[0-9]+)"
        else:
            text += re.escape(part).replace(r"\*", "[^/]*?")
    return re.compile(text)


def _file_value(
    path: str, captures: Mapping[str, str], report: MachineReport, name: str, how: str
) -> str | list[str] | None:
    if name.startswith("{"):
        return captures.get(name.strip("{}"))
    file, _, key = name.partition(":")
    texts = report.links if how == "link" else report.files
    if how == "sum":
        return [text for each, text in texts.items() if _matching(f"{path}/{file}", (each,))] or None
    found = _found(f"{path}/{file}", texts)
    if found is None or not key:
        return found if found is None else found.strip()
    for line in found.splitlines():
        word, *rest = line.split(maxsplit=1)[:2] or [""]
        if word.rstrip(":=") == key:
            return rest[0].strip() if rest else ""
    return None


def _found(path: str, texts: Mapping[str, str]) -> str | None:
    if "*" not in path:
        return texts.get(path)
    return next((texts[each] for each in sorted(texts) if _matching(path, (each,))), None)


def _answer_readers(source: Source, report: MachineReport) -> Iterator[Read]:
    tool = source.command[0]
    output = report.commands.get(command_key(source.command))
    if output is None or output.problem:
        problem = "missing" if output is None else output.problem
        raise _Unreadable(_FAILURES.get(problem, TOOL_FAILED), tool, is_missing=problem == "missing")
    if output.exit_code != 0:
        raise _Unreadable(TOOL_FAILED, tool, quote=output.stdout)
    try:
        if source.format == "csv":
            rows: list[Any] = [line for line in csv.reader(output.stdout.splitlines()) if line]
            document: Any = None
        else:
            document = json.loads(output.stdout)
            rows = _listed(document, source.rows)
    except (ValueError, csv.Error, RecursionError) as error:
        raise _Unreadable(TOOL_UNCLEAR, tool) from error
    width = max((int(name) for name in _columns(source)), default=-1)
    if source.format == "csv" and any(len(row) <= width for row in rows):
        raise _Unreadable(TOOL_UNCLEAR, tool)
    for row in rows:
        yield partial(_column, row) if source.format == "csv" else partial(_member, document, row)


def _column(row: Sequence[str], name: str, _how: str) -> str:
    return row[int(name)].strip()


def _member(document: Any, row: Any, name: str, _how: str) -> Any:
    return _inside(document, name[1:]) if name.startswith("^") else _inside(row, name)


def _columns(source: Source) -> list[str]:
    names = [reading.split("|")[0] for reading in source.fields.values()]
    return [name for name in names if name.isdecimal()]


def _listed(document: Any, rows: str) -> list[Any]:
    """Return the list at the first of these paths that is one; an object counts as a list of one.
    "cards[].chips" are the chips of all cards, each with its card's values. Raises ValueError without
    any.
    """
    for path in rows.split("|"):
        outer, nested, inner = path.partition("[].")
        found = _inside(document, outer)
        if nested and isinstance(found, list):
            found = [
                {**row, **each}
                for row in found
                if isinstance(row, dict) and isinstance(members := _inside(row, inner), list)
                for each in members
                if isinstance(each, dict)
            ]
        if isinstance(found, dict):
            found = [found]
        if isinstance(found, list) and all(isinstance(row, dict) for row in found):
            return found
    raise ValueError(f"no list at {rows}")


def _inside(value: Any, path: str) -> Any:
    """Return the value at a path of names ("memory.used"); "name[]" goes into each item of a list."""
    if path == ".":
        return value
    for place, name in enumerate(parts := path.split(".")):
        if name.endswith("[]"):
            items = _get(value, name[:-2])
            rest = ".".join(parts[place + 1 :]) or "."
            return [_inside(item, rest) for item in items] if isinstance(items, list) else None
        value = _get(value, name)
    return value


def _get(value: Any, name: str) -> Any:
    """Return a member of an object; versions of a tool may differ in capitals."""
    if not isinstance(value, dict):
        return None
    if name in value:
        return value[name]
    return next((each for key, each in value.items() if key.lower() == name.lower()), None)


# Values


def _value(reading: str, read: Read, vendor: VendorDescription) -> Any:
    """Return the value of a reading, None if it is unknown."""
    name, *filters = reading.split("|")
    value = name[1:] if name.startswith("=") else read(name, filters[0] if filters else "")
    for each in filters:
        word, _, argument = each.partition(":")
        if value is None:
            return None
        if word == "map":
            value = vendor.maps[argument].get(str(value))
        elif word == "kfd_bdf":
            value = filtered(value, word, str(read(argument, "") or 0))
        else:
            value = filtered(value, word, argument)
    return storable(value)


def _holds(where: str, read: Read, vendor: VendorDescription) -> bool:
    reading, operator, wanted = where.split(" ", 2)
    found = _value(reading, read, vendor)
    try:
        left, right = number(found), number(wanted)
    except ValueError:
        return bool({"==": str(found) == wanted, "!=": str(found) != wanted}.get(operator, False))
    return {"==": left == right, "!=": left != right, ">": left > right}[operator]


def _whole_number(value: Any, most: int = MAX_NUMBER) -> int | None:
    """Return a whole number from 0 to `most`, None for others."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        return None
    return round(value)


def _is_known(value: Any) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _matching(pattern: str, paths: Iterable[str]) -> bool:
    """Return True if one of the paths matches the glob; “*” does not match “/”."""
    depth = pattern.count("/")
    return any(path.count("/") == depth and fnmatchcase(path, pattern) for path in paths)


def _has_pci(vendor: VendorDescription, report: MachineReport) -> bool:
    for path in report.files:
        if not path.startswith("/sys/bus/pci/devices/") or not path.endswith("/vendor"):
            continue
        stem = path.removesuffix("vendor")
        words = [report.files.get(stem + name, "") for name in ("vendor", "device", "class")]
        name = ":".join(word.strip().lower().removeprefix("0x") for word in words)
        if any(fnmatchcase(name, glob) for glob in vendor.match.pci):
            return True
    return False
