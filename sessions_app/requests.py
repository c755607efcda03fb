"""What a person asks of a session, checked as far as that needs no database. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import normpath

from common.errors import InvalidInput
from common.slots import CPU, MEM, ResourceSlots, parse_bytes, parse_slots
from sessions_app.specs import HOME

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?\Z")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
RESERVED_VARIABLES = ("BERTH_", "LD_", "HOME", "USER")
MAX_VARIABLES = 100
MAX_ENVIRONMENT_BYTES = 32 * 1024
MAX_COMMAND_BYTES = 64 * 1024
MAX_MOUNTS = 32
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


def parse_request(raw: Mapping[str, object]) -> SessionRequest:
    """`raw` as the REST body has it. Raises InvalidInput that names every wrong field at once."""
    problems: dict[str, list[str]] = {}

    def checked(field_name: str, check, value):  # type: ignore[no-untyped-def]
        try:
            return check(value)
        except ValueError as error:
            problems.setdefault(field_name, []).append(str(error))
            return None

    resources = dict(raw.get("resources") or {})  # type: ignore[call-overload]
    shm = resources.pop("shm", None)
    type_ = checked("type", check_type, raw.get("type") or "interactive")
    request = {
        "name": checked("name", check_name, raw.get("name") or ""),
        "project": str(raw.get("project") or ""),
        "image": str(raw.get("image") or ""),
        "resource_group": str(raw.get("resource_group") or ""),
        "type": type_,
        "slots": checked("resources", check_slots, resources),
        "shm_bytes": DEFAULT_SHM_BYTES if shm is None else checked("resources.shm", parse_bytes, shm),
        "environment": checked("environment", check_environment, raw.get("environment") or {}),
        "mounts": checked("mounts", check_mounts, raw.get("mounts") or ()),
        "command": checked("command", check_command, str(raw.get("command") or "")),
        "timeout_s": checked("timeout_s", check_timeout, raw.get("timeout_s")),
    }
    for required in ("project", "image"):
        if not request[required]:
            problems[required] = [f"Say which {required} to use."]
    if type_ == "batch" and not request["command"] and "command" not in problems:
        problems["command"] = ["A batch session needs a command to run."]
    if type_ == "interactive" and request["command"]:
        problems["command"] = ["Only a batch session runs a command. Set the type to batch."]
    slots, shm_bytes = request["slots"], request["shm_bytes"]
    if slots and shm_bytes is not None and shm_bytes > slots[MEM]:
        problems["resources.shm"] = ["Shared memory counts as memory, so it cannot be more than the memory."]
    if problems:
        first = next(iter(problems))
        raise InvalidInput(f"{first}: {problems[first][0]}", fields=problems)
    return SessionRequest(**request)  # type: ignore[arg-type]


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


def check_slots(value: object) -> ResourceSlots:
    slots = parse_slots(value)  # type: ignore[arg-type]
    for name, unit in ((CPU, "0.01 cores"), (MEM, "32 MiB")):
        if slots[name] < MIN_SLOTS[name]:
            raise ValueError(f"Ask for at least {unit} of {name}.")
    return slots


def check_environment(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > MAX_VARIABLES:
        raise ValueError(f"Give at most {MAX_VARIABLES} variables as an object of names and texts.")
    for name, text in value.items():
        if not isinstance(name, str) or not VARIABLE.match(name):
            raise ValueError(
                f"“{str(name)[:40]}” is not the name of a variable. Use letters, digits and underscores."
            )
        if name.startswith(RESERVED_VARIABLES):
            raise ValueError(f"“{name}” is set by Berth and cannot be replaced.")
        if not isinstance(text, str) or "\0" in text:
            raise ValueError(f"The value of “{name}” must be text without NUL.")
    if sum(len(name.encode()) + len(text.encode()) for name, text in value.items()) > MAX_ENVIRONMENT_BYTES:
        raise ValueError(f"All variables together may have {MAX_ENVIRONMENT_BYTES // 1024} KiB.")
    return dict(value)


def check_command(value: str) -> str:
    if "\0" in value or len(value.encode()) > MAX_COMMAND_BYTES:
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
        mounts.append(
            FolderRequest(
                item["folder"], check_mount_path(path) if path else "", bool(item.get("readonly", False))
            )
        )
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
