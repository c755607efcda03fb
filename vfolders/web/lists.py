"""The folder list of the Data page: search, filters, export, and bulk deletion."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import (
    PROJECT_TITLE,
    cached_projects,
    oversees_people,
    oversees_projects,
    visible_projects,
)
from accounts.tenancy.preferences import column_choice
from accounts.web.chosen_project import chosen_projects
from common.actors import Actor
from common.pages.bulk_actions import Outcome, chosen_ids, done_count, run_bulk_action
from common.pages.csv_export import csv_response
from common.pages.htmx import is_fragment
from common.pages.tables import Choices, Column, Filter, Listing, Tab, Table, choices_of, define_table
from common.pages.toasts import offer_undo
from common.rest.actor import actor_of
from common.templatetags.berth import ago
from common.values.resources import format_bytes
from vfolders import trash
from vfolders.core.modes import FolderMode
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.models import VFolder
from vfolders.selectors import (
    LISTED,
    NOBODY,
    SHOWN,
    TRASH,
    actions_on,
    deletable_by,
    folders_in,
    shared_with,
    trashed_folders,
)
from vfolders.web.rows import MODE_LABELS, CloneProgress, clone_progress, expiry_words, size_words

TRASH_TAB = "trash"
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
            Column("expires", gettext_noop("Expires"), ("expires_at",), is_fixed=True, tab="trash"),
            Column("actions", "", is_fixed=True),
        ),
        filters=(
            Filter("mode", gettext_noop("For"), lambda text: Q(mode=text)),
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
    mode: str
    expires: str
    progress: CloneProgress | None
    can_open: bool
    can_delete: bool


EXPORTED = ("id", "name", "owner", "project", "domain", "stored on", "created", "size_bytes", "measured_at")


def list_context(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    """Return the template context of the list."""
    listing = _listing(request, actor)
    if not is_fragment(request):
        projects = _project_choices(request, actor)
        modes = [(mode.value, _(label)) for mode, label in MODE_LABELS.items()]
        listing.choices = {"mode": modes, "project": [(PERSONAL, _("Personal")), *projects]}
    page = listing.page(folders_in(actor, SHOWN), lambda rows: rows)
    is_trash = listing.tab.name == TRASH_TAB
    rows = [_row(actor, folder) for folder in page]
    return {
        "listing": listing,
        "columns": listing.columns,
        "page": page,
        "rows": rows,
        "has_picks": any(row.can_delete for row in rows),
        "is_trash": is_trash,
        "trash_note": _trash_note(actor) if is_trash and rows else "",
    }


def _project_choices(request: HttpRequest, actor: Actor) -> Choices:
    """Return (name, title) of the projects that the user may see, by title. One query; none for those who
    see only their own.
    """
    if oversees_people(request.user):  # type: ignore[arg-type]
        return choices_of(project=(visible_projects(actor), "name", PROJECT_TITLE))["project"]
    own = ((each.name, str(each)) for each in cached_projects(request.user))  # type: ignore[arg-type]
    return sorted(own, key=lambda choice: choice[1].casefold())


def _trash_note(actor: Actor) -> str:
    """Return a sentence about what the trash keeps. One query."""
    kept = trashed_folders(actor).aggregate(count=Count("pk"), size_bytes=Sum("size_bytes"))
    text = ngettext(
        "{count} folder here, {size}, still counts against limits until it is removed for ever.",
        "{count} folders here, {size}, still count against limits until they are removed for ever.",
        kept["count"],
    )
    return text.format(count=kept["count"], size=format_bytes(kept["size_bytes"] or 0))


@require_GET
@login_required
def folder_export(request: HttpRequest) -> StreamingHttpResponse:
    """Export the list with its present search, filters and order, all pages, as CSV."""
    actor = actor_of(request)
    rows = _listing(request, actor).of_tab(folders_in(actor, SHOWN))
    return csv_response("folders.csv", EXPORTED, rows, _with_names, _cells)


@require_POST
@login_required
def trash_many(request: HttpRequest) -> HttpResponse:
    """Put the chosen folders in the trash, with a way back; refusals are shown for each folder."""
    actor = actor_of(request)

    def act(pk: UUID) -> str:
        trash.trash_folder(actor=actor, folder_id=pk)
        return _("It is in the trash.")

    chosen = _Chosen.of(request, actor)
    outcomes = chosen.run(act)
    if not all(outcome.is_done for outcome in outcomes):
        return chosen.show(outcomes, _("{done} of {count} in the trash"))
    if outcomes:
        text = ngettext("{count} folder is in the trash.", "{count} folders are in the trash.", len(outcomes))
        ids = [str(pk) for pk in chosen.ids]
        offer_undo(request, text.format(count=len(outcomes)), reverse("folder-restore-many"), {"folder": ids})
    return redirect(chosen.back)


@require_POST
@login_required
def restore_many(request: HttpRequest) -> HttpResponse:
    """Take the chosen folders out of the trash; refusals are shown for each folder."""
    actor = actor_of(request)

    def act(pk: UUID) -> str:
        trash.restore_folder(actor=actor, folder_id=pk)
        return _("It is back.")

    chosen = _Chosen.of(request, actor)
    outcomes = chosen.run(act)
    if not all(outcome.is_done for outcome in outcomes):
        return chosen.show(outcomes, _("{done} of {count} restored"))
    if outcomes:
        text = ngettext("{count} folder is back.", "{count} folders are back.", len(outcomes))
        messages.success(request, text.format(count=len(outcomes)))
    return redirect(chosen.back)


@require_POST
@login_required
def purge_many(request: HttpRequest) -> HttpResponse:
    """Delete the chosen folders of the trash for ever, after a confirmation page that lists them and
    requires a typed phrase; the answer shows the outcome for each folder.
    """
    actor = actor_of(request)

    def act(pk: UUID) -> str:
        folder = chosen.folders.get(pk)
        trash.purge_folder(actor=actor, folder_id=pk, name=folder.name if folder else "")
        return _("Its files are being removed.")

    chosen = _Chosen.of(request, actor)
    if not chosen.ids:
        return redirect(chosen.back)
    typed, word = request.POST.get("confirm"), _word(len(chosen.ids))
    if typed == word:
        return chosen.show(chosen.run(act), _("{done} of {count} removed for ever"))
    context = {
        "back": chosen.back,
        "query": request.POST.get("back", ""),
        "folders": list(chosen.folders.values()),
        "ids": chosen.ids,
        "word": word,
        "error": "" if typed is None else _("These are not the words, so nothing was deleted."),
    }
    return render(request, "vfolders/purge_many.html", context, status=422 if context["error"] else 200)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Folders that were ticked in the list, in any state."""

    request: HttpRequest
    ids: list[UUID]
    folders: dict[UUID, VFolder]
    back: str

    @classmethod
    def of(cls, request: HttpRequest, actor: Actor) -> Self:
        """Read the form. Leaves a message if nothing was ticked. One query."""
        ids = chosen_ids(request.POST, "folder")
        if not ids:
            messages.info(request, _("Choose the folders first: tick them in the list."))
        folders = {folder.pk: folder for folder in folders_in(actor, SHOWN).filter(pk__in=ids)}
        return cls(request, ids, folders, f"{reverse('data')}?{request.POST.get('back', '')}")

    def run(self, act: Callable[[UUID], str]) -> list[Outcome]:
        return run_bulk_action(
            self.request,
            self.ids,
            act,
            object_name=lambda pk: self.folders[pk].name if pk in self.folders else str(pk),
            object_url=lambda pk: reverse("folder-life", args=[pk]) if pk in self.folders else "",
        )

    def show(self, outcomes: list[Outcome], title: str) -> HttpResponse:
        context = {
            "outcomes": outcomes,
            "title": title.format(done=done_count(outcomes), count=len(outcomes)),
            "back": self.back,
        }
        return render(self.request, "vfolders/many_done.html", context)


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
        mode="" if folder.mode == FolderMode.GENERAL else _(MODE_LABELS[FolderMode(folder.mode)]),
        expires=expiry_words(folder),
        progress=clone_progress(folder.clone_under_way) if folder.clone_under_way else None,
        can_open=folder.state == FolderState.READY and Action.READ in allowed,
        can_delete=Action.DELETE in allowed,
    )


def _word(count: int) -> str:
    """Return the confirmation phrase to type."""
    return _("delete {count}").format(count=count)


def _listing(request: HttpRequest, actor: Actor) -> Listing:
    """Return the list: own folders, those that others share, the trash, and all for administrators. If a
    project is chosen in the bar, only its folders and personal ones are shown.
    """
    is_admin = oversees_projects(request.user)  # type: ignore[arg-type]
    chosen = chosen_projects(request)
    is_kept, is_own = Q(state__in=LISTED), Q(owner_id=actor.user_id or NOBODY) | Q(is_member=True)
    tabs = (
        Tab("mine", gettext_noop("Mine"), is_kept & is_own),
        Tab("shared", gettext_noop("Shared with me"), is_kept & shared_with(actor) & ~is_own),
        Tab(TRASH_TAB, gettext_noop("Trash"), Q(state__in=TRASH) & deletable_by(actor), sort="expires"),
        Tab("all", gettext_noop("All that I administer"), is_kept),
    )
    return Listing(
        TABLE,
        request.GET,
        chosen=column_choice(actor, TABLE.name),
        without=() if is_admin else ("owner",),
        tabs=tabs if is_admin else tabs[:-1],
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
