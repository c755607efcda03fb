"""The folder list of the Data page: search, filters, export, and bulk deletion."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import PROJECT_TITLE, oversees_projects, visible_projects
from accounts.tenancy.preferences import column_choice
from accounts.web.chosen_project import chosen_projects
from common.actors import Actor
from common.pages.bulk_actions import chosen_ids, done_count, run_bulk_action
from common.pages.csv_export import csv_response
from common.pages.htmx import is_fragment
from common.pages.tables import Column, Filter, Listing, Tab, Table, choices_of, define_table
from common.rest.actor import actor_of
from common.templatetags.berth import ago
from vfolders import trash
from vfolders.core.permissions import Action
from vfolders.models import VFolder
from vfolders.selectors import NOBODY, actions_on, visible_folders
from vfolders.web.rows import size_words

PERSONAL = "-"  # not a valid project name: selects folders that belong to a user


def _of_project(name: str) -> Q:
    return Q(project=None) if name == PERSONAL else Q(project__name=name)


TABLE = define_table(
    Table(
        name="folders",
        noun=gettext_noop("folders"),
        sort="name",
        search=lambda text: Q(name__icontains=text),
        search_label=gettext_noop("Search by name"),
        columns=(
            Column("name", gettext_noop("Folder"), ("name",), is_fixed=True),
            Column("whose", gettext_noop("Owner"), ("project__name", "owner__email")),
            Column("size", gettext_noop("Size"), ("size_bytes",), is_number=True),
            Column("host", gettext_noop("Stored on"), ("host__name",)),
            Column("created", gettext_noop("Created"), ("created_at",), is_number=True),
        ),
        filters=(
            Filter("project", gettext_noop("Project"), _of_project),
            Filter(
                "owner", gettext_noop("Owner"), lambda text: Q(owner__email__icontains=text), is_typed=True
            ),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class FolderRow:
    """One folder, ready to print.
    It holds everything that the template shows, so that a row is redrawn only if it changed.
    """

    pk: UUID
    name: str
    whose: str
    is_of_project: bool
    size: str
    measured: str
    host: str
    created: str
    can_open: bool
    can_delete: bool


EXPORTED = ("id", "name", "owner", "project", "domain", "stored on", "created", "size_bytes", "measured_at")


def list_context(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    """Return the template context of the list."""
    listing = _listing(request, actor)
    if not is_fragment(request):
        projects = choices_of(project=(visible_projects(actor), "name", PROJECT_TITLE))["project"]
        listing.choices = {"project": [(PERSONAL, _("Personal")), *projects]}
    page = listing.page(visible_folders(actor), lambda rows: rows)
    rows = [_row(actor, folder) for folder in page]
    return {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": rows,
        "has_picks": any(row.can_delete for row in rows),
    }


@require_GET
@login_required
def folder_export(request: HttpRequest) -> StreamingHttpResponse:
    """Export the list with its present search, filters and order, all pages, as CSV."""
    actor = actor_of(request)
    rows = _listing(request, actor).of_tab(visible_folders(actor))
    return csv_response("folders.csv", EXPORTED, rows, _with_names, _cells)


@require_POST
@login_required
def delete_many(request: HttpRequest) -> HttpResponse:
    """Delete the chosen folders after a confirmation page that lists them and requires a typed
    phrase; the answer shows the outcome for each folder.
    """
    actor = actor_of(request)
    ids = chosen_ids(request.POST, "folder")
    back = f"{reverse('data')}?{request.POST.get('back', '')}"
    folders = {folder.pk: folder for folder in visible_folders(actor).filter(pk__in=ids)}
    if not ids:
        messages.info(request, _("Choose the folders first: tick them in the list."))
        return redirect(back)
    context: dict[str, Any] = {"back": back, "query": request.POST.get("back", "")}
    typed, word = request.POST.get("confirm"), _word(len(ids))
    if typed != word:
        context |= {"folders": [folders[pk] for pk in ids if pk in folders], "ids": ids, "word": word}
        context["error"] = "" if typed is None else _("These are not the words, so nothing was deleted.")
        return render(request, "vfolders/delete_many.html", context, status=422 if context["error"] else 200)
    outcomes = run_bulk_action(
        request,
        ids,
        lambda pk: _delete(actor, pk),
        object_name=lambda pk: folders[pk].name if pk in folders else str(pk),
        object_url=lambda pk: "",
    )
    context |= {"outcomes": outcomes, "done_count": done_count(outcomes)}
    return render(request, "vfolders/deleted_many.html", context)


def _row(actor: Actor, folder: VFolder) -> FolderRow:
    allowed = actions_on(actor, folder)
    if folder.project:
        whose = str(folder.project)
    else:
        whose = _("mine") if folder.owner_id == actor.user_id else str(folder.owner)
    return FolderRow(
        pk=folder.pk,
        name=folder.name,
        whose=whose,
        is_of_project=folder.project is not None,
        size=size_words(folder),
        measured=ago(folder.measured_at) if folder.measured_at else "",
        host=str(folder.host),
        created=ago(folder.created_at),
        can_open=Action.READ in allowed,
        can_delete=Action.DELETE in allowed,
    )


def _word(count: int) -> str:
    """Return the confirmation phrase to type."""
    return _("delete {count}").format(count=count)


def _delete(actor: Actor, folder_id: UUID) -> str:
    trash.trash_folder(actor=actor, folder_id=folder_id)
    return _("It is in the trash.")


def _listing(request: HttpRequest, actor: Actor) -> Listing:
    """Return the list with the user's own folders first, and a second tab for administrators. If a
    project is chosen in the bar, only its folders and personal ones are shown.
    """
    is_admin = oversees_projects(request.user)  # type: ignore[arg-type]
    chosen = chosen_projects(request)
    own = Tab("mine", gettext_noop("Mine"), Q(owner_id=actor.user_id or NOBODY) | Q(is_member=True))
    everything = Tab("all", gettext_noop("All that I administer"), Q())
    return Listing(
        TABLE,
        request.GET,
        chosen=column_choice(actor, TABLE.name),
        without=() if is_admin else ("owner",),
        tabs=(own, everything) if is_admin else (own,),
        usual={"project": [*chosen, PERSONAL] if chosen else []},
    )


def _with_names(rows: QuerySet[VFolder]) -> QuerySet[VFolder]:
    return rows.select_related("owner", "project", "domain", "host")


def _cells(folder: VFolder) -> tuple[object, ...]:
    """Return one CSV line with the columns of EXPORTED."""
    return (
        folder.pk, folder.name, folder.owner and folder.owner.email, folder.project and folder.project.name,
        folder.domain.name, folder.host.name, folder.created_at.isoformat(timespec="seconds"), folder.size_bytes,
        folder.measured_at and folder.measured_at.isoformat(timespec="seconds"),
    )  # fmt: skip
