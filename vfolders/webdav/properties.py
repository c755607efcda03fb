"""Properties that WebDAV clients define on entries (“dead” properties), in the database.

They follow their entry when it is moved or copied by WebDAV, and go with it when it is deleted by
WebDAV. Other ways of changing a folder do not know them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from django.db import transaction
from django.db.models import Q, Value
from django.db.models.functions import Concat, Length, Substr
from django.utils.translation import gettext as _

from common.db.advisory_locks import LockTimeout, lock_exclusive
from common.errors import Conflict, LimitExceeded
from vfolders.core.paths import EntryPath
from vfolders.models import DavProperty, VFolder
from vfolders.webdav.bodies import PropertyUpdate
from vfolders.webdav.locks import key_of

MAX_PROPERTIES = 20_000
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
def update_properties(folder: VFolder, path: EntryPath, updates: Iterable[PropertyUpdate]) -> None:
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
    if DavProperty.objects.filter(folder=folder).count() > MAX_PROPERTIES:
        raise LimitExceeded(
            _("There are {count} properties of WebDAV clients in the folder already.").format(
                count=MAX_PROPERTIES
            )
        )


@transaction.atomic
def move_properties(source: VFolder, path: EntryPath, destination: VFolder, to: EntryPath) -> None:
    """Give the properties at and below `path` to the entry's new place; those that were there go."""
    forget_properties(destination, to)
    old, new = key_of(path), key_of(to)
    rest = Substr("path", Length(Value(old)) + 1)
    moved = DavProperty.objects.filter(_at_or_below(path), folder=source)
    moved.update(folder=destination, path=Concat(Value(new), rest))


@transaction.atomic
def copy_properties(
    source: VFolder, path: EntryPath, destination: VFolder, to: EntryPath, *, is_deep: bool
) -> None:
    """Give copies of the properties at `path`, with `is_deep` also of those below it, to the copied
    entry.
    """
    forget_properties(destination, to)
    old, new = key_of(path), key_of(to)
    place = _at_or_below(path) if is_deep else Q(path=old)
    rows = DavProperty.objects.filter(place, folder=source)[:MAX_PROPERTIES]
    DavProperty.objects.bulk_create(
        DavProperty(folder=destination, path=new + row.path[len(old) :], name=row.name, xml=row.xml)
        for row in rows
    )


def forget_properties(folder: VFolder, path: EntryPath) -> None:
    """Delete the properties of an entry that is gone, and of those below it."""
    DavProperty.objects.filter(_at_or_below(path), folder=folder).delete()


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
