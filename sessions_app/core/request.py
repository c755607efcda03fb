"""Declares the fields of a session request, and validates them without a database. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from posixpath import normpath
from typing import Annotated, Any, NamedTuple

from accounts.core.limits import HIGHEST_PRIORITY
from agents.accelerators.description import is_denied_variable
from common.errors import InvalidInput
from common.i18n import gettext as _
from common.values.resources import (
    CPU,
    MEM,
    MILLI,
    ResourceSlots,
    format_amount,
    in_order,
    parse_bytes,
    parse_slots,
    split_part,
)
from common.values.text import check_text, check_unicode, is_word, normalised, quoted, shown
from sessions_app.core.array_spec import LONGEST_SPEC, ArraySpec, check_array
from sessions_app.core.callbacks import MAX_URL_LENGTH, check_callback_url
from sessions_app.core.cluster import (
    MAX_CLUSTER_SIZE,
    MAX_ROLE_NAME,
    MAX_ROLES,
    FailurePolicy,
    Role,
    check_cluster_combinations,
    check_cluster_mode,
    check_failure_policy,
    check_role_count,
    check_role_name,
    roles_of_size,
)
from sessions_app.core.container_spec import HOME
from sessions_app.core.device_request import (
    LEVELS,
    MAX_VERSION,
    DevicePart,
    check_device_api,
    check_device_combinations,
    check_device_mem,
    check_isolation,
    check_kinds,
    check_part,
    expand_mig,
)
from sessions_app.core.placement import (
    Gang,
    PlacementRule,
    check_placement_combinations,
    check_placement_rule,
)
from sessions_app.core.queue_options import (
    LOWEST_PRIORITY,
    MAX_PENDING_TIMEOUT_S,
    MAX_RETRIES,
    MAX_SESSION_NAME,
    DependencyRequest,
    check_dependencies,
    check_pending_timeout,
    check_priority,
    check_retries,
    check_start_at,
)
from sessions_app.core.request_fields import (
    SWITCH,
    TEXT,
    InvalidParts,
    Problems,
    RequestField,
    RequestObject,
    check_whole_number,
    limited_text,
    one_of,
    read_list,
    required_text,
    whole_number,
)
from sessions_app.core.sizes import amount_input
from vfolders.core.paths import parse_path

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
RESERVED_PREFIXES = ("BERTH_", "LD_")
RESERVED_VARIABLES = frozenset({"HOME", "USER"})
MAX_REFERENCE_LENGTH = 255
MAX_FOLDER_LENGTH = 1024
MAX_VARIABLES = 100
MAX_ENVIRONMENT_BYTES = 32 * 1024
MAX_COMMAND_BYTES = 64 * 1024
MAX_MOUNTS = 32
MAX_KINDS = 32
MAX_PATH_BYTES = 255
MAX_TIMEOUT_S = 30 * 24 * 3600
MIN_SLOTS = ResourceSlots({CPU: 10, MEM: 32 * 2**20})
DEFAULT_SHM_BYTES = 64 * 2**20
TYPES = ("interactive", "batch")
BATCH_FIELDS = ("command", "timeout_s", "max_retries", "requeues", "array")
"""Fields that have a meaning in batch sessions only."""
INSTANT = {"type": "string", "format": "date-time"}
VARIABLES = {"type": "object", "additionalProperties": TEXT}
AMOUNT = {"oneOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}
RESOURCES = {
    "type": "object",
    "properties": {CPU: AMOUNT, MEM: AMOUNT, "shm": AMOUNT},
    "required": [CPU, MEM],
}
"""JSON Schema of amounts by name: in cores, bytes or like "1g", and by number of devices. Other
names are free, as slots of accelerators are.
"""


def check_name(value: object) -> str:
    text = normalised(check_unicode(value)) if isinstance(value, str) else ""
    if not (is_word(text) and len(text) <= MAX_SESSION_NAME and text[-1] not in "._-"):
        rule = _(
            "Use 1 to 64 letters, digits, dots, dashes and underscores; begin and end with a letter or digit."
        )
        refusal = _("{name} cannot be a name. {rule}").format(name=quoted(value), rule=rule)
        raise ValueError(refusal if value else rule)
    return text


def check_group_name(value: object) -> str:
    """Return the name of a placement group, validated like a session's; "" for none."""
    return "" if value is None or value == "" else check_name(value)


def check_type(value: object) -> str:
    if value is None or value == "":
        return TYPES[0]
    if not isinstance(value, str) or value not in TYPES:
        raise ValueError(
            _("{type} is not a type of session. Use interactive or batch.").format(type=quoted(value))
        )
    return value


def check_switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(_("{value} is neither true nor false.").format(value=quoted(value)))
    return value


def check_reference(value: object) -> str:
    """Return a reference to an object, "" for none; its existence is not checked."""
    return "" if value is None else check_text(value, max_length=MAX_REFERENCE_LENGTH)


def check_project(value: object) -> str:
    if not (project := check_reference(value)):
        raise ValueError(_("Say which project to use."))
    return project


def check_image(value: object) -> str:
    if not (image := check_reference(value)):
        raise ValueError(_("Say which image to use."))
    return image


class Resources(NamedTuple):
    """Amounts in base units; shared memory is a part of the memory.

    A part of one device by memory and compute is two amounts, "cuda.mem" and "cuda.cores", until
    admission replaces them by a share of "cuda" and keeps them as `part`.
    """

    slots: ResourceSlots
    shm_bytes: int = DEFAULT_SHM_BYTES
    part: DevicePart | None = None

    def to_json(self) -> dict[str, str | int | float]:
        """Return the amounts as users type them: numbers, and text with a unit."""
        slots = self.part.put_back(self.slots) if self.part else self.slots
        typed = {name: amount_input(name, slots[name]) for name in in_order(slots)}
        if self.shm_bytes != DEFAULT_SHM_BYTES:
            typed["shm"] = amount_input(MEM, self.shm_bytes)
        return {
            name: int(amount) if amount.isdigit() else amount if amount[-1].isalpha() else float(amount)
            for name, amount in typed.items()
        }


def check_resources(value: object) -> Resources:
    """Return amounts in base units. Raises ValueError, InvalidParts."""
    if not isinstance(value, Mapping | None):
        raise ValueError(
            _("Give amounts by name, like {example}, not {value}.").format(
                example='{"cpu": 1, "mem": "1g"}', value=quoted(value)
            )
        )
    if value is not None and len(value) > MAX_KINDS:
        raise ValueError(_("Give at most {count} kinds of resources.").format(count=MAX_KINDS))
    amounts, problems = dict(value or {}), Problems()
    shm, shm_bytes = amounts.pop("shm", None), DEFAULT_SHM_BYTES
    expand_mig(amounts, problems)
    slots = _check_slots(amounts, problems)
    check_kinds(slots, problems)
    try:
        shm_bytes = DEFAULT_SHM_BYTES if shm is None else parse_bytes(shm)
        if slots[MEM] and shm_bytes > slots[MEM]:
            raise ValueError(_("Shared memory counts as memory, so it cannot be more than the memory."))
    except ValueError as error:
        problems["shm"] = [str(error)]
    if problems:
        raise InvalidParts(problems)
    return Resources(slots, shm_bytes)


def _check_slots(amounts: Mapping[str, object], problems: Problems) -> ResourceSlots:
    """Return the valid amounts in base units; adds the reasons for the others to `problems`."""
    slots = ResourceSlots()
    for name, value in {CPU: 0, MEM: 0, **amounts}.items():
        try:
            if isinstance(name, str) and split_part(name)[1]:
                slots += check_part(name, value)
                continue
            amount = parse_slots({name: value})
            if amount[name] < MIN_SLOTS[name]:
                least = format_amount(name, MIN_SLOTS[name])
                raise ValueError(_("Ask for at least {amount}.").format(amount=least))
            if name not in (CPU, MEM) and amount[name] > MILLI and amount[name] % MILLI:
                raise ValueError(
                    _(
                        "Devices are given whole, or one in part: ask for a whole number or for less than 1, not {amount}."
                    ).format(amount=format_amount(name, amount[name]))
                )
            slots += amount
        except ValueError as error:
            problems[shown(name)] = [str(error)]
    return slots


def check_environment(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > MAX_VARIABLES:
        sentence = _("Give at most {count} variables as an object of names and texts.")
        raise ValueError(sentence.format(count=MAX_VARIABLES))
    for name, text in value.items():
        if not isinstance(name, str) or not VARIABLE.match(name):
            sentence = _("{name} is not the name of a variable. Use letters, digits and underscores.")
            raise ValueError(sentence.format(name=quoted(name)))
        if name.startswith(RESERVED_PREFIXES) or name in RESERVED_VARIABLES or is_denied_variable(name):
            raise ValueError(_("{name} is set by Berth and cannot be replaced.").format(name=quoted(name)))
        if not isinstance(text, str):
            raise ValueError(_("The value of {name} must be text.").format(name=quoted(name)))
        check_unicode(text)
    if sum(len(name.encode()) + len(text.encode()) for name, text in value.items()) > MAX_ENVIRONMENT_BYTES:
        sentence = _("All variables together may have {size} KiB.")
        raise ValueError(sentence.format(size=MAX_ENVIRONMENT_BYTES // 1024))
    return dict(value)


def check_command(value: object) -> str:
    text = "" if value is None else check_unicode(value)
    if len(text.encode()) > MAX_COMMAND_BYTES:
        sentence = _("The command must be text of at most {size} KiB.")
        raise ValueError(sentence.format(size=MAX_COMMAND_BYTES // 1024))
    return text.strip()


def check_timeout(value: object) -> int | None:
    sentence = _("{value} is no time limit. Give whole seconds from 1 to {most}.")
    return check_whole_number(value, 1, MAX_TIMEOUT_S, sentence)


def check_folder(value: object) -> str:
    """Return a reference to a folder: its id or name, and maybe a path in it, like data/raw."""
    if not value and not isinstance(value, (int, float)):
        raise ValueError(_('Each entry needs a folder: {"folder": "data"}.'))
    text = check_text(value, max_length=MAX_FOLDER_LENGTH)
    folder, slash, path = text.partition("/")
    check_reference(folder)
    if slash:
        parse_path(path)
    return text


def check_mount_path(value: object) -> str:
    """Return an absolute, normalised path strictly below the home directory; "" if empty."""
    if not value:
        return ""
    path = check_text(value, max_length=MAX_PATH_BYTES)
    if len(path.encode()) > MAX_PATH_BYTES:
        raise ValueError(_("A mount path has at most {count} bytes.").format(count=MAX_PATH_BYTES))
    if normpath(path) != path or not path.startswith(f"{HOME}/"):
        sentence = _("{path} is not a place for a folder. Use a path below {home}/ without “..”.")
        raise ValueError(sentence.format(path=quoted(path, 80), home=HOME))
    return path


def check_readonly(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(_("Give true or false, not {value}.").format(value=quoted(value)))
    return value


@dataclass(frozen=True, slots=True)
class FolderRequest(RequestObject):
    """Folder by id or name, maybe with a path in it, and its mount path; by default
    /home/work/<folder name>.
    """

    # fmt: off
    folder: Annotated[str, RequestField(check_folder, required_text(MAX_FOLDER_LENGTH),
        "Id or name of a folder of yours or of your projects; data/raw mounts only that directory of it.")]
    path: Annotated[str, RequestField(check_mount_path, limited_text(MAX_PATH_BYTES),
        "Mount path below /home/work/. Default: /home/work/<folder name>.")] = ""
    readonly: Annotated[bool, RequestField(check_readonly, SWITCH)] = False
    # fmt: on

    @property
    def name(self) -> str:
        """Id or name of the folder, without the path in it."""
        return self.folder.partition("/")[0]

    @property
    def subpath(self) -> str:
        """Path of the directory in the folder, "" for the whole folder."""
        return self.folder.partition("/")[2]


def check_mounts(value: object) -> tuple[FolderRequest, ...]:
    sentence = _("Give a list of at most {count} folders, like {example}.")
    refusal = sentence.format(count=MAX_MOUNTS, example='[{"folder": "data"}]')
    mounts = read_list(value, _check_mount, most=MAX_MOUNTS, refusal=refusal)
    if clash := conflicting_path([mount.path for mount in mounts if mount.path]):
        raise ValueError(path_conflict_message(clash))
    return mounts


def _check_mount(item: object) -> FolderRequest:
    if not isinstance(item, Mapping):
        raise ValueError(_('Each entry needs a folder: {"folder": "data"}.'))
    return FolderRequest.read(item)


def conflicting_path(paths: Sequence[str]) -> str:
    """Return the first path that is duplicated or lies inside another one; "" if there is none."""
    for path in paths:
        if paths.count(path) > 1 or any(path.startswith(f"{other}/") for other in paths):
            return path
    return ""


def path_conflict_message(path: str) -> str:
    sentence = _(
        "Two folders cannot share the place {path}: give each a path of its own, none inside another."
    )
    return sentence.format(path=path)


def check_cluster_size(value: object) -> int:
    sentence = _("{value} is no number of containers. Give a whole number from {least} to {most}.")
    size = check_whole_number(value, 1, MAX_CLUSTER_SIZE, sentence)
    return 1 if size is None else size


def check_role_resources(value: object) -> Resources | None:
    """Return the amounts, None for those of main1. Raises ValueError, InvalidParts."""
    if value is None:
        return None
    resources = check_resources(value)
    for name in resources.slots:
        if split_part(name)[1]:
            sentence = _("Ask for a part of a device in a role as a share, like {example}.")
            raise InvalidParts({name: [sentence.format(example='{"cuda": 0.5}')]})
    return resources


@dataclass(frozen=True, slots=True)
class RoleRequest(RequestObject):
    """Containers of one kind, named by the role and a number: worker1, worker2…"""

    # fmt: off
    name: Annotated[str, RequestField(check_role_name, required_text(MAX_ROLE_NAME),
        "Small letters, digits and dashes, ending with a letter; not main.")]
    count: Annotated[int, RequestField(check_role_count, whole_number(1, MAX_CLUSTER_SIZE - 1))] = 1
    resources: Annotated[Resources | None, RequestField(check_role_resources, RESOURCES,
        "Resources of each; by default those of main1.", to_json=Resources.to_json)] = None
    command: Annotated[str, RequestField(check_command, TEXT,
        "Batch only: command of these containers; by default they wait for commands of main1.")] = ""
    failure_policy: Annotated[str, RequestField(check_failure_policy, one_of(FailurePolicy),
        "If one of them ends: strict: the session fails; tolerate: the others go on.")] = FailurePolicy.STRICT.value
    # fmt: on

    @property
    def role(self) -> Role:
        return Role(
            self.name,
            self.count,
            self.resources.slots if self.resources else None,
            self.resources.shm_bytes if self.resources else None,
            self.command,
            self.failure_policy == FailurePolicy.TOLERATE,
        )


def check_roles(value: object) -> tuple[RoleRequest, ...]:
    sentence = _("Give a list of at most {count} roles, like {example}.")
    refusal = sentence.format(count=MAX_ROLES, example='[{"name": "worker", "count": 2}]')
    return read_list(value, _check_role, most=MAX_ROLES, refusal=refusal)


def _check_role(item: object) -> RoleRequest:
    if not isinstance(item, Mapping):
        raise ValueError(_('Each entry needs a name: {"name": "worker", "count": 2}.'))
    return RoleRequest.read(item)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest(RequestObject):
    """Request of a session."""

    # fmt: off
    name: Annotated[str, RequestField(check_name, required_text(MAX_SESSION_NAME),
        "Letters of any script, digits, dots, dashes and underscores; unique among your live sessions.")]
    project: Annotated[str, RequestField(check_project, required_text(MAX_REFERENCE_LENGTH))]
    image: Annotated[str, RequestField(check_image, required_text(MAX_REFERENCE_LENGTH),
        "Reference of an image, like berth/python:1.")]
    resource_group: Annotated[str, RequestField(check_reference, limited_text(MAX_REFERENCE_LENGTH), option="--group")] = ""
    type: Annotated[str, RequestField(check_type, {**one_of(TYPES), "default": TYPES[0]})]
    resources: Annotated[Resources, RequestField(check_resources, RESOURCES,
        'Resources per container, like {"cpu": 1, "mem": "1g", "shm": "64m"}; with accelerators {"cuda": 2}, a part'
        ' {"cuda": 0.5} or {"cuda.mem": "20g", "cuda.cores": 30}, or MIG slices {"mig": {"1g.10gb": 2}}.',
        to_json=Resources.to_json)]
    environment: Annotated[Mapping[str, str], RequestField(check_environment, VARIABLES)] = field(default_factory=dict)
    mounts: Annotated[Sequence[FolderRequest], RequestField(check_mounts, items=FolderRequest)] = ()
    command: Annotated[str, RequestField(check_command, TEXT, "Batch only: command that a shell runs.")] = ""
    timeout_s: Annotated[int | None, RequestField(check_timeout, whole_number(1, MAX_TIMEOUT_S),
        "Batch only: maximum runtime in seconds.", "--time-limit")] = None
    personal_files: Annotated[bool, RequestField(check_switch, SWITCH,
        "true: with your dotfiles and your start-up script.", "--no-personal-files")] = True
    priority: Annotated[int, RequestField(check_priority, whole_number(LOWEST_PRIORITY, HIGHEST_PRIORITY),
        "Sessions with a higher priority are placed first. Values above 0 must be allowed by a policy.", "--priority")] = 0
    start_at: Annotated[datetime | None, RequestField(check_start_at, INSTANT,
        "Earliest start, with time zone; at most a year ahead.", "--start-at", to_json=datetime.isoformat)] = None
    pending_timeout_s: Annotated[int | None, RequestField(check_pending_timeout, whole_number(1, MAX_PENDING_TIMEOUT_S),
        "Seconds that it waits for an agent before it is cancelled.", "--pending-timeout")] = None
    dependencies: Annotated[Sequence[DependencyRequest], RequestField(check_dependencies, items=DependencyRequest,
        description="Sessions or arrays that must end first; at most 32.")] = ()
    max_retries: Annotated[int, RequestField(check_retries, whole_number(0, MAX_RETRIES),
        "Batch only: maximum number of retries after a failure.", "--retries")] = 0
    requeues: Annotated[bool, RequestField(check_switch, SWITCH,
        "Batch only. true: queued again when its agent is lost; that agent may run the command for a while longer.", "--requeue")] = False
    callback_url: Annotated[str, RequestField(check_callback_url, limited_text(MAX_URL_LENGTH),
        "Address that gets a signed POST when the session starts, is retried, and ends.", "--callback")] = ""
    designated_agent: Annotated[str, RequestField(check_reference, limited_text(MAX_REFERENCE_LENGTH),
        "Name of the only agent of the resource group that may run the session.")] = ""
    may_run_elsewhere: Annotated[bool, RequestField(check_switch, SWITCH,
        "true: other agents may run the session if the designated agent has no capacity.")] = False
    device_model: Annotated[str, RequestField(check_reference, limited_text(MAX_REFERENCE_LENGTH),
        "Model of the accelerators, as reported by agents, or a part of it that fits one model; empty: any.",
        "--gpu-model")] = ""
    device_mem: Annotated[int, RequestField(check_device_mem, AMOUNT,
        'Least memory of each accelerator, in bytes or like "40g"; 0: any.', "--gpu-min-mem",
        to_json=partial(amount_input, MEM))] = 0
    device_api: Annotated[str, RequestField(check_device_api, limited_text(MAX_VERSION),
        "Least version of CUDA or ROCm that the driver supports, like 12.4; empty: any.", "--gpu-min-version")] = ""
    linked_devices: Annotated[bool, RequestField(check_switch, SWITCH,
        "true: all its accelerators are linked with each other (NVLink or similar).", "--gpu-linked")] = False
    isolation: Annotated[str, RequestField(check_isolation, one_of(LEVELS),
        "Least isolation from the other users of the same device; empty: any.", "--isolation")] = ""
    array: Annotated[ArraySpec | None, RequestField(check_array, limited_text(LONGEST_SPEC),
        "Batch only: indices of an array of sessions named NAME-INDEX, like 1-100, 0-9:2 or 1,3,7-9;"
        " 1-100%10 runs at most ten at once.", "--array", to_json=str)] = None
    placement_group: Annotated[str, RequestField(check_group_name, limited_text(MAX_SESSION_NAME),
        "Name of a placement group: your sessions in the project with the same name, placed by the rule of each.",
        "--placement-group")] = ""
    placement_rule: Annotated[str, RequestField(check_placement_rule, one_of(PlacementRule),
        "spread: on other agents than the rest of the group; pack: on the same agents; if they have no capacity,"
        " a strict_… session waits. An array without a group forms its own.")] = ""
    cluster_size: Annotated[int, RequestField(check_cluster_size, whole_number(1, MAX_CLUSTER_SIZE),
        "Number of containers: main1, sub1, sub2…, each with the resources; all start, or none.", "--nodes")] = 1
    cluster_mode: Annotated[str, RequestField(check_cluster_mode, one_of(Gang),
        "Where several containers run: one_machine; anywhere: on one or several machines; spread: each on another.",
        "--nodes-on")] = Gang.ONE_MACHINE.value
    roles: Annotated[Sequence[RoleRequest], RequestField(check_roles, items=RoleRequest,
        description="Containers beside main1, if they are not all equal: names, numbers and resources.")] = ()
    # fmt: on

    @property
    def slots(self) -> ResourceSlots:
        return self.resources.slots

    @property
    def shm_bytes(self) -> int:
        return self.resources.shm_bytes

    @property
    def cluster_roles(self) -> tuple[Role, ...]:
        """Roles of the containers beside main1."""
        return tuple([each.role for each in self.roles]) or roles_of_size(self.cluster_size)

    @property
    def container_slots(self) -> list[ResourceSlots]:
        """Slots of each container, main1 first."""
        others = [role.slots or self.slots for role in self.cluster_roles for _number in range(role.count)]
        return [self.slots, *others]

    @property
    def total_slots(self) -> ResourceSlots:
        """Slots of all containers together."""
        return sum(self.container_slots[1:], self.slots)

    @property
    def slots_at_once(self) -> list[ResourceSlots]:
        """Amounts that one machine must have: of all containers together if they run on one
        machine, else of each kind of container.
        """
        if self.cluster_mode == Gang.ONE_MACHINE:
            return [self.total_slots]
        kinds = self.container_slots
        return [slots for number, slots in enumerate(kinds) if slots not in kinds[:number]]


def parse_request(raw: object) -> SessionRequest:
    """Parse a request in the form of the REST body. Raises InvalidInput naming every invalid field."""
    if not isinstance(raw, Mapping):
        raise InvalidInput(_('A request for a session is an object of fields: {"name": "train", …}.'))
    request, problems = SessionRequest.read_fields(raw)
    check_combinations(request, problems)
    if problems:
        first = next(iter(problems))
        raise InvalidInput(f"{first}: {problems[first][0]}", fields=problems)
    if request["roles"]:
        request["cluster_size"] = 1 + sum(role.count for role in request["roles"])
    return SessionRequest(**request)


def check_combinations(request: Mapping[str, Any], problems: Problems) -> None:
    """Add to `problems` combinations of values that are invalid although each value is valid."""
    if request["type"] == "batch" and not request["command"]:
        problems.setdefault("command", [_("A batch session needs a command to run.")])
    if request["type"] == "interactive" and request["command"]:
        problems["command"] = [_("Only a batch session runs a command. Set the type to batch.")]
    for name in ("max_retries", "requeues"):
        if request["type"] == "interactive" and request[name]:
            problems[name] = [_("Only a batch session is tried again. Set the type to batch.")]
    if request["may_run_elsewhere"] and not request["designated_agent"]:
        problems.setdefault("may_run_elsewhere", [_("It may run anywhere: no machine is named.")])
    check_device_combinations(request, problems)
    check_array_combinations(request, problems)
    check_placement_combinations(request, problems)
    check_cluster_combinations(request, problems)


def check_array_combinations(request: Mapping[str, Any], problems: Problems) -> None:
    array, name = request["array"], request["name"]
    if array is None:
        return
    if request["type"] == "interactive":
        problems["array"] = [_("Only batch sessions come in arrays. Set the type to batch.")]
    longest = max(map(len, array.names(name or "")))
    if name and longest > MAX_SESSION_NAME:
        sentence = _(
            "With the index of an element behind it, {name} is longer than {most} characters. Shorten it."
        )
        problems["name"] = [sentence.format(name=quoted(name), most=MAX_SESSION_NAME)]
