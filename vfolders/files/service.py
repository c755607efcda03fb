"""Reads and writes files inside a folder on behalf of an actor; REST and pages use only these
functions.

`path` is the text of the request; it is parsed only here. Errors of the storage host propagate:
EntryMissing, WrongKind, EntryExists, EntryBusy, StorageFull, StorageUnavailable.
"""

import unicodedata
from collections.abc import Callable, Iterable
from uuid import UUID

from common.actors import Actor
from common.audit import audit_log
from common.errors import LimitExceeded, invalid_field
from common.i18n import gettext as _
from common.values.text import normalised
from vfolders import usage
from vfolders.core.paths import (
    MAX_NAME_BYTES,
    ROOT,
    EntryPath,
    check_new_name,
    display_name,
    parse_directory,
    parse_path,
)
from vfolders.core.permissions import Action
from vfolders.models import VFolder
from vfolders.selectors import access_folder, files_of
from vfolders.storage.base import (
    INTERACTIVE,
    Entry,
    EntryKind,
    EntryMissing,
    Listing,
    OpenFile,
    Usage,
    WrongKind,
)

LISTED_ENTRIES = 10_000
WHOLE_DIRECTORY_ENTRIES = 100_000


def list_directory(*, actor: Actor, folder_id: UUID, path: str) -> Listing:
    """Return at most LISTED_ENTRIES entries of the directory `path`; "" is the folder itself."""
    folder = access_folder(actor, folder_id, Action.READ)
    components = _on_disk(folder, _parse(parse_directory, path))
    return files_of(folder).list_directory(components, limit=LISTED_ENTRIES)


def list_whole_directory(*, actor: Actor, folder_id: UUID, path: str) -> tuple[Entry, ...]:
    """Return all entries of a directory, for clients that take a part for the whole.
    Raises LimitExceeded if there are more than WHOLE_DIRECTORY_ENTRIES.
    """
    folder = access_folder(actor, folder_id, Action.READ)
    components = _on_disk(folder, _parse(parse_directory, path))
    listing = files_of(folder).list_directory(components, limit=WHOLE_DIRECTORY_ENTRIES)
    if not listing.is_complete:
        raise LimitExceeded(
            _("The directory has more than {count} entries.").format(count=WHOLE_DIRECTORY_ENTRIES),
            hint=_("Use the page or the command line, which list it in parts."),
        )
    return listing.entries


def find_entry(*, actor: Actor, folder_id: UUID, path: str) -> tuple[EntryPath, Entry]:
    """Return the entry with its path as on the disk. Raises EntryMissing, WrongKind."""
    folder = access_folder(actor, folder_id, Action.READ)
    components = _on_disk(folder, _parse(parse_path, path))
    return components, files_of(folder).stat(components)


def is_directory(*, actor: Actor, folder_id: UUID, path: str) -> bool:
    """Return True for a directory, False for a file, link or device. Raises EntryMissing."""
    folder = access_folder(actor, folder_id, Action.READ)
    components = _on_disk(folder, _parse(parse_directory, path))
    return components == ROOT or files_of(folder).stat(components).kind is EntryKind.DIRECTORY


def open_file(*, actor: Actor, folder_id: UUID, path: str) -> OpenFile:
    """Open the regular file `path` for reading."""
    folder = access_folder(actor, folder_id, Action.READ)
    return files_of(folder).open_file(_on_disk(folder, _parse(parse_path, path)))


def write_file(
    *, actor: Actor, folder_id: UUID, path: str, chunks: Iterable[bytes], expected_bytes: int = 0
) -> Entry:
    """Create or replace the file `path` with `chunks`; missing parents are created.
    `expected_bytes` is the announced size, 0 if unknown. Raises LimitExceeded if byte limits leave
    less space; then the old content stays.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    components = _on_disk(folder, _parse(parse_path, path), new=check_new_name)
    replaced = _size_of_file(folder, components)

    metered = usage.MeteredUpload(folder, chunks, expected=expected_bytes, replaced=replaced)
    try:
        entry = files_of(folder).write_file(components, metered)
    except BaseException:
        metered.release()
        raise
    metered.settle(entry.size_bytes)
    _record(actor, "vfolders.write_file", folder, components)
    return entry


def make_directory(*, actor: Actor, folder_id: UUID, path: str) -> Entry:
    """Create the directory `path` and its missing parents."""
    folder = access_folder(actor, folder_id, Action.WRITE)
    components = _on_disk(folder, _parse(parse_path, path.removesuffix("/")), new=check_new_name)

    files_of(folder).make_directory(components)
    _record(actor, "vfolders.make_directory", folder, components)
    return files_of(folder).stat(components)


def delete_entry(*, actor: Actor, folder_id: UUID, path: str) -> None:
    """Remove the file, link or directory named exactly `path`, with all content of a directory.
    Raises EntryMissing.

    A name in another Unicode form is another entry here, because otherwise a request that is sent
    twice would remove both.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    components = _parse(parse_path, path.removesuffix("/"))
    try:
        gone = files_of(folder).stat(components)
    except EntryMissing as error:
        raise _missing_to_delete(folder, components, error) from error

    files_of(folder).delete_entry(components)
    if gone.kind is EntryKind.DIRECTORY:
        usage.measure_soon(folder)
    else:
        usage.add_bytes(folder, -gone.size_bytes)
    _record(actor, "vfolders.delete_entry", folder, components)


def measure_folder(*, actor: Actor, folder_id: UUID) -> Usage:
    """Measure the folder now; return its bytes and files."""
    return usage.measure(access_folder(actor, folder_id, Action.VIEW), INTERACTIVE)


def _size_of_file(folder: VFolder, path: EntryPath) -> int:
    """Return the size that replacing the entry frees; 0 for a directory or a missing entry."""
    try:
        return files_of(folder).stat(path).size_bytes
    except (EntryMissing, WrongKind):
        return 0


def place_of_new_file(folder: VFolder, path: EntryPath) -> tuple[EntryPath, int]:
    """Return the path as on the disk, and the bytes that replacing the file there frees. Raises
    InvalidInput for a new name that may not be created.
    """
    components = _on_disk(folder, path, new=check_new_name)
    return components, _size_of_file(folder, components)


def _parse(parser: Callable[[str], EntryPath], path: str) -> EntryPath:
    with invalid_field("path"):
        return parser(path)


def _missing_to_delete(folder: VFolder, path: EntryPath, error: EntryMissing) -> EntryMissing:
    """Return `error`, or one that reports an entry whose name looks the same."""
    twin = _on_disk(folder, path)
    if twin == path or not _is_there(folder, twin):
        return error
    return EntryMissing(
        _("Nothing is called exactly “{name}”, so nothing was deleted.").format(
            name=display_name("/".join(path))
        ),
        hint=_(
            "An entry whose name looks the same is there, in another Unicode form. Delete it by the name that the list of files gives."
        ),
    )


def _on_disk(folder: VFolder, path: EntryPath, *, new: Callable[[str], str] = str) -> EntryPath:
    """Return `path` with each name as on the disk: exactly equal, else in Unicode normalisation
    form C or D (macOS writes D). Names that do not exist are passed through `new`.
    """
    found: EntryPath = ROOT
    for name in path:
        found = (
            *found,
            name if name.isascii() and name.isprintable() else _name_on_disk(folder, found, name, new),
        )
    return found


def _name_on_disk(folder: VFolder, parent: EntryPath, name: str, new: Callable[[str], str]) -> str:
    for form in dict.fromkeys((name, normalised(name), unicodedata.normalize("NFD", name))):
        if len(form.encode()) <= MAX_NAME_BYTES and _is_there(folder, (*parent, form)):
            return form
    with invalid_field("path"):
        return new(name)


def _is_there(folder: VFolder, path: EntryPath) -> bool:
    try:
        files_of(folder).stat(path)
    except (EntryMissing, WrongKind):
        return False
    return True


def _record(actor: Actor, action: str, folder: VFolder, path: EntryPath) -> None:
    audit_log.record(actor=actor, action=action, target=folder, changes={"path": "/".join(path)})
