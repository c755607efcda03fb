"""Pages of sharing: the sharing drawer of a folder, and answers to invitations."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts.selectors import cached_projects
from common import clock
from common.actors import Actor
from common.errors import BerthError
from common.pages.bulk_actions import chosen_ids
from common.pages.form_fields import UncheckedChoice, UncheckedField
from common.pages.htmx import is_fragment, render_page_or_fragment
from common.rest.actor import actor_of
from vfolders.core.paths import display_name
from vfolders.core.permissions import OWNERSHIP, RIGHT_TITLES, Action, Right
from vfolders.models import FolderLink, FolderShare, VFolder
from vfolders.public_links import service as links
from vfolders.selectors import access_folder, actions_on
from vfolders.sharing import service
from vfolders.sharing.selectors import folder_shares, own_invitations, sessions_without_right


def _rights() -> list[tuple[str, str]]:
    return [(right.value, _(RIGHT_TITLES[right])) for right in Right]


class ShareForm(forms.Form):
    person = UncheckedField(
        required=False,
        max_length=254,
        label=gettext_lazy("Person"),
        help_text=gettext_lazy("E-mail address or name. The person is asked first."),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    project = UncheckedChoice(required=False, label=gettext_lazy("Or project"))
    right = UncheckedChoice(label=gettext_lazy("May"))
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=service.MOST_DAYS,
        label=gettext_lazy("Ends after (days)"),
    )

    def __init__(self, *arguments: Any, projects: list[str], can_offer: bool, **options: Any) -> None:
        """`projects` are names of the user's projects."""
        super().__init__(*arguments, **options)
        offer = [(OWNERSHIP, service.right_title(OWNERSHIP))] if can_offer else []
        self.fields["right"].choices = [*_rights(), *offer]  # type: ignore[attr-defined]
        self.fields["project"].choices = [("", "—"), *((name, name) for name in projects)]  # type: ignore[attr-defined]
        if not projects:
            del self.fields["project"]


class LinkForm(forms.Form):
    path = UncheckedField(
        required=False,
        label=gettext_lazy("File or directory"),
        help_text=gettext_lazy("Empty: the whole folder. Directories are sent as ZIP archives."),
        widget=forms.TextInput(
            attrs={"placeholder": "results/report.pdf", "autocomplete": "off", "spellcheck": "false"}
        ),
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=links.MOST_DAYS,
        initial=links.DEFAULT_DAYS,
        label=gettext_lazy("Ends after (days)"),
    )
    max_downloads = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=links.MOST_DOWNLOADS,
        label=gettext_lazy("Downloads"),
        help_text=gettext_lazy("Empty: any number."),
    )


@dataclass(frozen=True, slots=True)
class ShareRow:
    """One share or invitation, ready to print. `rights` are the choices of a change, none for an offer."""

    pk: UUID
    name: str
    detail: str
    icon: str
    right: str
    right_title: str
    rights: list[tuple[str, str]]
    is_open: bool
    is_over: bool
    until: datetime | None


@dataclass(frozen=True, slots=True)
class InvitationRow:
    """One open invitation or offer to the user."""

    pk: UUID
    folder: str
    inviter: str
    size_bytes: int
    right_title: str
    is_offer: bool
    answer_by: datetime | None
    expires_at: datetime | None


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def sharing(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Show with whom the folder is shared; POST invites a person or shares with a project."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.SHARE)
    if request.method != "POST":
        return _page(request, folder)
    form = _share_form(request, folder)
    if form.is_valid():
        values = dict(form.cleaned_data)
        days = values.pop("days")
        end = clock.now() + timedelta(days=days) if days else None
        try:
            share = service.share_folder(actor=actor, folder_id=folder_id, expires_at=end, **values)
        except BerthError as refusal:
            _mark(form, refusal)
        else:
            messages.success(request, _share_message(share))
            return _back(request, folder)
    return _page(request, folder, share_form=form, status=422)


@login_required
@require_POST
def share(request: HttpRequest, folder_id: UUID, share_id: UUID) -> HttpResponse:
    """Change the right of a share, or revoke it (`revoke`)."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.SHARE)
    try:
        if "revoke" in request.POST:
            service.revoke_share(actor=actor, folder_id=folder_id, share_id=share_id)
            messages.success(request, _revoked_message(folder))
        else:
            right = request.POST.get("right", "")
            right = right if right in set(Right) else ""
            service.change_share(actor=actor, folder_id=folder_id, share_id=share_id, right=right or None)
            messages.success(request, _("The new right holds at once."))
    except BerthError as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
    return _back(request, folder)


@login_required
@require_POST
def end_sessions(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """End the chosen sessions that mount the folder without a right."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.SHARE)
    ids = chosen_ids(request.POST, "session")
    ended = service.end_sessions_without_right(actor=actor, folder_id=folder_id, session_ids=ids)
    text = ngettext("{count} session is being ended.", "{count} sessions are being ended.", ended)
    messages.success(request, text.format(count=ended))
    return _back(request, folder)


@login_required
@require_POST
def create_link(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    """Create a public link and show its address, once."""
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.SHARE)
    form = LinkForm(request.POST)
    if form.is_valid():
        try:
            link, url = links.create_link(actor=actor, folder_id=folder_id, **form.cleaned_data)
        except BerthError as refusal:
            _mark(form, refusal)
        else:
            return _page(request, folder, new_link={"name": link.name, "url": url}, status=201)
    return _page(request, folder, link_form=form, status=422)


@login_required
@require_POST
def revoke_link(request: HttpRequest, folder_id: UUID, link_id: UUID) -> HttpResponse:
    actor = actor_of(request)
    folder = access_folder(actor, folder_id, Action.SHARE)
    links.revoke_link(actor=actor, folder_id=folder_id, link_id=link_id)
    messages.success(request, _("The link leads nowhere any more. Downloads under way end."))
    return _back(request, folder)


@login_required
@require_POST
def leave(request: HttpRequest, folder_id: UUID) -> HttpResponse:
    folder = access_folder(actor_of(request), folder_id, Action.VIEW)
    try:
        service.leave_folder(actor=actor_of(request), folder_id=folder_id)
    except BerthError as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect("folder", folder_id)
    messages.success(request, _("You have left the folder “{folder}”.").format(folder=folder.name))
    return redirect("data")


@login_required
@require_POST
def answer_invitation(request: HttpRequest, share_id: UUID) -> HttpResponseBase:
    """Accept an invitation, or decline it (`decline`)."""
    actor = actor_of(request)
    try:
        if "decline" in request.POST:
            service.decline_share(actor=actor, share_id=share_id)
            messages.success(request, _("The invitation is declined."))
            return redirect("data")
        folder = service.accept_share(actor=actor, share_id=share_id)
    except BerthError as refusal:
        messages.error(request, f"{refusal.message} {refusal.hint}".strip())
        return redirect("data")
    messages.success(request, _("The folder “{folder}” is yours to use.").format(folder=folder.name))
    return redirect("folder", folder.pk)


def invitation_rows(actor: Actor) -> list[InvitationRow]:
    """Return the invitations that the actor can answer now. One query."""
    return [
        InvitationRow(
            pk=each.pk,
            folder=each.folder.name,
            inviter=str(each.inviter or each.folder.owner or each.folder.project),
            size_bytes=each.folder.size_bytes,
            right_title=service.right_title(each.right),
            is_offer=each.is_offer,
            answer_by=each.answer_by,
            expires_at=each.expires_at,
        )
        for each in own_invitations(actor)
    ]


def _page(request: HttpRequest, folder: VFolder, *, status: int = 200, **given: Any) -> HttpResponse:
    actor = actor_of(request)
    path = request.GET.get("path", "")
    context = {
        "folder": folder,
        "rows": [_row(each) for each in folder_shares(actor, folder.pk)],
        "sessions": sessions_without_right(folder),
        "links": [_link_row(each) for each in links.folder_links(actor, folder.pk)],
        "share_form": given.pop("share_form", None) or _share_form(request, folder, is_empty=True),
        "link_form": given.pop("link_form", None)
        or LinkForm(initial={"path": path, "days": links.DEFAULT_DAYS}),
        "are_links_on": links.are_links_on(),
        "is_in_drawer": is_fragment(request),
        **given,
    }
    return render_page_or_fragment(
        request, "vfolders/sharing.html", "vfolders/_sharing.html", context, status=status
    )


def _share_form(request: HttpRequest, folder: VFolder, *, is_empty: bool = False) -> ShareForm:
    can_manage = Action.MANAGE in actions_on(actor_of(request), folder)
    projects = [
        each.name
        for each in cached_projects(request.user)  # type: ignore[arg-type]
        if each.domain_id == folder.domain_id and each.pk != folder.project_id
    ]
    return ShareForm(
        None if is_empty else request.POST,
        projects=projects,
        can_offer=can_manage and folder.owner_id is not None,
    )


def _row(share: FolderShare) -> ShareRow:
    now = clock.now()
    until = share.answer_by if share.is_open else share.expires_at
    return ShareRow(
        pk=share.pk,
        name=share.user.get_short_name() if share.user else str(share.project),
        detail=share.user.email if share.user else _("everybody in the project"),
        icon="user" if share.user else "users",
        right=share.right,
        right_title=service.right_title(share.right),
        rights=[] if share.is_offer else _rights(),
        is_open=share.is_open,
        is_over=until is not None and until <= now,
        until=until,
    )


def _link_row(link: FolderLink) -> dict[str, Any]:
    return {
        "pk": link.pk,
        "name": display_name(link.path) or link.folder.name,
        "expires_at": link.expires_at,
        "is_over": link.expires_at <= clock.now(),
        "downloads": link.downloads,
        "max_downloads": link.max_downloads,
        "creator": link.creator.email,
    }


def _back(request: HttpRequest, folder: VFolder) -> HttpResponse:
    """Return to the drawer on the folder's page, or to the page of its own."""
    if "in_drawer" in request.POST:
        return redirect(f"{reverse('folder', args=[folder.pk])}?{urlencode({'open': 'sharing'})}")
    return redirect("folder-sharing", folder.pk)


def _share_message(share: FolderShare) -> str:
    if share.project:
        return _("Everybody in {project} has the folder now.").format(project=share.project)
    return _("{person} is invited, and can accept on the page Data.").format(person=share.user)


def _revoked_message(folder: VFolder) -> str:
    if sessions_without_right(folder):
        return _("The right has ended. Sessions below still have the folder mounted.")
    return _("The right has ended, and with it every upload and download.")


def _mark(form: forms.Form, refusal: BerthError) -> None:
    """Show the refusal at the field that it is about, or above the form."""
    field = next((name for name in refusal.fields if name in form.fields), None)
    form.add_error(field, f"{refusal.message} {refusal.hint}".strip())
