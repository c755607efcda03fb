"""Versions of Docker engines: too old, or known to be bad. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from common.i18n import gettext_noop

LEAST = (20, 10)
_NUMBERS = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")

RUNC_ESCAPE = gettext_noop(
    "Engines before 24.0.9, and 25.0.0 and 25.0.1, usually came with a runc that lets a container reach the "
    "files of the machine (CVE-2024-21626). Check that “runc --version” says 1.1.12 or newer, or that your "
    "distribution has mended it; otherwise update the engine."
)


def version_numbers(version: str) -> tuple[int, int, int] | None:
    """Return the numbers at the start of a version; None if there are none."""
    match = _NUMBERS.match(version)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def is_too_old(version: str) -> bool:
    """Return True for engines before 20.10, and for versions that are none."""
    numbers = version_numbers(version)
    return numbers is None or numbers[:2] < LEAST


def version_warnings(version: str) -> tuple[str, ...]:
    """Return sentences, to be translated, about known faults of this version."""
    numbers = version_numbers(version)
    if numbers is None:
        return ()
    is_bad = numbers < (24, 0, 9) or (25, 0, 0) <= numbers < (25, 0, 2)
    return (RUNC_ESCAPE,) if is_bad else ()


def engine_name(answer: Mapping[str, Any]) -> str:
    """Return the name of an engine that is not Docker by its answer to /version, e.g. "Podman
    Engine"; "" for Docker.
    """
    parts = [part.get("Name", "") for part in answer.get("Components") or [] if isinstance(part, Mapping)]
    if any(name.startswith("Podman") for name in parts):
        return "Podman"
    has_all = all(isinstance(answer.get(name), str) for name in ("ApiVersion", "Version", "Arch"))
    return "" if has_all and (not parts or "Engine" in parts) else (parts[0] if parts else "?")
