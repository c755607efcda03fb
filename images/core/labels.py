"""Parses an image's labels into hints: apps, minimum resources, accelerators, texts. Pure.

Labels are untrusted text, written by the author of the image. Invalid ones are ignored and listed
in `problems`; an image without labels works.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from common.values.resources import CPU, MEM, ResourceSlots, parse_slots

OWN = "io.berth."
OTHER = "ai.backend."  # label prefix of Backend.AI's images
SESSION_ROLE = "session-image"

MAX_APPS = 20
MAX_APPS_TEXT = 16 * 1024
MAX_COMMAND_WORDS = 64
MAX_WORD = 1024
MAX_TITLE = 60
MAX_DESCRIPTION = 500
MAX_PORT = 65535
MAX_ACCELERATORS = 8
NVIDIA_NEEDS = "NVIDIA_REQUIRE_CUDA"
"""Variable in which NVIDIA's images state the CUDA that they need: alternatives, separated by spaces,
of conditions, separated by commas, like "cuda>=12.4 brand=tesla,driver>=525". The alternatives need
NVIDIA's compatibility libraries, so only the version counts.
"""

_APP_NAME = re.compile(r"(?=.{1,20}\Z)[a-z0-9]+(?:-+[a-z0-9]+)*\Z")
_HEALTH = re.compile(r"/(?!/)[A-Za-z0-9._~/?=&%-]{0,199}\Z")
_ICON = re.compile(r"[a-z0-9-]{1,40}\Z")
_SERVICE = re.compile(r"([a-z0-9-]{1,20}):(http|preopen):\[?(\d{1,5})\b")
_ACCELERATOR = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_VERSION = re.compile(r"(\d{1,3})(?:\.(\d{1,2}))?(?:\.\d+)*\Z", re.ASCII)
_LEAST_CUDA = re.compile(r"(?:\A|[ ,])cuda>=([0-9.]{1,16})(?=[ ,]|\Z)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AppHint:
    """An app in an image. `command` may contain {token}, {port} and {start_dir}; an app with an
    empty one cannot be started.
    """

    name: str
    title: str
    port: int
    command: tuple[str, ...] = ()
    autostart: bool = False
    health: str = "/"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "command": list(self.command)}


@dataclass(frozen=True, slots=True)
class ImageHints:
    """All valid hints; texts are empty and amounts zero if the image has none. `accelerators`: the
    only device slots that it can use, none: any. `min_cuda`: as 12040 for CUDA 12.4.
    """

    title: str = ""
    description: str = ""
    icon: str = ""
    is_session_image: bool = False
    bears_readonly_root: bool = False
    apps: tuple[AppHint, ...] = ()
    min_slots: ResourceSlots = field(default_factory=ResourceSlots)
    accelerators: tuple[str, ...] = ()
    min_cuda: int = 0
    problems: tuple[str, ...] = ()


def read_hints(labels: Mapping[str, str], environment: Mapping[str, str] = NO_VARIABLES) -> ImageHints:
    """Return the hints in Berth's labels, and apps, amounts and accelerators from the ai.backend.*
    labels, and the least CUDA from NVIDIA's variable, if those are absent. Never raises.
    """
    problems: list[str] = []
    icon = labels.get(f"{OWN}icon", "")
    return ImageHints(
        title=_plain(labels.get(f"{OWN}title", ""), MAX_TITLE),
        description=_plain(labels.get(f"{OWN}description", ""), MAX_DESCRIPTION),
        icon=icon if _ICON.match(icon) else "",
        is_session_image=labels.get(f"{OWN}role") == SESSION_ROLE,
        bears_readonly_root=labels.get(f"{OWN}readonly-root") == "true",
        apps=_apps(labels, problems),
        min_slots=_min_slots(labels, problems),
        accelerators=_accelerators(labels, problems),
        min_cuda=_min_cuda(labels, environment, problems),
        problems=tuple(problems),
    )


def parse_apps(text: str) -> tuple[AppHint, ...]:
    """Parse an io.berth.apps label. Raises ValueError, also if only one app is invalid."""
    if len(text) > MAX_APPS_TEXT:
        raise ValueError(f"longer than {MAX_APPS_TEXT} characters")
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("not JSON") from error
    if not isinstance(entries, list) or len(entries) > MAX_APPS:
        raise ValueError(f"not a list of at most {MAX_APPS} apps")
    apps = tuple(_app(entry) for entry in entries)
    for quality in ("name", "port"):
        if len({getattr(app, quality) for app in apps}) != len(apps):
            raise ValueError(f"two apps have the same {quality}")
    return apps


def _app(entry: object) -> AppHint:
    if not isinstance(entry, dict):
        raise ValueError("an app that is not an object")
    name, port = entry.get("name"), entry.get("port")
    if not isinstance(name, str) or not _APP_NAME.match(name):
        raise ValueError("an app whose name is not 1 to 20 of a-z, 0-9 and inner dashes")
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= MAX_PORT:
        raise ValueError(f"the port of the app {name} is not between 1 and {MAX_PORT}")
    title, health = entry.get("title", name), entry.get("health", "/")
    if not isinstance(title, str) or not 1 <= len(title) <= MAX_TITLE or _CONTROL.search(title):
        raise ValueError(f"the title of the app {name} is not a text of up to {MAX_TITLE} characters")
    if not isinstance(health, str) or not _HEALTH.match(health):
        raise ValueError(f"the health path of the app {name} is not a path")
    autostart = entry.get("autostart", False)
    if not isinstance(autostart, bool):
        raise ValueError(f"autostart of the app {name} is neither true nor false")
    return AppHint(name, title, port, _command(name, entry.get("command", [])), autostart, health)


def _command(name: str, words: object) -> tuple[str, ...]:
    if not isinstance(words, list) or len(words) > MAX_COMMAND_WORDS:
        raise ValueError(f"the command of the app {name} is not a list of at most {MAX_COMMAND_WORDS} words")
    for word in words:
        if not isinstance(word, str) or len(word) > MAX_WORD or "\0" in word:
            raise ValueError(
                f"a word in the command of the app {name} is not a text of up to {MAX_WORD} characters"
            )
    return tuple(words)


def _apps(labels: Mapping[str, str], problems: list[str]) -> tuple[AppHint, ...]:
    text = labels.get(f"{OWN}apps")
    if text is None:
        return _service_ports(labels.get(f"{OTHER}service-ports", ""))
    try:
        return parse_apps(text)
    except ValueError as error:
        problems.append(f"{OWN}apps: {error}")
        return ()


def _service_ports(text: str) -> tuple[AppHint, ...]:
    """Parse web apps from "name:http:port,name:preopen:port".
    Only their ports are known, as these labels hold no command.
    """
    apps: dict[str, AppHint] = {}
    for name, _, port in _SERVICE.findall(text[:MAX_APPS_TEXT]):
        is_new = all(app.port != int(port) for app in apps.values())
        if _APP_NAME.match(name) and 1 <= int(port) <= MAX_PORT and is_new and len(apps) < MAX_APPS:
            apps.setdefault(name, AppHint(name, name, int(port)))
    return tuple(apps.values())


def _min_slots(labels: Mapping[str, str], problems: list[str]) -> ResourceSlots:
    prefix = f"{OWN}min."
    amounts = {
        label.removeprefix(prefix): amount for label, amount in labels.items() if label.startswith(prefix)
    }
    if not amounts:
        other = {slot: labels.get(f"{OTHER}resource.min.{slot}") for slot in (CPU, MEM)}
        amounts = {slot: amount for slot, amount in other.items() if amount is not None}
    try:
        return parse_slots(amounts)
    except ValueError as error:
        problems.append(str(error))
        return ResourceSlots()


def _accelerators(labels: Mapping[str, str], problems: list[str]) -> tuple[str, ...]:
    text = labels.get(f"{OWN}accelerators", labels.get(f"{OTHER}accelerators", ""))
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) > MAX_ACCELERATORS or not all(map(_ACCELERATOR.match, names)):
        problems.append(f"accelerators: not a list of names of slots: {text[:MAX_TITLE]}")
        return ()
    return tuple(sorted(set(names)))


def _min_cuda(labels: Mapping[str, str], environment: Mapping[str, str], problems: list[str]) -> int:
    stated = _LEAST_CUDA.findall(environment.get(NVIDIA_NEEDS, "")[:MAX_APPS_TEXT])
    text = labels.get(f"{OWN}min-cuda", stated[0] if stated else "")
    found = _VERSION.match(text)
    if found is None:
        if text:
            problems.append(f"min-cuda: not a version like 12.4: {text[:MAX_TITLE]}")
        return 0
    return int(found[1]) * 1000 + int(found[2] or 0) * 10


def _plain(text: str, limit: int) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())[:limit]
