"""Drawing of all accelerators: one small picture for each machine, which links to its page."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from django.urls import reverse
from django.utils.html import format_html
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
    groups = []
    for name, members in groupby(machines, key=lambda each: each[0].group):
        items = [_item(machine, cells, percents, titles) for machine, cells in members]
        groups.append(HeatGroup(name, len(items), mark_safe("".join(items))))  # noqa: S308 escaped below
    return groups


def _item(
    machine: DeviceMachine,
    cells: list[tuple[DeviceCell, DeviceState]],
    percents: Mapping[int, float],
    titles: Mapping[DeviceState, str],
) -> SafeString:
    columns = len(cells) if len(cells) <= ONE_ROW else (len(cells) + 1) // 2
    paths: dict[str, str] = {}
    for number, (cell, state) in enumerate(cells):
        x, y = STRIDE * (number % columns), STRIDE * (number // columns)
        for name, path in _paths(cell, state, percents.get(cell.id), x, y):
            paths[name] = paths.get(name, "") + path
    rows = (len(cells) + columns - 1) // columns
    drawn = "".join(f'<path class="{name}" d="{path}"/>' for name, path in paths.items())
    width, height = STRIDE * columns, STRIDE * rows
    counts = Counter(state for _cell, state in cells)
    words = ", ".join(f"{counts[state]} {title}" for state, title in titles.items() if counts[state])
    return format_html(
        '<li><a href="{}" aria-label="{}: {}"><svg viewBox="-1 -1 {} {}" width="{}" height="{}" aria-hidden="true">'
        '{}</svg><span class="heat-name" aria-hidden="true">{}</span></a></li>',
        reverse("agent", args=[machine.agent_id]), machine.name, words, width, height, width, height,
        mark_safe(drawn), machine.name,  # noqa: S308 numbers and names of classes
    )  # fmt: skip


def _paths(
    cell: DeviceCell, state: DeviceState, percent: float | None, x: int, y: int
) -> Iterable[tuple[str, str]]:
    square = f"M{x} {y}h{CELL}v{CELL}h-{CELL}z"
    if state is DeviceState.SHARED:
        part = CELL * cell.occupied / MILLI
        yield "is-free", square
        yield _by_use(percent), f"M{x} {y + CELL - part:g}h{CELL}v{part:g}h-{CELL}z"
    elif state is DeviceState.HELD:
        yield _by_use(percent), square
    else:
        yield f"is-{state}", square + _MARKS.get(state, "")
    if cell.has_warning:
        yield "has-warning", f"M{x + 5} {y}h5v5z"


def _by_use(percent: float | None) -> str:
    """Return the class of a held device: by quarters of its use, if that is measured."""
    return "is-held" if percent is None else f"is-use-{min(3, int(percent) // QUARTER)}"
