"""Drawing of all accelerators: one small picture for each machine, which links to its page."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from agents.capacity.devices import DeviceCell, DeviceMachine
from agents.core.device_states import STATE_TITLES, DeviceState, device_state
from common.values.resources import MILLI

CELL, STRIDE = 10, 12
ONE_ROW = 4  # machines with more devices get two rows
NAMED_MACHINES = 60  # with more, names are only in the tooltips
QUARTER = 25

_MARKS = {  # what a cell has besides its square, so that colour is not all that tells
    DeviceState.IDLE: "m2 5h6",
    DeviceState.ILL: "m2.5 2.5l5 5m0-5l-5 5",
    DeviceState.WITHHELD: "m0 10l10-10",
    DeviceState.SPLIT: "m5 0v10",
}


@dataclass(frozen=True, slots=True)
class HeatGroup:
    """The machines of one resource group; `items` are their list items."""

    name: str
    machines: int
    items: SafeString


def states_of(machine: DeviceMachine, percents: Mapping[int, float]) -> list[tuple[DeviceCell, DeviceState]]:
    """Return the devices of a machine with their states."""
    return [
        (
            cell,
            device_state(
                occupied=cell.occupied,
                is_present=cell.is_present,
                withheld=cell.withheld,
                percent=percents.get(cell.id),
            ),
        )
        for cell in machine.devices
    ]


def heat_groups(
    machines: Iterable[tuple[DeviceMachine, list[tuple[DeviceCell, DeviceState]]]],
    percents: Mapping[int, float],
) -> list[HeatGroup]:
    """Return the drawing of the machines, which come in the order of their groups."""
    titles = {state: _(title).lower() for state, title in STATE_TITLES.items()}
    address = reverse("agent", args=[0])
    drawn: dict[tuple[_Look, ...], tuple[str, str]] = {}  # many machines look the same
    groups = []
    for name, members in groupby(machines, key=lambda each: each[0].group):
        items = []
        for machine, cells in members:
            looks = tuple(_look(cell, state, percents.get(cell.id)) for cell, state in cells)
            if looks not in drawn:
                drawn[looks] = _picture(looks), _words(looks, titles)
            picture, words = drawn[looks]
            title, url = escape(machine.name), address.replace("/0/", f"/{machine.agent_id}/")
            items.append(
                f'<li><a href="{url}" aria-label="{title}: {words}">{picture}'
                f'<span class="heat-name" aria-hidden="true">{title}</span></a></li>'
            )
        groups.append(HeatGroup(name, len(items), mark_safe("".join(items))))  # noqa: S308 names are escaped
    return groups


class _Look(NamedTuple):
    """Look of one square: its state, the class of its use, the filled part of its height."""

    state: DeviceState
    use: str
    part: float
    has_warning: bool


def _look(cell: DeviceCell, state: DeviceState, percent: float | None) -> _Look:
    is_used = state in (DeviceState.HELD, DeviceState.SHARED)
    use = f"is-use-{min(3, int(percent) // QUARTER)}" if percent is not None else "is-held"
    part = CELL * cell.occupied / MILLI if state is DeviceState.SHARED else 0
    return _Look(state, use if is_used else f"is-{state}", part, cell.has_warning)


def _words(looks: tuple[_Look, ...], titles: Mapping[DeviceState, str]) -> str:
    counts = Counter(look.state for look in looks)
    return escape(", ".join(f"{counts[state]} {title}" for state, title in titles.items() if counts[state]))


def _picture(looks: tuple[_Look, ...]) -> str:
    """Return an SVG with one path for each class."""
    columns = len(looks) if len(looks) <= ONE_ROW else (len(looks) + 1) // 2
    paths: dict[str, str] = {}
    for number, look in enumerate(looks):
        for name, path in _paths(look, STRIDE * (number % columns), STRIDE * (number // columns)):
            paths[name] = paths.get(name, "") + path
    width, height = STRIDE * columns, STRIDE * (-(-len(looks) // columns))
    drawn = "".join(f'<path class="{name}" d="{path}"/>' for name, path in paths.items())
    size = f'viewBox="-1 -1 {width} {height}" width="{width}" height="{height}"'
    return f'<svg {size} aria-hidden="true">{drawn}</svg>'


def _paths(look: _Look, x: int, y: int) -> Iterable[tuple[str, str]]:
    square = f"M{x} {y}h{CELL}v{CELL}h-{CELL}z"
    if look.part:
        yield "is-free", square
        yield look.use, f"M{x} {y + CELL - look.part:g}h{CELL}v{look.part:g}h-{CELL}z"
    else:
        yield look.use, square + _MARKS.get(look.state, "")
    if look.has_warning:
        yield "has-warning", f"M{x + 5} {y}h5v5z"
