"""Validates a request for a session as far as that needs no database. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from posixpath import normpath
from typing import Any

from common.errors import InvalidInput
from common.i18n import gettext as _
from common.values.resources import CPU, MEM, MILLI, ResourceSlots, format_amount, parse_bytes, parse_slots
from common.values.text import check_text, check_unicode, is_word, normalised, quoted, shown, unknown_field
from sessions_app.core.array_spec import ArraySpec, check_array
from sessions_app.core.callbacks import check_callback_url
from sessions_app.core.container_spec import HOME
from sessions_app.core.placement import check_placement_rule, check_placement_together
from sessions_app.core.queue_options import (
    MAX_SESSION_NAME,
    DependencyRequest,
    check_dependencies,
    check_pending_timeout,
    check_priority,
    check_retries,
    check_start_at,
)

_WHOLE = re.compile(r"\d{1,9}\Z", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
RESERVED_PREFIXES = ("BERTH_", "LD_")
RESERVED_VARIABLES = frozenset({"HOME", "USER"})
MAX_REFERENCE_LENGTH = 255
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
FIELDS = (
    "name", "project", "image", "resource_group", "type", "resources", "environment", "mounts", "command", "timeout_s",
    "personal_files", "priority", "start_at", "pending_timeout_s", "dependencies",
    "max_retries", "requeues", "callback_url", "designated_agent", "may_run_elsewhere", "device_model", "array",
    "placement_group", "placement_rule",
)  # fmt: skip
MOUNT_FIELDS = ("folder", "path", "readonly")


@dataclass(frozen=True, slots=True)
class FolderRequest:
    """Folder by id or name, and its mount path; empty means `/home/work/<folder name>`."""

    folder: str
    path: str = ""
    is_readonly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """Request for a session in which each value is valid on its own."""

    name: str
    project: str
    image: str
    type: str
    slots: ResourceSlots
    shm_bytes: int
    resource_group: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[FolderRequest] = ()
    command: str = ""
    timeout_s: int | None = None
    personal_files: bool = True
    priority: int = 0
    start_at: datetime | None = None
    pending_timeout_s: int | None = None
    dependencies: Sequence[DependencyRequest] = ()
    max_retries: int = 0
    requeues: bool = False
    callback_url: str = ""
    designated_agent: str = ""
    may_run_elsewhere: bool = False
    device_model: str = ""
    array: ArraySpec | None = None
    placement_group: str = ""
    placement_rule: str = ""


def parse_request(raw: object) -> SessionRequest:
    """Parse a request in the form of the REST body. Raises InvalidInput naming every invalid field."""
    if not isinstance(raw, Mapping):
        raise InvalidInput(_('A request for a session is an object of fields: {"name": "train", …}.'))
    problems = {shown(name): [unknown_field(name, FIELDS)] for name in list(raw)[:100] if name not in FIELDS}

    def checked(field_name: str, check, value):  # type: ignore[no-untyped-def]
        try:
            return check(value)
        except ValueError as error:
            problems.setdefault(field_name, []).append(str(error))
            return None

    resources = checked("resources", check_resources, raw.get("resources"))
    shm = (resources or {}).pop("shm", None)
    request = {
        "name": checked("name", check_name, raw.get("name")),
        "project": checked("project", check_reference, raw.get("project")),
        "image": checked("image", check_reference, raw.get("image")),
        "resource_group": checked("resource_group", check_reference, raw.get("resource_group")),
        "type": checked("type", check_type, raw.get("type")),
        "slots": None if resources is None else check_slots(resources, problems),
        "shm_bytes": DEFAULT_SHM_BYTES if shm is None else checked("resources.shm", parse_bytes, shm),
        "environment": checked("environment", check_environment, raw.get("environment")),
        "mounts": check_mounts(raw.get("mounts"), problems),
        "command": checked("command", check_command, raw.get("command")),
        "timeout_s": checked("timeout_s", check_timeout, raw.get("timeout_s")),
        "personal_files": checked("personal_files", check_switch, raw.get("personal_files", True)),
        "priority": checked("priority", check_priority, raw.get("priority")),
        "start_at": checked("start_at", check_start_at, raw.get("start_at")),
        "pending_timeout_s": checked(
            "pending_timeout_s", check_pending_timeout, raw.get("pending_timeout_s")
        ),
    }
    request["max_retries"] = checked("max_retries", check_retries, raw.get("max_retries"))
    request["requeues"] = checked("requeues", check_switch, raw.get("requeues", False))
    request["callback_url"] = checked("callback_url", check_callback_url, raw.get("callback_url"))
    request["designated_agent"] = checked("designated_agent", check_reference, raw.get("designated_agent"))
    elsewhere = raw.get("may_run_elsewhere", False)
    request["may_run_elsewhere"] = checked("may_run_elsewhere", check_switch, elsewhere)
    request["device_model"] = checked("device_model", check_reference, raw.get("device_model"))
    request["array"] = checked("array", check_array, raw.get("array"))
    group, rule = raw.get("placement_group"), raw.get("placement_rule")
    request["placement_group"] = checked("placement_group", check_group_name, group)
    request["placement_rule"] = checked("placement_rule", check_placement_rule, rule)
    request["dependencies"] = check_dependencies(raw.get("dependencies"), problems)
    check_together(request, problems)
    if problems:
        first = next(iter(problems))
        raise InvalidInput(f"{first}: {problems[first][0]}", fields=problems)
    return SessionRequest(**request)  # type: ignore[arg-type]


def check_together(request: Mapping[str, Any], problems: dict[str, list[str]]) -> None:
    """Add to `problems` combinations of values that are invalid although each value is valid."""
    if not request["project"]:
        problems.setdefault("project", [_("Say which project to use.")])
    if not request["image"]:
        problems.setdefault("image", [_("Say which image to use.")])
    if request["type"] == "batch" and not request["command"]:
        problems.setdefault("command", [_("A batch session needs a command to run.")])
    if request["type"] == "interactive" and request["command"]:
        problems["command"] = [_("Only a batch session runs a command. Set the type to batch.")]
    for name in ("max_retries", "requeues"):
        if request["type"] == "interactive" and request[name]:
            problems[name] = [_("Only a batch session is tried again. Set the type to batch.")]
    if request["may_run_elsewhere"] and not request["designated_agent"]:
        problems.setdefault("may_run_elsewhere", [_("It may run anywhere: no machine is named.")])
    if request["device_model"] and request["slots"] and not {*request["slots"]} - {CPU, MEM}:
        problems.setdefault("device_model", [_("It asks for no accelerator, so none can be of this model.")])
    check_array_together(request, problems)
    check_placement_together(request, problems)
    slots, shm_bytes = request["slots"], request["shm_bytes"]
    parts = [name for name, amount in (slots or {}).items() if name not in (CPU, MEM) and amount % MILLI]
    if len(parts) > 1:
        problems[f"resources.{parts[1]}"] = [_("Only one kind of device can be asked for in part.")]
    if slots and slots[MEM] and shm_bytes is not None and shm_bytes > slots[MEM]:
        problems["resources.shm"] = [
            _("Shared memory counts as memory, so it cannot be more than the memory.")
        ]


def check_array_together(request: Mapping[str, Any], problems: dict[str, list[str]]) -> None:
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


def check_resources(value: object) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(
            _("Give amounts by name, like {example}, not {value}.").format(
                example='{"cpu": 1, "mem": "1g"}', value=quoted(value)
            )
        )
    if len(value) > MAX_KINDS:
        raise ValueError(_("Give at most {count} kinds of resources.").format(count=MAX_KINDS))
    return dict(value)


def check_slots(resources: Mapping[str, object], problems: dict[str, list[str]]) -> ResourceSlots:
    """Return amounts in base units. Adds errors to `problems` at `resources.<slot>`."""
    slots = ResourceSlots()
    for name, value in {CPU: 0, MEM: 0, **resources}.items():
        try:
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
            problems[f"resources.{shown(name)}"] = [str(error)]
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
        if name.startswith(RESERVED_PREFIXES) or name in RESERVED_VARIABLES:
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
    """Return whole seconds, which forms send as text; None if empty. Raises ValueError."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and _WHOLE.match(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_TIMEOUT_S:
        sentence = _("{value} is no time limit. Give whole seconds from 1 to {most}.")
        raise ValueError(sentence.format(value=quoted(value), most=MAX_TIMEOUT_S))
    return value


def check_mounts(value: object, problems: dict[str, list[str]]) -> tuple[FolderRequest, ...]:
    """Return the folders to mount.

    Adds errors to `problems` at `mounts` or `mounts.<index>.<field>`.
    """
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MAX_MOUNTS:
        sentence = _("Give a list of at most {count} folders, like {example}.")
        problems["mounts"] = [sentence.format(count=MAX_MOUNTS, example='[{"folder": "data"}]')]
        return ()
    mounts = []
    for index, item in enumerate(value):
        try:
            mounts.append(check_mount(item))
        except _WrongField as error:
            problems[f"mounts.{index}{error.field}"] = [str(error)]
    found = [mount.path for mount in mounts if mount.path]
    if clash := clashing_path(found):
        problems.setdefault("mounts", [clash_sentence(clash)])
    return tuple(mounts)


class _WrongField(ValueError):
    """One field of a mount is invalid."""

    def __init__(self, field_name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = f".{field_name}" if field_name else ""


def check_mount(item: object) -> FolderRequest:
    if not isinstance(item, Mapping):
        raise _WrongField("", _('Each entry needs a folder: {"folder": "data"}.'))
    for name in item:
        if name not in MOUNT_FIELDS:
            raise _WrongField(shown(name), unknown_field(name, MOUNT_FIELDS))
    is_readonly = item.get("readonly", False)
    if not isinstance(is_readonly, bool):
        sentence = _("Give true or false, not {value}.").format(value=quoted(is_readonly))
        raise _WrongField("readonly", sentence)
    try:
        folder = check_reference(item.get("folder"))
    except ValueError as error:
        raise _WrongField("folder", str(error)) from error
    if not folder:
        raise _WrongField("folder", _('Each entry needs a folder: {"folder": "data"}.'))
    try:
        path = check_mount_path(item["path"]) if item.get("path") else ""
    except ValueError as error:
        raise _WrongField("path", str(error)) from error
    return FolderRequest(folder, path, is_readonly)


def check_mount_path(path: object) -> str:
    """Return an absolute, normalised path strictly below the home directory. Raises ValueError."""
    text = check_text(path, max_length=MAX_PATH_BYTES)
    if len(text.encode()) > MAX_PATH_BYTES:
        raise ValueError(_("A mount path has at most {count} bytes.").format(count=MAX_PATH_BYTES))
    if normpath(text) != text or not text.startswith(f"{HOME}/"):
        sentence = _("{path} is not a place for a folder. Use a path below {home}/ without “..”.")
        raise ValueError(sentence.format(path=quoted(text, 80), home=HOME))
    return text


def clashing_path(paths: Sequence[str]) -> str:
    """Return the first path that is duplicated or lies inside another one; "" if there is none."""
    for path in paths:
        if paths.count(path) > 1 or any(path.startswith(f"{other}/") for other in paths):
            return path
    return ""


def clash_sentence(path: str) -> str:
    sentence = _(
        "Two folders cannot share the place {path}: give each a path of its own, none inside another."
    )
    return sentence.format(path=path)
