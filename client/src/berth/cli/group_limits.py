"""Parse the file of a resource group's limits (together and per user) and format them."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from berth.amounts import format_slots
from berth.cli.input_files import json_in, read_text
from berth.cli.policies import NONE
from berth.errors import InvalidInput
from berth.machine_models import GroupLimit, ResourceGroup

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHORTEST_SPAN = 3  # days; shorter runs are listed one by one
EXAMPLE = (
    '[{"name": "By day", "session_types": ["batch"], "together": {"cuda": 8}, "each": {"cuda": 2}, "days": [1, 2, 3, 4, 5],'
    ' "begins": "08:00", "ends": "18:00", "time_zone": "Europe/Berlin"}]'
)

Limits = Annotated[
    str,
    typer.Option(
        "--limits",
        metavar="FILE",
        help="Limits for all its sessions together and per person, always or at some hours: a file of JSON like"
        f" {EXAMPLE}, in place of those that are there; - is standard input; none takes all away.",
        show_default=False,
    ),
]


def read_limits(file: str) -> dict[str, Any]:
    """Read the limits from `file`, as the API takes them. Raises InvalidInput."""
    if not file:
        return {}
    return {"limits": [] if file == NONE else _read(file)}


def _read(file: str) -> list[Any]:
    limits = json_in(read_text(file), file)
    if not isinstance(limits, list):
        raise InvalidInput(f"{file}: is no list of limits.", hint=f"Write it like {EXAMPLE}")
    return limits


def limit_facts(group: ResourceGroup) -> dict[str, object]:
    """Return the limits of a group as facts for `berth group show`, one line each."""
    return {f"limit {number}": _words(limit) for number, limit in enumerate(group.limits, 1)}


def _words(limit: GroupLimit) -> str:
    """Format a limit.

    Example: "By day: batch, together cuda 8, each cuda 2, Mon-Fri 08:00-18:00 Europe/Berlin".
    """
    types = " and ".join(limit.session_types) or "all sessions"
    amounts = [
        f"{word} {format_slots(slots)}"
        for word, slots in (("together", limit.together), ("each", limit.each))
        if slots
    ]
    return f"{limit.name}: {', '.join([types, *amounts, _hours(limit)])}"


def _hours(limit: GroupLimit) -> str:
    if not limit.days:
        return "always"
    return f"{','.join(_spans(limit.days))} {limit.begins}-{limit.ends} {limit.time_zone}"


def _spans(days: Sequence[int]) -> Iterator[str]:
    """Yield ranges of days such as "Mon-Fri", and single days such as "Sun".

    Two consecutive days are listed separately.
    """
    rest = list(days)
    while rest:
        length = next((n for n in range(1, len(rest)) if rest[n] != rest[0] + n), len(rest))
        span, rest = [DAYS[day - 1] for day in rest[:length]], rest[length:]
        yield from [f"{span[0]}-{span[-1]}"] if length >= SHORTEST_SPAN else span
