"""Creates, revokes and redeems public download links.

A link gives no more than its creator has: it stops with the creator's right to share the folder. What
it gives is read with that right, through the same services as a page.
"""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.http import StreamingHttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.core.token_secrets import hash_secret, new_secret
from accounts.selectors import get_acting_user, user_actor
from common import clock
from common.actors import Actor
from common.audit import audit_log
from common.errors import BerthError, Conflict, InvalidInput, NotFound, PermissionDenied
from vfolders import lifecycle
from vfolders.access_watch import Watch
from vfolders.core.permissions import Action
from vfolders.files import service as files
from vfolders.files.streams import zip_download
from vfolders.models import FolderLink, VFolder
from vfolders.selectors import access_folder
from vfolders.storage.base import OpenFile

DEFAULT_DAYS, MOST_DAYS = 7, 90
MOST_DOWNLOADS = 1_000_000
MOST_LINKS = 50  # of one folder


def are_links_on() -> bool:
    """Return False if an administrator has switched public links off."""
    return bool(settings.BERTH_PUBLIC_LINKS)


def folder_links(actor: Actor, folder_id: UUID) -> QuerySet[FolderLink]:
    """Links of a folder that the actor may share, oldest first. Raises NotFound, PermissionDenied."""
    folder = access_folder(actor, folder_id, Action.SHARE)
    return FolderLink.objects.filter(folder=folder).select_related("folder", "creator")


def create_link(
    *,
    actor: Actor,
    folder_id: UUID,
    path: str = "",
    days: int = DEFAULT_DAYS,
    max_downloads: int | None = None,
) -> tuple[FolderLink, str]:
    """Create a link to a file or directory and return it with its address, which is shown only once.

    Raises InvalidInput, NotFound (also for a missing file), PermissionDenied, Conflict (switched off,
    or too many).
    """
    folder = access_folder(actor, folder_id, Action.SHARE)
    if not are_links_on():
        raise Conflict(
            _("Public links are switched off here."), hint=_("Share the folder with people instead.")
        )
    if not 1 <= days <= MOST_DAYS:
        raise InvalidInput.at("days", _("Give 1 to {most} days.").format(most=MOST_DAYS))
    if max_downloads is not None and not 1 <= max_downloads <= MOST_DOWNLOADS:
        raise InvalidInput.at("max_downloads", _("Give a number from 1, or none for any number."))
    files.is_directory(actor=actor, folder_id=folder_id, path=path)  # raises if nothing is there
    code = new_secret()
    link = FolderLink(
        folder=folder, path=path, code_hash=hash_secret(code), creator=get_acting_user(actor),
        expires_at=clock.now() + timedelta(days=days), max_downloads=max_downloads,
    )  # fmt: skip

    with transaction.atomic():
        VFolder.objects.select_for_update(no_key=True).filter(pk=folder_id).first()
        access_folder(actor, folder_id, Action.SHARE)
        if folder.links.count() >= MOST_LINKS:
            raise Conflict(_("A folder has at most {most} links. Revoke one first.").format(most=MOST_LINKS))
        link.save(force_insert=True)
        facts = {"path": path, "days": days, "downloads": max_downloads}
        audit_log.record(actor=actor, action="vfolders.create_link", target=folder, changes=facts)
        lifecycle.push_folder_change(folder)
    return link, settings.BERTH_URL + reverse("public-link", args=[code])


@transaction.atomic
def revoke_link(*, actor: Actor, folder_id: UUID, link_id: UUID) -> None:
    """Revoke a link at once. Raises NotFound, PermissionDenied."""
    link = folder_links(actor, folder_id).filter(pk=link_id).first()
    if link is None:
        raise NotFound(_("This link does not exist any more."))
    audit_log.record(
        actor=actor, action="vfolders.revoke_link", target=link.folder, changes={"path": link.path}
    )
    link.delete()
    lifecycle.push_folder_change(link.folder)


def find_link(code: str) -> FolderLink:
    """Return the link of this code if it can be used now. Raises NotFound (unknown, revoked, or its creator
    lost the right), Conflict (expired, used up).
    """
    rows = FolderLink.objects.select_related("folder", "creator__domain")
    link = rows.filter(code_hash=hash_secret(code)).first()
    if link is None or not are_links_on():
        raise NotFound(
            _("This link leads nowhere. It may have been revoked."), hint=_("Ask for another link.")
        )
    _require_use(link)
    if link.max_downloads is not None and link.downloads >= link.max_downloads:
        raise Conflict(
            _("This link was used as often as it may be."),
            hint=_("Ask for another link."),
            code="link_used_up",
        )
    return link


def is_archive(link: FolderLink) -> bool:
    """Return True if the link leads to a directory, which is sent as a ZIP archive. Raises NotFound (it
    was deleted).
    """
    return files.is_directory(actor=_creator(link), folder_id=link.folder_id, path=link.path)


def stat_link(link: FolderLink) -> int:
    """Return the size in bytes of the file of a link. Raises NotFound (it was deleted)."""
    opened = open_link(link)
    opened.stream.close()
    return opened.size_bytes


def open_link(link: FolderLink) -> OpenFile:
    """Open the file of a link, with the right of its creator. Raises NotFound (it was deleted)."""
    return files.open_file(actor=_creator(link), folder_id=link.folder_id, path=link.path)


def pack_link(link: FolderLink) -> StreamingHttpResponse:
    """Return the directory of a link as a ZIP archive, packed while it is sent."""
    paths = [link.path] if link.path else []
    return zip_download(actor=_creator(link), folder_id=link.folder_id, paths=paths, watch=LinkWatch(link.pk))


@transaction.atomic
def count_download(*, actor: Actor, link: FolderLink) -> None:
    """Count one download; `actor` is whoever downloads, known or not. Raises Conflict if another
    one was the last at this moment.
    """
    has_more = Q(max_downloads=None) | Q(downloads__lt=F("max_downloads"))
    if not FolderLink.objects.filter(has_more, pk=link.pk).update(downloads=F("downloads") + 1):
        raise Conflict(
            _("This link was used as often as it may be."),
            hint=_("Ask for another link."),
            code="link_used_up",
        )
    audit_log.record(actor=actor, action="vfolders.use_link", target=link.folder, changes={"path": link.path})


class LinkWatch(Watch):
    """Right of a download by a link: it ends when the link does."""

    def __init__(self, link_id: UUID) -> None:
        super().__init__(link_id)
        self._link_id = link_id

    def require_access(self) -> None:
        rows = FolderLink.objects.select_related("folder", "creator__domain")
        link = rows.filter(pk=self._link_id).first()
        if link is None or not are_links_on():
            raise PermissionDenied(_("This link was revoked."))
        _require_use(link)


def remove_ended_links() -> int:
    """Remove links that have expired; return their number. Safe to run at any time."""
    return FolderLink.objects.filter(expires_at__lte=clock.now()).delete()[0]


def _creator(link: FolderLink) -> Actor:
    """Return the actor with whose right a link is read; its label in logs says that it was a link."""
    return replace(user_actor(link.creator), label=f"link of {link.creator.email}")


def _require_use(link: FolderLink) -> None:
    if link.expires_at <= clock.now():
        raise Conflict(_("This link has expired."), hint=_("Ask for another link."), code="link_expired")
    creator = link.creator
    try:
        if not (creator.is_active and creator.domain.is_active):
            raise NotFound("")
        access_folder(user_actor(creator), link.folder_id, Action.SHARE)
    except BerthError as error:
        raise NotFound(
            _("This link leads nowhere. It may have been revoked."), hint=_("Ask for another link.")
        ) from error
