"""The page of one folder's life: name, mode, clone, trash. It opens as a drawer beside the list."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.selectors import cached_projects
from common.errors import BerthError
from common.pages.htmx import render_page_or_fragment
from common.pages.toasts import offer_undo
from common.rest.actor import actor_of
from common.rest.idempotency import submit_once
from vfolders import clones, services, trash
from vfolders.core.modes import FolderMode
from vfolders.core.permissions import Action
from vfolders.core.states import FolderState
from vfolders.models import VFolder
from vfolders.ports import FolderInUse, FolderUse
from vfolders.selectors import SHOWN, access_folder, actions_on, storage_host_names
from vfolders.web.forms import OWN, CloneForm, ModeForm, RenameForm
from vfolders.web.rows import MODE_LABELS, CloneProgress, clone_progress, expiry_words, size_words


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of one of the forms of the page; `uses` are the sessions that mount the folder."""

    form: str
    text: str
    uses: tuple[FolderUse, ...] = ()


@login_required
@require_safe
def folder_life(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Show what can be done with a folder as a whole."""
    return _page(request, folder_id)


@login_required
@require_POST
def rename(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    def act() -> HttpResponse:
        name = request.POST.get("name", "")
        folder = services.rename_folder(actor=actor_of(request), folder_id=folder_id, name=name)
        messages.success(request, _("The folder is called “{folder}” now.").format(folder=folder.name))
        return redirect("data")

    return _answer(request, folder_id, "rename", act)


@login_required
@require_POST
def change_mode(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    def act() -> HttpResponse:
        form = ModeForm(request.POST, modes=_other_modes())
        mode = FolderMode(form.cleaned_data["mode"]) if form.is_valid() else FolderMode.GENERAL
        folder = services.change_mode(actor=actor_of(request), folder_id=folder_id, mode=mode)
        words = {"folder": folder.name, "mode": _(MODE_LABELS[mode])}
        messages.success(request, _("“{folder}” is for: {mode}.").format(**words))
        return redirect("data")

    return _answer(request, folder_id, "mode", act)


@login_required
@require_POST
@submit_once(otherwise="data")
def clone(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    def act() -> HttpResponse:
        project = request.POST.get("project", OWN)
        folder = clones.clone_folder(
            actor=actor_of(request),
            folder_id=folder_id,
            name=request.POST.get("name", ""),
            project="" if project == OWN else project,
            host=request.POST.get("host", ""),
        )
        messages.success(
            request, _("“{folder}” is being copied. The list shows how far it is.").format(folder=folder.name)
        )
        return redirect("data")

    return _answer(request, folder_id, "clone", act)


@login_required
@require_POST
def retry_clone(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    def act() -> HttpResponse:
        clones.retry_clone(actor=actor_of(request), folder_id=folder_id)
        return redirect("data")

    return _answer(request, folder_id, "state", act)


@login_required
@require_POST
def trash_folder(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Put the folder in the trash, with a way back; cancel a clone under way."""

    def act() -> HttpResponse:
        folder = trash.trash_folder(actor=actor_of(request), folder_id=folder_id)
        if folder.state == FolderState.TRASHED:
            text = _("“{folder}” is in the trash, {expiry}.")
            expiry = expiry_words(folder)
            offer_undo(
                request,
                text.format(folder=folder.name, expiry=expiry),
                reverse("folder-restore", args=[folder_id]),
            )
        else:
            messages.success(request, _("The copy “{folder}” is cancelled.").format(folder=folder.name))
        return redirect("data")

    return _answer(request, folder_id, "trash", act)


@login_required
@require_POST
def restore(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    def act() -> HttpResponse:
        name = request.POST.get("name", "")
        folder = trash.restore_folder(actor=actor_of(request), folder_id=folder_id, name=name)
        messages.success(request, _("“{folder}” is back.").format(folder=folder.name))
        return redirect("data")

    return _answer(request, folder_id, "restore", act)


@login_required
@require_POST
def purge(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    def act() -> HttpResponse:
        name = request.POST.get("confirm", "")
        trash.purge_folder(actor=actor_of(request), folder_id=folder_id, name=name)
        messages.success(request, _("“{folder}” is removed for ever.").format(folder=name))
        return redirect(f"{reverse('data')}?tab=trash")

    return _answer(request, folder_id, "purge", act)


def _answer(
    request: HttpRequest, folder_id: UUID, form: str, act: Callable[[], HttpResponse]
) -> HttpResponse:
    """Return the answer of `act`, or the page with its refusal at this form."""
    access_folder(actor_of(request), folder_id, Action.VIEW, states=SHOWN)
    try:
        return act()
    except BerthError as refusal:
        if refusal.http_status in (403, 404):
            raise
        uses = tuple(refusal.uses) if isinstance(refusal, FolderInUse) else ()
        found = Refusal(form, f"{refusal.message} {refusal.hint}".strip(), uses)
        return _page(request, folder_id, found)


def _page(request: HttpRequest, folder_id: UUID, refusal: Refusal | None = None) -> HttpResponse:
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.VIEW, states=SHOWN)
    allowed = actions_on(actor, folder)
    is_ready = folder.state == FolderState.READY
    context: dict[str, Any] = {
        "folder": folder,
        "size": size_words(folder),
        "mode": _(MODE_LABELS[FolderMode(folder.mode)]),
        "expiry": expiry_words(folder),
        "progress": _progress(folder),
        "refusal": refusal,
        "is_ready": is_ready,
        "is_trashed": folder.state == FolderState.TRASHED,
        "can_manage": is_ready and Action.MANAGE in allowed,
        "can_clone": is_ready and Action.READ in allowed,
        "can_delete": Action.DELETE in allowed,
        "can_retry": Action.MANAGE in allowed,
        **_forms(request, folder, refusal),
    }
    return render_page_or_fragment(
        request,
        "vfolders/life.html",
        "vfolders/_life.html",
        context,
        status=422 if refusal else 200,
    )


def _forms(request: HttpRequest, folder: VFolder, refusal: Refusal | None) -> dict[str, forms.Form]:
    """Return the forms by name; the refused one has what was typed, and the refusal at its first field."""
    projects = [project.name for project in cached_projects(request.user)]  # type: ignore[arg-type]
    refused = refusal.form if refusal else ""

    def typed(name: str) -> Any:
        return request.POST if name == refused else None

    found: dict[str, forms.Form] = {
        "rename": RenameForm(
            typed("rename"), prefix=None, initial={"name": folder.name}, auto_id="rename_%s"
        ),
        "restore": RenameForm(typed("restore"), initial={"name": folder.name}, auto_id="restore_%s"),
        "mode": ModeForm(
            typed("mode"), modes=_other_modes(), initial={"mode": folder.mode}, auto_id="mode_%s"
        ),
        "clone": CloneForm(
            typed("clone"),
            projects=projects,
            hosts=storage_host_names(),
            initial={"name": f"{folder.name}-copy"[:64]},
            auto_id="clone_%s",
        ),
    }
    if refusal and refusal.form in found:
        form = found[refusal.form]
        form.is_valid()
        form.add_error(next(iter(form.fields)), refusal.text)
    return {f"{name}_form": form for name, form in found.items()}


def _other_modes() -> list[FolderMode]:
    return [mode for mode in FolderMode if mode is not FolderMode.AUTO_MOUNT]


def _progress(folder: VFolder) -> CloneProgress | None:
    return clone_progress(folder.clone_under_way) if folder.clone_under_way else None
