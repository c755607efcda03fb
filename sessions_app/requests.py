"""What a person asks of a session, checked as far as that needs no database. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import normpath
from typing import Any

from common.errors import InvalidInput
from common.slots import CPU, MEM, ResourceSlots, format_amount, parse_bytes, parse_slots
from sessions_app.specs import HOME

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?\Z")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
RESERVED_PREFIXES = ("BERTH_", "LD_")
RESERVED_VARIABLES = frozenset({"HOME", "USER"})
MAX_REFERENCE_LENGTH = 500
MAX_VARIABLES = 100
MAX_ENVIRONMENT_BYTES = 32 * 1024
MAX_COMMAND_BYTES = 64 * 1024
MAX_MOUNTS = 32
MAX_KINDS = 32
MAX_TIMEOUT_S = 30 * 24 * 3600
MIN_SLOTS = ResourceSlots({CPU: 10, MEM: 32 * 2**20})
DEFAULT_SHM_BYTES = 64 * 2**20
TYPES = ("interactive", "batch")


@dataclass(frozen=True, slots=True)
class FolderRequest:
    """A folder by id or name, and where it appears. An empty path means `/home/work/<folder name>`."""

    folder: str
    path: str = ""
    is_readonly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A request whose every value is legal by itself."""

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


def parse_request(raw: object) -> SessionRequest:
    """`raw` as the REST body has it. Raises InvalidInput that names every wrong field at once."""
    if not isinstance(raw, Mapping):
        raise InvalidInput("A request for a session is an object of fields.")
    problems: dict[str, list[str]] = {}

    def checked(field_name: str, check, value):  # type: ignore[no-untyped-def]
        try:
            return check(value)
        except ValueError as error:
            problems.setdefault(field_name, []).append(str(error))
            return None

    resources = checked("resources", check_resources, raw.get("resources"))
    shm = (resources or {}).pop("shm", None)
    request = {
        "name": checked("name", check_name, raw.get("name") or ""),
        "project": checked("project", check_reference, raw.get("project")),
        "image": checked("image", check_reference, raw.get("image")),
        "resource_group": checked("resource_group", check_reference, raw.get("resource_group")),
        "type": checked("type", check_type, raw.get("type") or "interactive"),
        "slots": None if resources is None else check_slots(resources, problems),
        "shm_bytes": DEFAULT_SHM_BYTES if shm is None else checked("resources.shm", parse_bytes, shm),
        "environment": checked("environment", check_environment, raw.get("environment") or {}),
        "mounts": checked("mounts", check_mounts, raw.get("mounts") or ()),
        "command": checked("command", check_command, raw.get("command") or ""),
        "timeout_s": checked("timeout_s", check_timeout, raw.get("timeout_s")),
    }
    check_together(request, problems)
    if problems:
        first = next(iter(problems))
        raise InvalidInput(f"{first}: {problems[first][0]}", fields=problems)
    return SessionRequest(**request)  # type: ignore[arg-type]


def check_together(request: Mapping[str, Any], problems: dict[str, list[str]]) -> None:
    """Add to `problems` what is wrong with values that are legal one by one."""
    for required in ("project", "image"):
        if not request[required]:
            problems.setdefault(required, [f"Say which {required} to use."])
    if request["type"] == "batch" and not request["command"]:
        problems.setdefault("command", ["A batch session needs a command to run."])
    if request["type"] == "interactive" and request["command"]:
        problems["command"] = ["Only a batch session runs a command. Set the type to batch."]
    slots, shm_bytes = request["slots"], request["shm_bytes"]
    if slots and slots[MEM] and shm_bytes is not None and shm_bytes > slots[MEM]:
        problems["resources.shm"] = ["Shared memory counts as memory, so it cannot be more than the memory."]


def check_name(value: object) -> str:
    if not isinstance(value, str) or not NAME.match(value):
        raise ValueError(
            "Use 1 to 64 letters, digits, dots, dashes and underscores; begin and end with a letter or digit."
        )
    return value


def check_type(value: object) -> str:
    if value not in TYPES:
        raise ValueError(f"“{str(value)[:40]}” is not a type of session. Use interactive or batch.")
    return str(value)


def check_reference(value: object) -> str:
    """Text that may name something; "" if nothing is named."""
    if value is not None and not isinstance(value, str):
        raise ValueError("Give a name as text.")
    if value and (len(value) > MAX_REFERENCE_LENGTH or not value.isprintable()):
        raise ValueError(f"A name has at most {MAX_REFERENCE_LENGTH} printable characters.")
    return value or ""


def check_resources(value: object) -> dict[str, object]:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError('Give amounts by name: {"cpu": 1, "mem": "1g"}.')
    if value and len(value) > MAX_KINDS:
        raise ValueError(f"Give at most {MAX_KINDS} kinds of resources.")
    return dict(value or {})


def check_slots(resources: Mapping[str, Any], problems: dict[str, list[str]]) -> ResourceSlots:
    """Amounts in base units. What is wrong is added to `problems` at `resources.<slot>`."""
    slots = ResourceSlots()
    for name, value in {CPU: 0, MEM: 0, **resources}.items():
        try:
            amount = parse_slots({name: value})
            if amount[name] < MIN_SLOTS[name]:
                raise ValueError(f"Ask for at least {format_amount(name, MIN_SLOTS[name])}.")
            slots += amount
        except ValueError as error:
            problems[f"resources.{name[:40]}"] = [str(error)]
    return slots


def check_environment(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > MAX_VARIABLES:
        raise ValueError(f"Give at most {MAX_VARIABLES} variables as an object of names and texts.")
    for name, text in value.items():
        if not isinstance(name, str) or not VARIABLE.match(name):
            raise ValueError(
                f"“{str(name)[:40]}” is not the name of a variable. Use letters, digits and underscores."
            )
        if name.startswith(RESERVED_PREFIXES) or name in RESERVED_VARIABLES:
            raise ValueError(f"“{name}” is set by Berth and cannot be replaced.")
        if not isinstance(text, str) or "\0" in text:
            raise ValueError(f"The value of “{name}” must be text without NUL.")
    if sum(len(name.encode()) + len(text.encode()) for name, text in value.items()) > MAX_ENVIRONMENT_BYTES:
        raise ValueError(f"All variables together may have {MAX_ENVIRONMENT_BYTES // 1024} KiB.")
    return dict(value)


def check_command(value: object) -> str:
    if not isinstance(value, str) or "\0" in value or len(value.encode()) > MAX_COMMAND_BYTES:
        raise ValueError(f"The command must be text of at most {MAX_COMMAND_BYTES // 1024} KiB without NUL.")
    return value.strip()


def check_timeout(value: object) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not str(value).isdecimal() or not 1 <= int(str(value)) <= MAX_TIMEOUT_S:
        raise ValueError(f"Give whole seconds from 1 to {MAX_TIMEOUT_S}.")
    return int(str(value))


def check_mounts(value: object) -> tuple[FolderRequest, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MAX_MOUNTS:
        raise ValueError(f"Give a list of at most {MAX_MOUNTS} folders.")
    mounts = []
    for item in value:
        if not isinstance(item, Mapping) or not isinstance(item.get("folder"), str) or not item["folder"]:
            raise ValueError('Each entry needs a folder: {"folder": "data"}.')
        path = item.get("path") or ""
        folder = check_reference(item["folder"])
        place = check_mount_path(path) if path else ""
        mounts.append(FolderRequest(folder, place, bool(item.get("readonly", False))))
    return tuple(mounts)


def check_mount_path(path: object) -> str:
    """An absolute path strictly below the home directory, in its shortest form."""
    if (
        not isinstance(path, str)
        or len(path.encode()) > 255
        or any(ord(character) < 32 for character in path)
    ):
        raise ValueError("A mount path is text of at most 255 bytes without control characters.")
    if normpath(path) != path or not path.startswith(f"{HOME}/"):
        raise ValueError(f"“{path[:80]}” is not a place for a folder. Use a path below {HOME}/ without “..”.")
    return path
