"""Map of all machines: a small picture for each, filled by what sessions hold there."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from django.contrib.auth.decorators import login_required
from django.db.models import F, Max
from django.db.models.functions import NullIf
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from agents.core.states import STATE_TITLES, AgentState
from agents.selectors import visible_agents
from common.pages.htmx import render_page_or_fragment
from common.rest.actor import actor_of

SIDE, SHOWN_PX = 16, 26
NAMED_MACHINES = 60  # with more, names are only in the tooltips
IN_USE = tuple(state for state in AgentState if state is not AgentState.RETIRED)
_MARKS: Mapping[str, str] = {  # so that colour is not all that tells
    AgentState.LOST: "m4 4l8 8m0-8l-8 8",
    AgentState.DRAINING: "m0 16l16-16",
    AgentState.MAINTENANCE: "m8 0v16",
}
_LOOKS: Mapping[str, str] = {
    AgentState.CONNECTED: "is-free",
    AgentState.LOST: "is-ill",
    AgentState.DRAINING: "is-idle",
    AgentState.MAINTENANCE: "is-withheld",
}
FULL = 100


class MachineCell(NamedTuple):
    """A machine, and the share of its fullest slot that sessions hold, in percent."""

    id: int
    name: str
    state: str
    group: str
    held: int


@require_GET
@login_required
def machine_map(request: HttpRequest) -> HttpResponse:
    """Show all machines that the user may see, by resource group. One query besides the frame's."""
    chosen = request.GET.get("state", "")
    cells = _cells(request)
    shown = [cell for cell in cells if chosen in ("", cell.state)]
    context = {
        "groups": _groups(shown),
        "is_named": len(shown) <= NAMED_MACHINES,
        "chips": _chips(cells, chosen),
        "legend": [(picture(state, 0), _(STATE_TITLES[state])) for state in IN_USE],
        "held_picture": picture(AgentState.CONNECTED, FULL // 2),
        "is_narrowed": bool(chosen),
    }
    return render_page_or_fragment(request, "agents/map.html", "agents/_map.html", context)


def _cells(request: HttpRequest) -> list[MachineCell]:
    slots = F("slots__occupied") * FULL / NullIf(F("slots__capacity") + F("slots__surplus"), 0)
    rows = visible_agents(actor_of(request)).in_use().annotate(held=Max(slots))
    columns = rows.values_list("pk", "name", "state", "resource_group__name", "held")
    found = [MachineCell(*row[:4], min(row[4] or 0, FULL)) for row in columns]
    return sorted(found, key=lambda cell: (cell.group, cell.name))


def _chips(cells: Iterable[MachineCell], chosen: str) -> list[dict[str, Any]]:
    counts = Counter(cell.state for cell in cells)
    shown = [state for state in IN_USE if counts[state] or chosen == state]
    everything = {"label": _("All machines"), "count": counts.total(), "url": "?", "is_active": not chosen}
    return [
        everything,
        *(
            {
                "label": _(STATE_TITLES[state]),
                "count": counts[state],
                "url": f"?state={state}",
                "is_active": chosen == state,
            }
            for state in shown
        ),
    ]


def _groups(cells: Iterable[MachineCell]) -> list[dict[str, Any]]:
    """Return [{"name", "machines": number, "items": list items}] of cells in the order of their groups."""
    groups = []
    for name, members in groupby(cells, key=lambda cell: cell.group):
        items = [_item(cell) for cell in members]
        groups.append({"name": name, "machines": len(items), "items": format_html_join("", "{}", ((item,) for item in items))})  # fmt: skip
    return groups


def _item(cell: MachineCell) -> SafeString:
    state = _(STATE_TITLES[AgentState(cell.state)])
    words = _("{name}: {state}, {percent} % held").format(
        name=cell.name, state=state.lower(), percent=cell.held
    )
    return format_html(
        '<li><a href="{}" aria-label="{}">{}<span class="heat-name" aria-hidden="true">{}</span></a></li>',
        reverse("agent", args=[cell.id]), words, picture(cell.state, cell.held), cell.name,
    )  # fmt: skip


def picture(state: str, held: int) -> SafeString:
    """Return a square with the look of the state, filled from below by what is held, in percent."""
    square = f"M0 0h{SIDE}v{SIDE}h-{SIDE}z"
    filled = SIDE * held / FULL
    paths = [f'<path class="{_LOOKS[state]}" d="{square}"/>']
    if filled:
        paths.append(f'<path class="is-held" d="M0 {SIDE - filled:g}h{SIDE}v{filled:g}h-{SIDE}z"/>')
    if mark := _MARKS.get(state):
        paths.append(f'<path class="{_LOOKS[state]}" d="M0 0{mark}"/>')
    size = f'viewBox="-1 -1 {SIDE + 2} {SIDE + 2}" width="{SHOWN_PX}" height="{SHOWN_PX}"'
    return mark_safe(f'<svg {size} aria-hidden="true">{"".join(paths)}</svg>')  # noqa: S308 numbers and constants
