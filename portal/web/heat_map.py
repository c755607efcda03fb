"""Drawing of all accelerators: one small picture for each machine, which links to its page."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from agents.capacity.device_inventory import DeviceCell, DeviceMachine
from agents.core.device_states import IDLE_PERCENT, STATE_TITLES, DeviceState, device_state
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


@dataclass(frozen=True, slots=True, eq=False)
class MachinePicture:
    """Drawing of the devices of one machine; machines that look the same share it. `counts` are its
    devices by state, `words` say the same, escaped.
    """

    counts: Mapping[DeviceState, int]
    words: str
    svg: str


@dataclass(frozen=True, slots=True)
class HeatGroup:
    """The machines of one resource group; `items` are their list items."""

    name: str
    machines: int
    items: SafeString


def draw_machines(
    machines: Iterable[DeviceMachine], percents: Mapping[int, float]
) -> list[tuple[DeviceMachine, MachinePicture]]:
    """Return each machine with its picture. `percents` is the use of devices by primary key."""
    titles = {state: _(title).lower() for state, title in STATE_TITLES.items()}
    uses = {pk: _USES[max(0, min(100, int(percent)))] for pk, percent in percents.items()}
    drawn: dict[tuple[tuple[DeviceCell, ...], tuple[_Use | None, ...]], MachinePicture] = {}
    found = []
    for machine in machines:
        key = machine.devices, tuple(map(uses.get, machine.device_ids))
        if key not in drawn:
            looks = tuple(_look(cell, use) for cell, use in zip(*key, strict=True))
            counts = Counter(look.state for look in looks)
            words = ", ".join(f"{counts[state]} {title}" for state, title in titles.items() if counts[state])
            drawn[key] = MachinePicture(counts, escape(words), _picture(looks))
        found.append((machine, drawn[key]))
    return found


def heat_groups(machines: Iterable[tuple[DeviceMachine, MachinePicture]]) -> list[HeatGroup]:
    """Return the list items of the machines, which come in the order of their groups."""
    address = reverse("agent", args=[0]).replace("/0/", "/%s/")
    groups = []
    for name, members in groupby(machines, key=lambda each: each[0].group):
        items = []
        for machine, picture in members:
            title = escape(machine.name)
            items.append(
                f'<li><a href="{address % machine.agent_id}" aria-label="{title}: {picture.words}">'
                f'{picture.svg}<span class="heat-name" aria-hidden="true">{title}</span></a></li>'
            )
        groups.append(HeatGroup(name, len(items), mark_safe("".join(items))))  # noqa: S308 names are escaped
    return groups


class _Use(IntEnum):
    """Use of a device, as coarse as it is drawn: idle, then quarters of its time."""

    IDLE = -1
    FIRST = 0
    SECOND = 1
    THIRD = 2
    FOURTH = 3

    @classmethod
    def of(cls, percent: float) -> "_Use":
        return cls.IDLE if percent < IDLE_PERCENT else cls(min(3, int(percent) // QUARTER))


_USES = tuple(map(_Use.of, range(101)))  # by percent


class _Look(NamedTuple):
    """Look of one square: its state, the class of its use, the filled part of its height."""

    state: DeviceState
    use: str
    part: float
    has_warning: bool


def _look(cell: DeviceCell, use: _Use | None) -> _Look:
    least = None if use is None else QUARTER * use + IDLE_PERCENT  # below IDLE_PERCENT for IDLE alone
    state = device_state(
        occupied=cell.occupied,
        is_present=cell.is_present,
        withheld=cell.withheld,
        percent=least,
    )
    is_used = state in (DeviceState.HELD, DeviceState.SHARED)
    part = CELL * cell.occupied / MILLI if state is DeviceState.SHARED else 0
    kind = f"is-{state}" if not is_used else "is-held" if use is None else f"is-use-{use}"
    return _Look(state, kind, part, cell.has_warning)


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
