"""The page Sessions: all that the reader may see, with search, filters, export, and stopping many at once."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from accounts.preferences import column_choice
from accounts.selectors import looks_after_others, visible_projects
from agents.selectors import visible_resource_groups
from common.actors import Actor
from common.api import actor_of
from common.bulk import chosen_ids, do_each, done_count
from common.exports import csv_response
from common.looks import look_of
from common.pages import is_fragment, render_page_or_fragment
from common.slots import CPU, MEM, MILLI
from common.tables import Choices, Column, Filter, Listing, Tab, Table, declare
from images.selectors import visible_images
from sessions_app import presenters
from sessions_app.models import ComputeSession, ComputeSessionQuerySet, SessionType
from sessions_app.selectors import visible_sessions
from sessions_app.services import terminate_session
from sessions_app.states import LIVE, TERMINAL, Status
from sessions_app.web.rows import session_rows

TABLE = declare(
    Table(
        name="sessions",
        noun="sessions",
        sort="-started",
        search=lambda text: Q(name__icontains=text),
        search_label="Search by name",
        columns=(
            Column("name", "Name", ("name",), is_fixed=True),
            Column("status", "Status", ("status", "status_changed_at")),
            Column("type", "Type", ("type",), is_usual=False),
            Column("project", "Project", ("project__name",), is_usual=False),
            Column("owner", "Owner", ("owner__email",), is_usual=False),
            Column("image", "Image", ("image_reference",), is_usual=False),
            Column("resources", "Resources", ("requested_slots__cpu", "requested_slots__mem")),
            Column("group", "Group", ("resource_group__name",), is_usual=False),
            Column("machine", "Machine"),
            Column("started", "Started", ("created_at",), is_number=True),
            Column("ended", "Ended", ("ended_at",), is_number=True, is_usual=False),
            Column("actions", "", is_fixed=True),
        ),
        filters=(
            Filter("status", "Status", lambda name: Q(status=name.upper())),
            Filter("type", "Type", lambda name: Q(type=name)),
            Filter("project", "Project", lambda name: Q(project__name=name)),
            Filter("owner", "Owner", lambda text: Q(owner__email__icontains=text), is_typed=True),
            Filter("image", "Image", lambda reference: Q(image_reference=reference)),
            Filter("group", "Resource group", lambda name: Q(resource_group__name=name)),
        ),
        tabs=(Tab("live", "Live", Q(status__in=LIVE)), Tab("ended", "Ended", Q(status__in=TERMINAL))),
    )
)
EXPORTED = (
    "id", "name", "type", "status", "reason", "owner", "project", "domain", "image", "resource group", "machines",
    "cores", "memory bytes", "created", "started", "ended", "exit code",
)  # fmt: skip


@require_GET
@login_required
def session_list(request: HttpRequest) -> HttpResponse:
    """Live or ended sessions; the same view answers the fragment that refreshes the rows."""
    actor = actor_of(request)
    listing = _listing(request, actor)
    if not is_fragment(request):
        listing.choices = _choices(actor)
    page = listing.page(visible_sessions(actor), ComputeSessionQuerySet.for_rows)
    context = {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": session_rows(actor, page, listing.columns.shown),
        "has_picks": any(session.is_live for session in page),
    }
    return render_page_or_fragment(request, "sessions_app/list.html", "sessions_app/_list.html", context)


@require_GET
@login_required
def session_export(request: HttpRequest) -> StreamingHttpResponse:
    """The list with its present search, filters and order, of all pages, as CSV."""
    actor = actor_of(request)
    rows = _listing(request, actor).of_tab(visible_sessions(actor))
    return csv_response("sessions.csv", EXPORTED, rows, ComputeSessionQuerySet.with_parts, _cells)


@require_POST
@login_required
def stop_many(request: HttpRequest) -> HttpResponse:
    """Ask first, naming what would be stopped; the answer says for each session what came of it."""
    actor = actor_of(request)
    ids = chosen_ids(request.POST, "session")
    back = f"{reverse('session-list')}?{request.POST.get('back', '')}"
    sessions = {session.pk: session for session in visible_sessions(actor).with_parts().filter(pk__in=ids)}
    if not ids:
        messages.info(request, "Choose the sessions first: tick them in the list.")
        return redirect(back)
    context: dict[str, Any] = {"back": back, "query": request.POST.get("back", "")}
    if "confirmed" not in request.POST:
        live = [session for pk in ids if (session := sessions.get(pk)) and session.is_live]
        context["rows"] = [presenters.row(actor, session) for session in live]
        return render(request, "sessions_app/stop_many.html", context)
    outcomes = do_each(
        ids,
        lambda pk: _stop(actor, pk, sessions.get(pk)),
        name_of=lambda pk: sessions[pk].name if pk in sessions else str(pk),
        url_of=lambda pk: reverse("session-detail", args=[pk]) if pk in sessions else "",
    )
    context |= {"outcomes": outcomes, "done_count": done_count(outcomes)}
    return render(request, "sessions_app/stopped_many.html", context)


def _stop(actor: Actor, session_id: UUID, before: ComputeSession | None) -> str:
    session = terminate_session(actor=actor, session_id=session_id)
    if before is not None and not before.is_live:
        return "Had ended before."
    return "Taken out of the queue." if session.status == Status.CANCELLED else "Is being stopped."


def _listing(request: HttpRequest, actor: Actor) -> Listing:
    without = () if looks_after_others(actor) else ("owner",)
    return Listing(TABLE, request.GET, chosen=column_choice(actor, TABLE.name), without=without)


def _choices(actor: Actor) -> dict[str, Choices]:
    """What each filter offers. 3 queries."""
    return {
        "status": [(status.value.lower(), look_of(status.value).word) for status in Status],
        "type": [(kind.value, str(kind.label)) for kind in SessionType],
        "project": [(project.name, str(project)) for project in visible_projects(actor)],
        "image": [(image.reference, image.reference) for image in visible_images(actor)],
        "group": [(group.name, group.name) for group in visible_resource_groups(actor)],
    }


def _cells(session: ComputeSession) -> tuple[Any, ...]:
    """One line of EXPORTED. Amounts in cores and bytes, instants in UTC."""
    slots = session.slots
    times = (session.created_at, session.started_at, session.ended_at)
    return (
        session.pk, session.name, session.type, session.status, session.status_reason, session.owner.email,
        session.project.name, session.domain.name, session.image_reference, session.resource_group.name,
        " ".join(kernel.agent.name for kernel in session.kernels.all() if kernel.agent),
        slots[CPU] / MILLI, slots[MEM], *(at and at.isoformat(timespec="seconds") for at in times), session.exit_code,
    )  # fmt: skip
