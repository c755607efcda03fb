"""Page “Sessions”: all visible sessions with search, filters, export and bulk stop."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET

from accounts.selectors import PROJECT_TITLE, oversees_projects, visible_projects
from accounts.tenancy.preferences import column_choice
from accounts.web.chosen_project import chosen_projects
from agents.selectors import visible_resource_groups
from common.actors import Actor
from common.pages.csv_export import csv_response
from common.pages.htmx import is_fragment, render_page_or_fragment
from common.pages.status_styles import status_style
from common.pages.tables import Choices, Column, Filter, Listing, Tab, Table, choices_of, define_table
from common.rest.actor import actor_of
from common.values.resources import CPU, MEM, MILLI
from images.selectors import visible_images
from sessions_app.core.states import Status
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionType
from sessions_app.selectors import Action, may, visible_sessions
from sessions_app.web.arrays import array_filter, array_summary
from sessions_app.web.rows import session_rows

TABLE = define_table(
    Table(
        name="sessions",
        noun=gettext_noop("sessions"),
        sort="-started",
        search=lambda text: Q(name__icontains=text),
        search_label=gettext_noop("Search by name"),
        columns=(
            Column("name", gettext_noop("Name"), ("name",), is_fixed=True),
            Column("status", gettext_noop("Status"), ("status", "status_changed_at")),
            Column("type", gettext_noop("Type"), ("type",), is_usual=False),
            Column("project", gettext_noop("Project"), ("project__name",), is_usual=False),
            Column("owner", gettext_noop("Owner"), ("owner__email",), is_usual=False),
            Column("image", gettext_noop("Image"), ("image_reference",), is_usual=False),
            Column("resources", gettext_noop("Resources"), ("requested_slots__cpu", "requested_slots__mem")),
            Column("group", gettext_noop("Group"), ("resource_group__name",), is_usual=False),
            Column("priority", gettext_noop("Priority"), ("priority",), is_number=True, is_usual=False),
            Column("machine", gettext_noop("Machine")),
            Column("started", gettext_noop("Requested"), ("created_at",), is_number=True),
            Column("ended", gettext_noop("Ended"), ("ended_at",), is_number=True, tab="ended"),
            Column("actions", "", is_fixed=True),
        ),
        filters=(
            Filter("status", gettext_noop("Status"), lambda name: Q(status=name.upper())),
            Filter("type", gettext_noop("Type"), lambda name: Q(type=name)),
            Filter("project", gettext_noop("Project"), lambda name: Q(project__name=name)),
            Filter(
                "owner", gettext_noop("Owner"), lambda text: Q(owner__email__icontains=text), is_typed=True
            ),
            Filter("image", gettext_noop("Image"), lambda reference: Q(image_reference=reference)),
            Filter("group", gettext_noop("Resource group"), lambda name: Q(resource_group__name=name)),
            Filter("array", gettext_noop("Array"), array_filter, is_single=True),
        ),
        tabs=(
            Tab("live", gettext_noop("Live"), Q(ended_at=None)),
            Tab("ended", gettext_noop("Ended"), Q(ended_at__isnull=False), sort="-ended"),
        ),
    )
)
EXPORTED = (
    "id", "name", "type", "status", "reason", "owner", "project", "domain", "image", "resource group", "machines",
    "cores", "memory bytes", "created", "started", "ended", "exit code", "priority",
)  # fmt: skip


@require_GET
@login_required
def session_list(request: HttpRequest) -> HttpResponse:
    """Show live or ended sessions; also answers the fragment that refreshes the rows."""
    actor = actor_of(request)
    listing = _listing(request, actor)
    if not is_fragment(request):
        listing.choices = _choices(actor)
    array = array_summary(actor, listing.values.get("array", ()))
    if array is not None:
        listing.choices["array"] = [(str(array["array"].pk), array["array"].name)]
    page = listing.page(visible_sessions(actor), ComputeSessionQuerySet.for_rows)
    context = {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": session_rows(actor, page, listing.columns.shown),
        "array": array,
        "has_picks": any(session.is_live and may(actor, session, Action.TERMINATE) for session in page),
    }
    return render_page_or_fragment(request, "sessions_app/list.html", "sessions_app/_list.html", context)


@require_GET
@login_required
def session_export(request: HttpRequest) -> StreamingHttpResponse:
    """Export all pages of the filtered, ordered list as CSV."""
    actor = actor_of(request)
    rows = _listing(request, actor).of_tab(visible_sessions(actor))
    return csv_response("sessions.csv", EXPORTED, rows, ComputeSessionQuerySet.with_parts, _cells)


def _listing(request: HttpRequest, actor: Actor) -> Listing:
    without = () if oversees_projects(request.user) else ("owner",)  # type: ignore[arg-type]
    return Listing(
        TABLE,
        request.GET,
        chosen=column_choice(actor, TABLE.name),
        without=without,
        usual={"project": chosen_projects(request)},
    )


def _choices(actor: Actor) -> dict[str, Choices]:
    """Return the options of each filter. One query."""
    return {
        "status": [(status.value.lower(), status_style(status.value).label) for status in Status],
        "type": [(kind.value, str(kind.label)) for kind in SessionType],
        **choices_of(
            project=(visible_projects(actor), "name", PROJECT_TITLE),
            image=(visible_images(actor), "reference", "reference"),
            group=(visible_resource_groups(actor), "name", "name"),
        ),
    }


def _cells(session: ComputeSession) -> tuple[Any, ...]:
    """Return one CSV row in the order of EXPORTED; amounts in cores and bytes, times in UTC."""
    slots = session.slots_of_all
    times = (session.created_at, session.started_at, session.ended_at)
    return (
        session.pk, session.name, session.type, session.status, session.status_reason, session.owner.email,
        session.project.name, session.domain.name, session.image_reference, session.resource_group.name,
        " ".join(kernel.agent.name for kernel in session.kernels.all() if kernel.agent),
        slots[CPU] / MILLI, slots[MEM], *(at and at.isoformat(timespec="seconds") for at in times), session.exit_code,
        session.priority,
    )  # fmt: skip
