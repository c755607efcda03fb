"""The Agents page, its export, and draining and resuming agents."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, NullIf
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import may_do_everything, sees_everything
from accounts.tenancy.preferences import column_choice
from agents.core.states import AgentState
from agents.machines.service import change_agent_state, refresh_agent
from agents.metering.readings import mean_percents
from agents.models import Agent, AgentQuerySet, AgentSlot
from agents.selectors import visible_agents, visible_resource_groups
from agents.web.rows import agent_row
from common import clock
from common.actors import Actor
from common.errors import Conflict, InvalidInput, Unavailable
from common.pages.csv_export import csv_response
from common.pages.htmx import is_fragment, local_url, render_page_or_fragment
from common.pages.status_styles import status_style
from common.pages.tables import Column, Filter, Listing, Tab, Table, define_table
from common.pages.toasts import offer_undo
from common.rest.actor import actor_of
from common.values.resources import CPU, MEM, MILLI


def _share(slot_name: str) -> Coalesce:
    """Return an expression for the allocated share of one slot, in thousandths; 0 for agents
    without that slot.
    """
    slots = AgentSlot.objects.filter(agent=OuterRef("pk"), slot_name=slot_name)
    return Coalesce(
        Subquery(slots.values(share=F("occupied") * 1000 / NullIf(F("capacity") + F("surplus"), 0))), 0
    )


TABLE = define_table(
    Table(
        name="agents",
        noun=gettext_noop("agents"),
        sort="name",
        search=lambda text: Q(name__icontains=text),
        search_label=gettext_noop("Search by name"),
        columns=(
            Column("name", gettext_noop("Agent"), ("name",), is_fixed=True),
            Column("state", gettext_noop("State"), ("state", "name")),
            Column("group", gettext_noop("Group"), ("resource_group__name", "name"), is_usual=False),
            Column("cpu", gettext_noop("CPU"), (_share(CPU),)),
            Column("memory", gettext_noop("Memory"), (_share(MEM),)),
            Column("devices", gettext_noop("Accelerators")),
            Column("images", gettext_noop("Images")),
            Column("engine", gettext_noop("Engine"), ("engine_version", "name")),
            Column("seen", gettext_noop("Seen"), ("heartbeat_at",), is_number=True),
            Column("actions", "", is_fixed=True),
        ),
        filters=(
            Filter("state", gettext_noop("State"), lambda name: Q(state=name)),
            Filter("group", gettext_noop("Resource group"), lambda name: Q(resource_group__name=name)),
            Filter("image", gettext_noop("Image"), lambda reference: Q(images__reference=reference)),
        ),
        tabs=(
            Tab("used", gettext_noop("In use"), ~Q(state=AgentState.RETIRED.value)),
            Tab("retired", gettext_noop("Retired"), Q(state=AgentState.RETIRED.value)),
        ),
    )
)
# Actions on a row of the page; others are in Django admin.
MOVES = {
    AgentState.DRAINING: gettext_noop("“{name}” takes no new sessions; those that run there go on."),
    AgentState.CONNECTED: gettext_noop("“{name}” takes sessions again."),
    AgentState.MAINTENANCE: gettext_noop(
        "“{name}” is in maintenance: it takes no sessions and may be silent."
    ),
}
EXPORTED = (
    "name", "state", "resource group", "architecture", "engine", "cores", "cores occupied", "memory bytes",
    "memory bytes occupied", "seen",
)  # fmt: skip


@require_GET
@login_required
def agent_list(request: HttpRequest) -> HttpResponse:
    """Show the agents that the user may see; the same view renders the htmx fragment for live
    updates.
    """
    actor = actor_of(request)
    listing = _listing(request, actor)
    if not is_fragment(request):
        listing.choices = {
            "state": [(state.value, status_style(state.value).label) for state in AgentState],
            "group": [(group.name, group.name) for group in visible_resource_groups(actor)],
        }
    page = listing.page(visible_agents(actor), AgentQuerySet.with_parts)
    percents = mean_percents([agent.pk for agent in page], clock.now())
    context = {
        "listing": listing,
        "page": page,
        "columns": listing.columns,
        "rows": [agent_row(agent, actor, listing.columns.shown, percents.get(agent.pk)) for agent in page],
        "is_admin": sees_everything(actor),
        "may_add": may_do_everything(actor),
    }
    return render_page_or_fragment(request, "agents/list.html", "agents/_list.html", context)


@require_GET
@login_required
def agent_export(request: HttpRequest) -> StreamingHttpResponse:
    """Export the list with its present search, filters and order, all pages, as CSV."""
    actor = actor_of(request)
    rows = _listing(request, actor).of_tab(visible_agents(actor))
    return csv_response("agents.csv", EXPORTED, rows, AgentQuerySet.with_parts, _cells)


@require_POST
@login_required
def change_state(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Drain or resume an agent, then return to the list."""
    wanted = request.POST.get("to", "")
    if wanted not in MOVES:
        raise InvalidInput(
            _("There is no such state to bring a machine into."),
            hint=_("Write draining, maintenance or connected."),
        )
    to = AgentState(wanted)
    back = local_url(request, request.POST.get("back") or reverse("agents"))
    try:
        agent = change_agent_state(actor=actor_of(request), agent_id=agent_id, to=to)
    except Conflict as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect(back)
    sentence = _(MOVES[to]).format(name=agent.name)
    other = AgentState.DRAINING if to is AgentState.CONNECTED else AgentState.CONNECTED
    offer_undo(request, sentence, reverse("agent-state", args=[agent_id]), {"to": other.value, "back": back})
    return redirect(back)


@require_POST
@login_required
def check_agent(request: HttpRequest, agent_id: int) -> HttpResponse:
    """Observe an agent now, then return to its page."""
    back = local_url(request, request.POST.get("back") or reverse("agents"))
    try:
        agent = refresh_agent(actor=actor_of(request), agent_id=agent_id)
    except Unavailable as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect(back)
    sentence = _("“{name}” answers. Its accelerators are looked for now; the page shows what is found.")
    messages.success(request, sentence.format(name=agent.name))
    return redirect(back)


def _listing(request: HttpRequest, actor: Actor) -> Listing:
    tabs = TABLE.tabs if sees_everything(actor) else TABLE.tabs[:1]  # other users see no retired agents
    return Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name), tabs=tabs)


def _cells(agent: Agent) -> tuple[object, ...]:
    """Return one CSV line with the columns of EXPORTED."""
    capacity, occupied = agent.capacity, agent.occupied
    return (
        agent.name, agent.state, agent.resource_group.name, agent.architecture, agent.engine_version,
        capacity[CPU] / MILLI, occupied[CPU] / MILLI, capacity[MEM], occupied[MEM],
        agent.heartbeat_at.isoformat(timespec="seconds"),
    )  # fmt: skip
