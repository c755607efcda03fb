"""Reads and writes files inside a folder on behalf of an actor; REST and pages use only these
functions.

`path` is the text of the request; it is parsed only here and in `names.py`. Errors of the storage
host propagate: EntryMissing, WrongKind, EntryExists, EntryBusy, StorageFull, StorageUnavailable.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from uuid import UUID

from common.actors import Actor
from common.audit import audit_log
from common.errors import LimitExceeded
from common.i18n import gettext as _
from vfolders import lifecycle, usage
from vfolders.access_watch import AccessWatch
from vfolders.core.paths import (
    HIDDEN,
    ROOT,
    TRASH,
    EntryPath,
    check_new_name,
    display_name,
    parse_directory,
    parse_path,
)
from vfolders.core.permissions import Action
from vfolders.files.metering import run_metered
from vfolders.files.names import existing_directory, existing_path, is_there, new_name, on_disk, parse
from vfolders.models import VFolder
from vfolders.selectors import access_folder, files_of
from vfolders.storage import trash
from vfolders.storage.base import (
    INTERACTIVE,
    Entry,
    EntryExists,
    EntryKind,
    EntryMissing,
    Listing,
    OpenFile,
    Usage,
    WrongKind,
)
from vfolders.storage.files import Copying
from vfolders.storage.listing import After, Order, Page
from vfolders.storage.trees import NameTaken

LISTED_ENTRIES = 10_000
WHOLE_DIRECTORY_ENTRIES = 100_000


def list_directory(*, actor: Actor, folder_id: UUID, path: str) -> Listing:
    """Return at most LISTED_ENTRIES entries of the directory `path`; "" is the folder itself."""
    folder = access_folder(actor, folder_id, Action.READ)
    components = on_disk(folder, parse(parse_directory, path))
    return files_of(folder).list_directory(components, limit=LISTED_ENTRIES)


def list_whole_directory(*, actor: Actor, folder_id: UUID, path: str) -> tuple[Entry, ...]:
    """Return all entries of a directory, for clients that take a part for the whole.
    Raises LimitExceeded if there are more than WHOLE_DIRECTORY_ENTRIES.
    """
    folder = access_folder(actor, folder_id, Action.READ)
    components = on_disk(folder, parse(parse_directory, path))
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
    components = on_disk(folder, parse(parse_path, path))
    return components, files_of(folder).stat(components)


def is_directory(*, actor: Actor, folder_id: UUID, path: str) -> bool:
    """Return True for a directory, False for a file, link or device. Raises EntryMissing."""
    folder = access_folder(actor, folder_id, Action.READ)
    components = on_disk(folder, parse(parse_directory, path))
    return components == ROOT or files_of(folder).stat(components).kind is EntryKind.DIRECTORY


def open_file(*, actor: Actor, folder_id: UUID, path: str) -> OpenFile:
    """Open the regular file `path` for reading."""
    folder = access_folder(actor, folder_id, Action.READ)
    return files_of(folder).open_file(on_disk(folder, parse(parse_path, path)))


def write_file(
    *, actor: Actor, folder_id: UUID, path: str, chunks: Iterable[bytes], expected_bytes: int = 0
) -> Entry:
    """Create or replace the file `path` with `chunks`; missing parents are created.
    `expected_bytes` is the announced size, 0 if unknown. Raises LimitExceeded if byte limits leave
    less space; then the old content stays.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    components = on_disk(folder, parse(parse_path, path), new=check_new_name)
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


def create_file(*, actor: Actor, folder_id: UUID, path: str) -> Entry:
    """Create the empty file `path`, whose parent is there. Raises EntryExists, EntryMissing."""
    folder = access_folder(actor, folder_id, Action.WRITE)
    components = on_disk(folder, parse(parse_path, path), new=check_new_name)
    entry = files_of(folder).replace_unchanged(components, b"", etag="")
    if entry is None:
        raise EntryExists(_("There is already an entry of this name."))
    _record(actor, "vfolders.write_file", folder, components)
    return entry


def make_directory(*, actor: Actor, folder_id: UUID, path: str) -> Entry:
    """Create the directory `path` and its missing parents."""
    folder = access_folder(actor, folder_id, Action.WRITE)
    components = on_disk(folder, parse(parse_path, path.removesuffix("/")), new=check_new_name)

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
    components = parse(parse_path, path.removesuffix("/"))
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


def list_page(
    *,
    actor: Actor,
    folder_id: UUID,
    path: str,
    order: Order = Order.NAME,
    is_descending: bool = False,
    after: After | None = None,
    limit: int = LISTED_ENTRIES,
) -> Page:
    """Return a page of the directory `path`; "" is the folder itself. See `storage/listing.py`."""
    folder = access_folder(actor, folder_id, Action.READ)
    return files_of(folder).list_page(
        existing_directory(folder, path),
        order=order,
        is_descending=is_descending,
        after=after,
        limit=min(limit, LISTED_ENTRIES),
    )


def move_entry(
    *, actor: Actor, folder_id: UUID, path: str, to: str, taken: NameTaken = NameTaken.REFUSE
) -> str | None:
    """Rename the entry `path` to the path `to` of the same folder; return its path then, None if it was
    skipped. A replaced entry goes to the trash. Raises EntryMissing, EntryExists, WrongKind.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    source, target = existing_path(folder, path), _path_of_new(folder, to)
    if source == target:
        return to
    made = files_of(folder).move(source, target, taken=taken, batch=trash.new_batch())
    _record(actor, "vfolders.move_entries", folder, source)
    lifecycle.push_folder_change(folder)
    return None if made is None else "/".join(made)


def copy_entry(
    *, actor: Actor, folder_id: UUID, path: str, to: str, taken: NameTaken = NameTaken.REFUSE
) -> str | None:
    """Copy the entry `path`, with all that it holds, to the path `to` of the same folder; return the path
    of the copy, None if it was skipped. Waits until it is done. Raises as `move_entry`, and
    LimitExceeded.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    source, target = existing_path(folder, path), _path_of_new(folder, to)
    watch, files = AccessWatch(actor, folder_id, Action.WRITE), files_of(folder)

    def copy(spend: Callable[[int], None]) -> EntryPath | None:
        return files.copy(source, files, target, copying=Copying(taken, trash.new_batch(), spend, []))

    made, _allowance = run_metered(folder, copy, lambda _: watch.check())
    _record(actor, "vfolders.copy_entries", folder, source)
    lifecycle.push_folder_change(folder)
    return None if made is None else "/".join(made)


def trash_entries(*, actor: Actor, folder_id: UUID, paths: Sequence[str]) -> str:
    """Move the entries to the trash of the folder; return the batch that `restore_entries` takes.
    Entries that are missing are passed over, unless all are. What lies in the trash is removed.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    wanted = [parse(parse_path, path.removesuffix("/")) for path in paths]
    files, batch, missing = files_of(folder), trash.new_batch(), None
    done = 0
    for path in _topmost(wanted):
        try:
            if path[0] == TRASH:
                files.delete_entry(path)
            else:
                files.throw_away(path, batch=batch)
            done += 1
        except EntryMissing as error:
            missing = error
    if missing is not None and not done:
        raise missing
    changes = {"paths": ["/".join(path) for path in wanted[:20]], "count": len(wanted)}
    audit_log.record(actor=actor, action="vfolders.trash_entries", target=folder, changes=changes)
    lifecycle.push_folder_change(folder)
    return batch


def restore_entries(*, actor: Actor, folder_id: UUID, batch: str) -> None:
    """Bring the entries of a batch back to where they were. Raises EntryMissing."""
    folder = access_folder(actor, folder_id, Action.WRITE)
    if not trash.is_batch(batch):
        raise EntryMissing(_("There is nothing of that in the trash."))
    try:
        files_of(folder).restore(batch)
    except EntryMissing as error:
        raise EntryMissing(_("It is not in the trash any more: restored, expired or removed.")) from error
    audit_log.record(actor=actor, action="vfolders.restore_entries", target=folder, changes={"batch": batch})
    lifecycle.push_folder_change(folder)


def trashed_entries(*, actor: Actor, folder_id: UUID) -> list[trash.Batch]:
    """Return what lies in the trash of the folder, the last deleted first."""
    return files_of(access_folder(actor, folder_id, Action.READ)).trashed()


def empty_trash(*, actor: Actor, folder_id: UUID) -> None:
    """Remove all that lies in the trash of the folder. This cannot be undone."""
    folder = access_folder(actor, folder_id, Action.WRITE)
    with suppress(EntryMissing):
        files_of(folder).delete_entry((TRASH,))
    usage.measure_soon(folder)
    audit_log.record(actor=actor, action="vfolders.empty_trash", target=folder)


def measure_folder(*, actor: Actor, folder_id: UUID) -> Usage:
    """Measure the folder now; return its bytes and files."""
    return usage.measure(access_folder(actor, folder_id, Action.VIEW), INTERACTIVE)


def _size_of_file(folder: VFolder, path: EntryPath) -> int:
    """Return the size that replacing the entry frees; 0 for a directory or a missing entry."""
    try:
        return files_of(folder).stat(path).size_bytes
    except (EntryMissing, WrongKind):
        return 0


def place_of_new_file(folder: VFolder, path: EntryPath) -> EntryPath:
    """Return the path as on the disk. Raises InvalidInput for a new name that may not be created."""
    return on_disk(folder, path, new=check_new_name)


def _missing_to_delete(folder: VFolder, path: EntryPath, error: EntryMissing) -> EntryMissing:
    """Return `error`, or one that reports an entry whose name looks the same."""
    twin = on_disk(folder, path)
    if twin == path or not is_there(folder, twin):
        return error
    return EntryMissing(
        _("Nothing is called exactly “{name}”, so nothing was deleted.").format(
            name=display_name("/".join(path))
        ),
        hint=_(
            "An entry whose name looks the same is there, in another Unicode form. Delete it by the name that the list of files gives."
        ),
    )


def _path_of_new(folder: VFolder, text: str) -> EntryPath:
    """Return the path of an entry that is there, or that may be created."""
    path = on_disk(folder, parse(parse_path, text.removesuffix("/")), new=check_new_name)
    if path[0].startswith(HIDDEN):
        new_name(path[0])
    return path


def _topmost(paths: Sequence[EntryPath]) -> list[EntryPath]:
    """Return the paths without those below others of them."""
    chosen = set(paths)
    return [
        path
        for path in dict.fromkeys(paths)
        if not any(path[:depth] in chosen for depth in range(1, len(path)))
    ]


def _record(actor: Actor, action: str, folder: VFolder, path: EntryPath) -> None:
    audit_log.record(actor=actor, action=action, target=folder, changes={"path": "/".join(path)})
