"""Pages of all accelerators: heat map and models."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from accounts.selectors import may_do_everything
from accounts.web.page_access import require_global_overseer
from agents.capacity.device_inventory import DeviceMachine, DeviceModel, device_machines, device_models
from agents.core.device_states import STATE_TITLES, DeviceState
from agents.metering.readings import present_percents
from agents.models import ResourceGroup
from agents.vendors.selectors import known_vendors
from common import clock
from common.pages.htmx import render_page_or_fragment
from portal.web.heat_map import NAMED_MACHINES, MachinePicture, draw_machines, heat_groups


@require_GET
@login_required
def accelerators(request: HttpRequest) -> HttpResponse:
    """Show all accelerators as a heat map, and their models. Six queries besides the frame's."""
    actor = require_global_overseer(request)
    chosen = {name: request.GET.get(name, "") for name in ("group", "model", "state")}
    group_names = dict(ResourceGroup.objects.present().values_list("pk", "name"))
    models = [each for each in device_models() if each.group_id in group_names]
    percents = present_percents(clock.now())
    machines = draw_machines(device_machines(group=chosen["group"], model=chosen["model"]), percents)
    # a word that is no state is that of no device
    shown = [each for each in machines if not chosen["state"] or chosen["state"] in each[1].counts]
    context = {
        "groups": heat_groups(shown),
        "machine_count": len(shown),
        "is_named": len(shown) <= NAMED_MACHINES,
        "chips": _state_chips(chosen, _count_states(machines)),
        "legend": [(state, _(title)) for state, title in STATE_TITLES.items()],
        "is_measured": bool(percents),
        "chosen": chosen,
        "is_narrowed": any(chosen.values()),
        "group_choices": _choices((group_names[each.group_id] for each in models), chosen["group"]),
        "model_choices": _choices((each.model for each in models), chosen["model"]),
        "models": _model_rows(models, group_names),
        "is_superadmin": may_do_everything(actor),
    }
    return render_page_or_fragment(request, "portal/accelerators.html", "portal/_heat_map.html", context)


def _count_states(machines: Iterable[tuple[DeviceMachine, MachinePicture]]) -> Mapping[DeviceState, int]:
    counts: Counter[DeviceState] = Counter()
    for picture, number in Counter(picture for _machine, picture in machines).items():
        counts.update({state: number * count for state, count in picture.counts.items()})
    return counts


def _state_chips(chosen: Mapping[str, str], counts: Mapping[DeviceState, int]) -> list[dict[str, Any]]:
    """Return filter chips: all devices, then each state that any has or that is chosen."""
    kept = {name: chosen[name] for name in ("group", "model") if chosen[name]}

    def chip(label: str, count: int, state: str) -> dict[str, Any]:
        query = urlencode({**kept, "state": state} if state else kept)
        return {
            "label": label,
            "count": count,
            "url": f"?{query}",
            "is_active": chosen["state"] == state,
        }

    states = (state for state in DeviceState if counts.get(state) or chosen["state"] == state)
    everything = chip(_("All devices"), sum(counts.values()), "")
    return [everything, *(chip(_(STATE_TITLES[state]), counts.get(state, 0), state) for state in states)]


def _choices(names: Iterable[str], chosen: str) -> list[str]:
    return sorted({name for name in (*names, chosen) if name})


def _model_rows(models: Sequence[DeviceModel], group_names: Mapping[int, str]) -> list[dict[str, Any]]:
    titles = {vendor.name: vendor.title for vendor in known_vendors()}
    return [
        {
            "of": each,
            "vendor": titles.get(each.vendor, each.vendor),
            "group": group_names[each.group_id],
            "map_url": reverse(
                "accelerators", query={"group": group_names[each.group_id], "model": each.model}
            ),
        }
        for each in models
    ]
