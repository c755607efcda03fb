"""Properties that WebDAV clients define on entries (“dead” properties), in the database.

They follow their entry when it is moved or copied by WebDAV, and go with it when it is deleted by
WebDAV. Other ways of changing a folder do not know them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db import transaction
from django.db.models import Count, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Concat, Length, Substr
from django.utils.translation import gettext as _

from common.db.advisory_locks import LockTimeout, lock_exclusive
from common.errors import Conflict, LimitExceeded
from vfolders.core.paths import EntryPath
from vfolders.models import DavProperty, VFolder
from vfolders.webdav.bodies import PropertyUpdate
from vfolders.webdav.locks import key_of

MAX_PROPERTIES, MAX_MEGABYTES = 20_000, 16
"""In one folder; of names and values, in characters."""
BATCH = 1000
WAIT_S = 5.0


def properties_of(folder: VFolder, path: EntryPath) -> dict[str, str]:
    """Return the properties of the entry as {name: XML element}. One query."""
    return dict(DavProperty.objects.filter(folder=folder, path=key_of(path)).values_list("name", "xml"))


def properties_in(folder: VFolder, directory: EntryPath) -> Mapping[str, dict[str, str]]:
    """Return those of all entries in a directory, by key of the entry's path. One query."""
    prefix = _prefix(directory)
    below = DavProperty.objects.filter(folder=folder, path__startswith=prefix).exclude(path="")
    rows = below.annotate(rest=Substr("path", len(prefix) + 1)).exclude(rest__contains="/")
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path, name, xml in rows.values_list("path", "name", "xml"):
        found[path][name] = xml
    return found


@transaction.atomic
def update_properties(folder: VFolder, path: EntryPath, updates: Sequence[PropertyUpdate]) -> None:
    """Set and remove properties of the entry, in order. Raises LimitExceeded, Conflict."""
    key = key_of(path)
    _serialise(folder)
    for update in updates:
        if update.xml:
            DavProperty.objects.update_or_create(
                folder=folder, path=key, name=update.name, defaults={"xml": update.xml}
            )
        else:
            DavProperty.objects.filter(folder=folder, path=key, name=update.name).delete()
    if any(update.xml for update in updates):
        _require_room(DavProperty.objects.filter(folder=folder))


def require_room(
    source: VFolder, path: EntryPath, destination: VFolder, to: EntryPath, *, is_deep: bool = True
) -> None:
    """Require that the properties of the entry fit in where it is to be copied, instead of those of
    what is there. Raises LimitExceeded.
    """
    new = DavProperty.objects.filter(_place(path, is_deep=is_deep), folder=source)
    staying = DavProperty.objects.filter(folder=destination).exclude(_at_or_below(to))
    _require_room(new, staying)


@transaction.atomic
def move_properties(source: VFolder, path: EntryPath, destination: VFolder, to: EntryPath) -> None:
    """Give the properties at and below `path` to the entry's new place; those that were there go.
    Raises LimitExceeded, Conflict.
    """
    if source.pk != destination.pk:
        _serialise(destination)
        require_room(source, path, destination, to)
    forget_properties(destination, to)
    moved = DavProperty.objects.filter(_at_or_below(path), folder=source)
    moved.update(folder=destination, path=_moved_path(path, to))


@transaction.atomic
def copy_properties(
    source: VFolder, path: EntryPath, destination: VFolder, to: EntryPath, *, is_deep: bool
) -> None:
    """Give copies of the properties at `path`, with `is_deep` also of those below it, to the copied
    entry. Raises LimitExceeded, Conflict.
    """
    _serialise(destination)
    require_room(source, path, destination, to, is_deep=is_deep)
    forget_properties(destination, to)
    rows = DavProperty.objects.filter(_place(path, is_deep=is_deep), folder=source)
    copies = rows.annotate(new_path=_moved_path(path, to)).values_list("new_path", "name", "xml")
    DavProperty.objects.bulk_create(
        [DavProperty(folder=destination, path=new, name=name, xml=xml) for new, name, xml in copies],
        batch_size=BATCH,
    )


def forget_properties(folder: VFolder, path: EntryPath) -> None:
    """Delete the properties of an entry that is gone, and of those below it."""
    DavProperty.objects.filter(_at_or_below(path), folder=folder).delete()


def _require_room(*parts: QuerySet[DavProperty]) -> None:
    size = Length("name") + Length("xml")
    sums = [rows.aggregate(count=Count("pk"), length=Coalesce(Sum(size), 0)) for rows in parts]
    count, length = sum(each["count"] for each in sums), sum(each["length"] for each in sums)
    if count > MAX_PROPERTIES or length > MAX_MEGABYTES * 2**20:
        raise LimitExceeded(
            _(
                "The properties that WebDAV clients keep in the folder would exceed {count} or {megabytes} MB."
            ).format(count=MAX_PROPERTIES, megabytes=MAX_MEGABYTES)
        )


def _moved_path(path: EntryPath, to: EntryPath) -> Concat:
    return Concat(Value(key_of(to)), Substr("path", len(key_of(path)) + 1))


def _place(path: EntryPath, *, is_deep: bool) -> Q:
    return _at_or_below(path) if is_deep else Q(path=key_of(path))


def _at_or_below(path: EntryPath) -> Q:
    return Q(path=key_of(path)) | Q(path__startswith=_prefix(path))


def _prefix(directory: EntryPath) -> str:
    key = key_of(directory)
    return f"{key}/" if key else ""


def _serialise(folder: VFolder) -> None:
    try:
        lock_exclusive(f"dav properties of {folder.pk}", wait_s=WAIT_S)
    except LockTimeout as error:
        raise Conflict(_("Too many properties are changed at once. Try again.")) from error
