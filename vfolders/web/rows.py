"""Values that the templates of the Data pages show, ready to print."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from common import clock
from common.values.resources import format_bytes
from vfolders.core.modes import FolderMode
from vfolders.core.paths import EntryPath, display_name, is_addressable
from vfolders.models import FolderClone, VFolder
from vfolders.storage.base import Entry, EntryKind

_ICONS = {
    EntryKind.FILE: "file",
    EntryKind.DIRECTORY: "folder",
    EntryKind.LINK: "link",
    EntryKind.OTHER: "plug-connected",
}
_NOTES = {
    EntryKind.LINK: gettext_noop("A link. It works in sessions; here it is not followed."),
    EntryKind.OTHER: gettext_noop("A device, pipe or socket of a session."),
}


MODE_LABELS = {
    FolderMode.GENERAL: gettext_noop("General use"),
    FolderMode.AUTO_MOUNT: gettext_noop("All my sessions (auto-mount)"),
    FolderMode.DATA: gettext_noop("Data"),
    FolderMode.MODEL: gettext_noop("Models"),
    FolderMode.PIPELINE: gettext_noop("Pipelines"),
}


@dataclass(frozen=True, slots=True)
class CloneProgress:
    """Progress of a clone: "1.5 GiB of 3 GiB, 120 files", and the percentage of its bytes.
    `error` says why it stopped.
    """

    words: str
    percent: int
    source: str
    since: datetime
    error: str


def clone_progress(clone: FolderClone) -> CloneProgress:
    total = max(clone.bytes_total, clone.bytes_done)
    files = ngettext("{count} file", "{count} files", clone.files_done).format(count=clone.files_done)
    words = _("{done} of {total}, {files}").format(
        done=format_bytes(clone.bytes_done), total=format_bytes(total), files=files
    )
    percent = 100 * clone.bytes_done // total if total else 0
    return CloneProgress(words, percent, clone.source_name, clone.started_at, clone.error_message)


def expiry_words(folder: VFolder) -> str:
    """Return when a folder in the trash is removed, as "removed for ever in 6 days"; "" for others."""
    if folder.expires_at is None:
        return ""
    left = folder.expires_at - clock.now()
    if left < timedelta(hours=1):
        return _("removed for ever within the hour")
    if left < timedelta(days=1):
        hours = math.ceil(left / timedelta(hours=1))
        return ngettext(
            "removed for ever in {count} hour", "removed for ever in {count} hours", hours
        ).format(count=hours)
    days = round(left / timedelta(days=1))
    return ngettext("removed for ever in {count} day", "removed for ever in {count} days", days).format(
        count=days
    )


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry of a directory.
    `open_url` and `delete_url` are "" if it cannot be opened or addressed here.
    """

    name: str
    icon: str
    note: str
    is_file: bool
    size_bytes: int
    modified_at: datetime
    open_url: str
    delete_url: str


@dataclass(frozen=True, slots=True)
class Crumb:
    label: str
    url: str


def size_words(folder: VFolder) -> str:
    """Return the size as "1.5 GiB"; "more than 1.5 GiB" if the measurement was incomplete, a dash
    if there was none yet.
    """
    if folder.measured_at is None and not folder.size_bytes:
        return "–"
    size = format_bytes(folder.size_bytes)
    return size if folder.is_size_whole else _("more than {size}").format(size=size)


def page_url(url_name: str, folder_id: UUID, path: EntryPath = ()) -> str:
    """Return the URL of a page of the folder, with the path in the query string."""
    url = reverse(url_name, args=[folder_id])
    return f"{url}?{urlencode({'path': '/'.join(path)})}" if path else url


def entry_row(folder_id: UUID, directory: EntryPath, entry: Entry) -> EntryRow:
    path = (*directory, entry.name)
    can_name = is_addressable(entry.name)
    opens_by = {EntryKind.FILE: "folder-file", EntryKind.DIRECTORY: "folder"}.get(entry.kind, "")
    return EntryRow(
        name=display_name(entry.name),
        icon=_ICONS[entry.kind],
        note=_note(entry, can_name),
        is_file=entry.kind is EntryKind.FILE,
        size_bytes=entry.size_bytes,
        modified_at=entry.modified_at,
        open_url=page_url(opens_by, folder_id, path) if can_name and opens_by else "",
        delete_url=page_url("folder-delete-entry", folder_id, path) if can_name else "",
    )


def _note(entry: Entry, can_name: bool) -> str:
    if entry.kind in _NOTES:
        return _(_NOTES[entry.kind])
    return (
        ""
        if can_name
        else _("Its name is not UTF-8, so it cannot be asked for here. Rename it in a session.")
    )


def crumbs(folder_id: UUID, folder_name: str, path: EntryPath) -> list[Crumb]:
    """Return the directories above `path`, the folder itself first; empty for the folder itself."""
    above = [Crumb(folder_name, page_url("folder", folder_id))] if path else []
    return above + [
        Crumb(display_name(path[depth - 1]), page_url("folder", folder_id, path[:depth]))
        for depth in range(1, len(path))
    ]
