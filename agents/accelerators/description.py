"""Description of one accelerator vendor, as data: how its devices are found, told apart, measured
and given to containers, and what an administrator may trust of it.

A description is a YAML file in `vendors/`, or a text of an administrator. `parse_description`
checks it whole: keys, filters, and the names in templates; mistakes are told with file and line.
Expressions (`Reading`) read one value: where from, then filters, such as
"memory.used|num|mul:1048576"; see `read_value` of `reader`.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from agents.accelerators.filters import FILTERS
from common.i18n import gettext_noop

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FILES = Path(__file__).parent / "vendors"
KNOWN_FIELDS = (
    "index", "model", "mem_bytes", "pci", "numa", "links", "driver", "api_version", "parent", "profile",
    "uuid", "serial",
)  # fmt: skip
"""Fields of a device with a meaning for Berth. A description may read others; grants use them as facts."""
MEASURES = ("util", "mem_used", "mem_total", "watts", "celsius", "sm", "tensor", "dram", "held", "processes")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
TEMPLATE = re.compile(r"\{([a-z][a-z0-9_]*)(\*?)\}")
CAUSES: Mapping[str, str] = {
    "reset": gettext_noop("The driver asks for a reset or a restart."),
    "memory_reset": gettext_noop("Failing memory waits for a reset to be replaced."),
    "memory_exchange": gettext_noop("Failing memory could not be replaced; the device should be exchanged."),
    "memory_errors": gettext_noop("Memory errors that could not be corrected."),
    "memory_worse": gettext_noop("More memory has failed."),
    "slowed": gettext_noop("Slowed down by heat or power."),
    "fault": gettext_noop("The driver reports a fault."),
    "silent": gettext_noop("Its firmware no longer answers."),
}
"""Sentences for people, by the word that a rule of health names (`because`)."""
CAPTURE = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_WHEN = re.compile(r"always|cdi|runtime [a-z0-9_.-]+|engine >= \d+(\.\d+)*")
_SIZE = re.compile(r"[1-9]\d*[mg]")


class DescriptionError(ValueError):
    """A description that cannot be used; the text names the file, the line and the mistake."""


def _checked_reading(text: str) -> str:
    for name in text.split("|")[1:]:
        filter_name, colon, argument = name.partition(":")
        if filter_name not in FILTERS:
            raise ValueError(f"unknown filter “{filter_name}”")
        if FILTERS[filter_name] != bool(colon and argument):
            wanted = "needs an argument" if FILTERS[filter_name] else "takes no argument"
            raise ValueError(f"filter “{filter_name}” {wanted}")
        if filter_name in {"sub", "mul", "div"}:
            float(argument)
        if filter_name == "match":
            re.compile(argument)
    return text


def _checked_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"“{text}” is no name of a field (small letters, digits, _)")
    return text


def _checked_path(text: str) -> str:
    """Refuse paths that are not absolute or that leave their directory."""
    if not text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"“{text}” is not an absolute path without “..”")
    return text


def _checked_when(text: str) -> str:
    if not _WHEN.fullmatch(text):
        raise ValueError(f"“{text}” is not “always”, “cdi”, “runtime NAME” or “engine >= VERSION”")
    return text


def _checked_condition(text: str) -> str:
    if not re.fullmatch(r"\S+ (==|!=|>) \S+", text):
        raise ValueError(f"“{text}” is not “READING == VALUE”, “!=” or “>”")
    _checked_reading(text.split(" ")[0])
    return text


def _checked_size(text: str) -> str:
    if not _SIZE.fullmatch(text):
        raise ValueError(f"“{text}” is no size such as 512m or 1g")
    return text


Reading = Annotated[str, AfterValidator(_checked_reading)]
Name = Annotated[str, AfterValidator(_checked_name)]
PathGlob = Annotated[str, AfterValidator(_checked_path)]
Condition = Annotated[str, AfterValidator(_checked_condition)]
When = Annotated[str, AfterValidator(_checked_when)]
Size = Annotated[str, AfterValidator(_checked_size)]
Level = Literal["hardware", "driver", "server", "cooperative", "none"]
"""How well a share is separated from others: by the device, by the driver, by a server for each process,
by a library that programs can step around, or not at all."""
Cause = Literal[
    "reset", "memory_reset", "memory_exchange", "memory_errors", "memory_worse", "slowed", "fault", "silent",
]  # fmt: skip
Action = Literal["ignore", "warn", "quarantine"]
Place = tuple[str | int, ...]
"""Keys and positions that lead to a value of a description."""


class StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class Verified(StrictModel):
    """Proof of the description: nothing, recorded answers, or real devices."""

    by: Literal["none", "fixture", "hardware"] = "none"
    note: str


class Match(StrictModel):
    """Signs of a machine with devices of this vendor; any of them suffices.

    `pci`: globs of vendor:device:class in hexadecimal ("10de:*:0302*"). `paths`: globs of paths that
    exist. `cdi`: kind of CDI devices, `runtime`: name of a runtime, of which the engine tells.
    """

    pci: tuple[str, ...] = ()
    paths: tuple[PathGlob, ...] = ()
    cdi: str = ""
    runtime: str = ""


class ProbeRequirements(StrictModel):
    """Parts that a probe container must get so that commands work: device nodes, files of the machine
    (read-only), all devices of a driver of the engine, or a runtime.
    """

    devices: tuple[PathGlob, ...] = ()
    files: tuple[PathGlob, ...] = ()
    driver: str = ""
    runtime: str = ""


class Source(StrictModel):
    """Rows of values: of directories (`sysfs`), of device nodes (`nodes`) or of a command.

    `sysfs` and `nodes` are globs with {captures}; a row's values are "{capture}", "file" below the
    directory, "file:key" of a file with lines of keys and values, or "=constant". A `command` prints
    `json`, in which `rows` is the path to a list or an object (alternatives by “|”, "." is all), or
    `csv` without a header, whose columns are numbers. "^name" reads from the top of the document.
    `where` keeps the rows for which all of its conditions hold ("vendor == 0x1002"), `unless` drops
    those for which any holds. `join` is the field by which rows are added to those found before.
    `optional`: without this tool nothing is missing.
    """

    sysfs: PathGlob = ""
    nodes: PathGlob = ""
    command: tuple[str, ...] = ()
    format: Literal["json", "csv"] = "json"
    rows: str = "."
    where: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    join: str = ""
    optional: bool = False
    fields: Mapping[Name, Reading] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> "Source":
        ways = sum(map(bool, (self.sysfs, self.nodes, self.command)))
        if ways != bool(self.fields):
            raise ValueError("exactly one of sysfs, nodes and command, and fields; or nothing")
        return self


class Discover(Source):
    """Source of the devices, and sources that add values to them; what its commands need."""

    requires: ProbeRequirements = ProbeRequirements()
    detail: tuple[Source, ...] = ()


class Identify(StrictModel):
    """Rule that tells a device from others, so that it is the same after a restart.

    `by`: fields in order of preference, "serial+pci" for two of them; the first whose values are all
    present and do not match `reject` makes the id. `need`: rows without these fields are no devices.
    `unique`: the vendor's ids differ from those of other vendors; else Berth puts the name before them.
    `stable`: the id survives a restart of the machine.
    """

    by: tuple[str, ...]
    reject: str = ""
    need: tuple[Name, ...] = ()
    unique: bool = False
    stable: bool


class Idle(StrictModel):
    """Sign that a device is used: `util`, or that it is `held`; `session`: nothing, only the session's
    own activity is judged. With `when_held`, the use of a device that is not held is not judged.
    """

    by: Literal["util", "held", "session"] = "session"
    when_held: bool = False


class HeldThreshold(StrictModel):
    """A device is held by a program if the measure `by` is above `above` (bytes, or a count)."""

    by: Literal["mem_used", "held"]
    above: int = 0


class Measure(StrictModel):
    """Measurement of the devices: by the meter (`meter`: NVML), files, a command, or not at all.

    `sources` read measures (`MEASURES`) of all devices; without any, `method` is `none`. `absent` lists
    the measures that cannot be told: always, of a partition (MIG, CPX), or of the share of a device.
    """

    method: Literal["meter", "sysfs", "command", "none"] = "none"
    sources: tuple[Source, ...] = ()
    absent: Mapping[str, tuple[Literal["always", "partition", "share"], ...]] = {}
    held: HeldThreshold | None = None
    idle: Idle = Idle()

    @model_validator(mode="after")
    def _whole(self) -> "Measure":
        if (self.idle.by == "held" or self.idle.when_held) and self.held is None:
            raise ValueError("idle is judged by held, but held is not described")
        if (self.method == "none") == bool(self.sources):
            raise ValueError("a method other than none needs sources, and none has no sources")
        return self


class Request(StrictModel):
    """Request of devices to a driver of the engine ("cdi" or another)."""

    driver: str
    ids: tuple[str, ...]
    capabilities: tuple[str, ...] = ()


class GrantParts(StrictModel):
    """Parts of a grant. Templates: {field} of a device, {i} its position in the grant, {field*} the
    values of all devices, joined by commas. "/path:/target" is seen at another path, and "/path?" is
    left out where the machine has no such path; paths may be globs. Nodes and environment without
    fields are given once.

    `groups` are paths of nodes, whose owning group the processes get. `syscalls` are allowed beyond the
    usual. `shm` is the least size of /dev/shm. `binds` are read-only.
    """

    devices: tuple[PathGlob, ...] = ()
    env: Mapping[str, str] = {}
    binds: tuple[PathGlob, ...] = ()
    groups: tuple[PathGlob, ...] = ()
    caps: tuple[Literal["IPC_LOCK", "SYS_NICE", "SYS_PTRACE"], ...] = ()
    syscalls: tuple[str, ...] = ()
    memlock: bool = False
    shm: Size | Literal[""] = ""


class GrantMethod(GrantParts):
    """One method to give devices, if `when` holds: always, `cdi` (the engine lists all of the request's
    ids), "runtime NAME", "engine >= 28.2".
    """

    when: When = "always"
    request: Request | None = None
    runtime: str = ""


class AllowedSets(StrictModel):
    """Sets of devices that may be given together, by number: `any`, or lists of the values of `key`."""

    key: Name
    sets: Mapping[int, Literal["any"] | tuple[tuple[int, ...], ...]]


class Group(StrictModel):
    """Group that several devices of one container must form, which the vendor's tool makes as root.

    `field` is the number of a device's group. In the commands {group} is that number, and {index*} are the
    indices of the devices, joined by commas; indices are read again after each command.
    """

    field: Name
    create: tuple[str, ...]
    remove: tuple[str, ...]


class Grant(StrictModel):
    """Methods by which containers get devices: the first that holds.

    `deny_env`: names of variables that only Berth may set ("HABANA_*"). `none_env`: values that give no
    device, for every container without devices of this vendor. `extras`: nodes for special networks and
    storage, where a machine has them and the group allows. `unit`: whether one device can be given, or
    only all of the machine, which count as one device then. `group`: what several devices must form.
    """

    deny_env: tuple[str, ...] = ()
    none_env: Mapping[str, str] = {}
    methods: tuple[GrantMethod, ...] = ()
    extras: Mapping[Literal["rdma", "storage"], GrantParts] = {}
    allowed_sets: AllowedSets | None = None
    unit: Literal["device", "machine"] = "device"
    group: Group | None = None


class Sharing(StrictModel):
    """One mode in which a device is given in parts.

    `level`: how well it separates. `needs`: words for what must hold, such as root, idle, cgroup2,
    "driver >= 615". `not_with`: other modes. `most`: number of users of a device, None: no bound.
    """

    level: Level
    needs: tuple[str, ...] = ()
    not_with: tuple[str, ...] = ()
    most: int | None = None
    sizes: tuple[int, ...] = ()


Mode = Literal["mig", "memory", "mps", "hook", "slice", "cpx"]
"""Modes of sharing (`agents.core.isolation`), and partitions that are devices of their own."""


class Xid(StrictModel):
    """Events of NVIDIA's driver by number; those in no list are treated as `rest`."""

    ignore: tuple[int, ...] = ()
    warn: tuple[int, ...] = ()
    quarantine: tuple[int, ...] = ()
    rest: Action = "quarantine"


class HealthRule(StrictModel):
    """One rule about a value of `Health.fields`: it `is` or `is_not` one of these, is above a number,
    grows, or does not change (`stuck`) between looks. `because` is a word of `CAUSES`.
    """

    field: Name
    one_of: tuple[str | int, ...] = ()
    none_of: tuple[str | int, ...] = ()
    above: float | None = None
    grows: bool = False
    stuck: bool = False
    then: Literal["warn", "quarantine"]
    because: Cause

    @model_validator(mode="after")
    def _one_test(self) -> "HealthRule":
        if sum((bool(self.one_of), bool(self.none_of), self.above is not None, self.grows, self.stuck)) != 1:
            raise ValueError("exactly one of one_of, none_of, above, grows and stuck")
        return self


class Health(StrictModel):
    """Signs of ill devices, by the values of `source`. `lost`: a device that was there and is no
    longer.
    """

    source: Source | None = None
    rules: tuple[HealthRule, ...] = ()
    xid: Xid | None = None
    lost: Action = "quarantine"


class VendorDescription(StrictModel):
    """One vendor: see the module. `slot` names what sessions request, `maps` tables for the filter
    `map`. `sharing` lists the ways in which one device serves several sessions; without any, its driver
    admits one program at a time, and no part of a device is given.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    title: str
    slot: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    verified: Verified
    match: Match
    discover: Discover
    identify: Identify
    measure: Measure = Measure()
    grant: Grant = Grant()
    sharing: Mapping[Mode, Sharing] = {}
    health: Health = Health()
    maps: Mapping[str, Mapping[str, str | int]] = {}

    @property
    def is_measured(self) -> bool:
        """Return True if the use of its devices can be measured."""
        return bool(self.measure.sources) or self.measure.method != "none"

    @property
    def fields(self) -> frozenset[str]:
        """Names of all values of a device."""
        sources = (self.discover, *self.discover.detail)
        return frozenset(name for source in sources for name in source.fields)


def parse_description(text: str, file: str) -> VendorDescription:
    """Return the description in a YAML text. Raises DescriptionError with file and line."""
    try:
        node = yaml.compose(text, Loader=LOADER)
        data = yaml.load(text, Loader=LOADER)  # noqa: S506  (it is a safe loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        raise DescriptionError(f"{file}:{line}: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(data, dict):
        raise DescriptionError(f"{file}:1: a description is a table of keys and values")
    _refuse_twice(node, file)
    return validated(data, file, node)


def validated(data: Mapping[str, Any], file: str, node: yaml.Node | None = None) -> VendorDescription:
    """Return the description in `data`; `node` gives the lines of its text, if it has one."""
    try:
        vendor = VendorDescription.model_validate(data)
    except ValidationError as error:
        # A misspelt key is also a missing one; the misspelling tells more.
        first = min(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
        raise _mistake(first["loc"], first["msg"].removeprefix("Value error, "), file, node) from error
    for path, message in _unknown_names(vendor):
        raise _mistake(path, message, file, node)
    return vendor


@cache
def shipped_vendors() -> tuple[VendorDescription, ...]:
    """Return the descriptions that Berth ships, by name."""
    found = [
        parse_description(path.read_text(encoding="utf-8"), path.name)
        for path in sorted(FILES.glob("*.yaml"))
    ]
    return tuple(sorted(found, key=lambda vendor: vendor.name))


def vendor_named(name: str) -> VendorDescription | None:
    """Return a shipped description."""
    return next((vendor for vendor in shipped_vendors() if vendor.name == name), None)


def tells_use(vendor: str) -> bool:
    """Return False if the use of the vendor's devices cannot be measured; own vendors never tell it."""
    description = vendor_named(vendor)
    return not vendor or (description is not None and description.is_measured)


@cache
def no_accelerators() -> Mapping[str, str]:
    """Return the variables that give a container no device, on machines whose default runtime is a
    vendor's: such a runtime gives devices to every container that has its variable, from its image or
    from its user, and Gaudi's even to one without it.
    """
    found = {name: value for vendor in shipped_vendors() for name, value in vendor.grant.none_env.items()}
    return MappingProxyType(dict(sorted(found.items())))


def is_denied_variable(name: str) -> bool:
    """Return True if only Berth may set this variable."""
    return any(fnmatchcase(name, glob) for vendor in shipped_vendors() for glob in vendor.grant.deny_env)


def _mistake(path: Place, message: str, file: str, node: yaml.Node | None) -> DescriptionError:
    line = "" if node is None else f":{_line(node, path)}"
    return DescriptionError(f"{file}{line}: {'.'.join(map(str, path)) or 'description'}: {message}")


def _unknown_names(vendor: VendorDescription) -> Iterator[tuple[Place, str]]:
    """Yield the path and the mistake of each name that the description uses and nothing defines."""
    for path, source in _sources(vendor):
        captures = {"path", *CAPTURE.findall(source.sysfs + source.nodes)}
        for name, reading in source.fields.items():
            for capture in set(CAPTURE.findall(reading)) - captures:
                yield (*path, "fields", name), f"the glob has no {{{capture}}}"
            for table in re.findall(r"\|map:([^|]+)", reading):
                if table not in vendor.maps:
                    yield (*path, "fields", name), f"no map “{table}”"
        if path != ("discover",) and source.join not in source.fields:
            yield (*path, "join"), "needed: a field of this source by which its rows find their device"
        if source.join and source.join not in vendor.fields:
            yield (*path, "join"), f"no field “{source.join}” is discovered"
    yield from _unknown_templates(vendor)
    keys: list[tuple[Place, str]] = [
        (("identify", "by", place), key) for place, key in enumerate(vendor.identify.by)
    ]
    keys += [(("identify", "need", place), key) for place, key in enumerate(vendor.identify.need)]
    if vendor.grant.group:
        yield from _unknown_words(vendor.grant.group)
        keys.append((("grant", "group", "field"), vendor.grant.group.field))
    if vendor.grant.allowed_sets:
        keys.append((("grant", "allowed_sets", "key"), vendor.grant.allowed_sets.key))
    for place, key in keys:
        for name in set(key.split("+")) - vendor.fields:
            yield place, f"no field “{name}” is discovered"
    yield from _unknown_measures(vendor)


def _unknown_templates(vendor: VendorDescription) -> Iterator[tuple[Place, str]]:
    parts: list[tuple[Place, GrantParts]] = [
        (("grant", "methods", place), method) for place, method in enumerate(vendor.grant.methods)
    ]
    parts += [(("grant", "extras", name), extra) for name, extra in vendor.grant.extras.items()]
    for path, own in parts:
        texts: list[tuple[Place, str]] = [((*path, "env", name), text) for name, text in own.env.items()]
        for part in ("devices", "binds", "groups"):
            texts += [((*path, part, place), text) for place, text in enumerate(getattr(own, part))]
        if isinstance(own, GrantMethod) and own.request:
            texts += [((*path, "request", "ids", place), text) for place, text in enumerate(own.request.ids)]
        for place, text in texts:
            for name, _ in TEMPLATE.findall(text):
                if name not in vendor.fields | {"i"}:
                    yield place, f"no field “{name}” is discovered"
            if set("{}") & set(TEMPLATE.sub("", text)):
                yield place, f"“{text}” has braces that are no {{field}}"


def _unknown_words(group: Group) -> Iterator[tuple[Place, str]]:
    for name in ("create", "remove"):
        for place, word in enumerate(getattr(group, name)):
            if set("{}") & set(word.replace("{group}", "").replace("{index*}", "")):
                yield ("grant", "group", name, place), f"“{word}” names neither {{group}} nor {{index*}}"


def _unknown_measures(vendor: VendorDescription) -> Iterator[tuple[Place, str]]:
    for place, source in enumerate(vendor.measure.sources):
        for name in source.fields:
            if name not in (*MEASURES, source.join):
                yield ("measure", "sources", place, "fields", name), f"unknown measure “{name}”"
    for name in vendor.measure.absent:
        if name not in MEASURES:
            yield ("measure", "absent", name), f"unknown measure “{name}”"
    read = vendor.health.source.fields if vendor.health.source else {}
    for place, rule in enumerate(vendor.health.rules):
        if rule.field not in read:
            yield ("health", "rules", place, "field"), f"no field “{rule.field}” is read"


def _sources(vendor: VendorDescription) -> Iterator[tuple[Place, Source]]:
    yield ("discover",), vendor.discover
    for place, detail in enumerate(vendor.discover.detail):
        yield ("discover", "detail", place), detail
    for place, source in enumerate(vendor.measure.sources):
        yield ("measure", "sources", place), source
    if vendor.health.source:
        yield ("health", "source"), vendor.health.source


def _line(node: yaml.Node | None, path: Place) -> int:
    """Return the line of the value at `path`, or of the last node on the way to it."""
    line = 1 if node is None else node.start_mark.line + 1
    for part in map(str, path):
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
    return line


def _refuse_twice(node: yaml.Node | None, file: str) -> None:
    """Refuse a key that a table has twice: YAML would keep the last."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise DescriptionError(f"{file}:{key.start_mark.line + 1}: “{key.value}” stands here twice")
            seen.add(key.value)
            _refuse_twice(value, file)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_twice(value, file)
