"""Finds what an address names, for an actor, and its properties."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain

from django.db.models import Q, QuerySet
from django.utils.http import http_date
from django.utils.translation import gettext as _

from common.actors import Actor
from common.errors import LimitExceeded, NotFound
from vfolders.core.paths import HIDDEN, ROOT, EntryPath, display_name, is_addressable
from vfolders.files import service
from vfolders.models import DavLock, VFolder
from vfolders.quotas.selectors import byte_limits
from vfolders.selectors import NOBODY, own_folders
from vfolders.storage.base import Entry, EntryKind, EntryMissing, WrongKind
from vfolders.webdav import multistatus
from vfolders.webdav.addresses import GROUP_SIGN, Address
from vfolders.webdav.bodies import PropFind, Wish
from vfolders.webdav.locks import key_of, locks_below, locks_on, token_text
from vfolders.webdav.multistatus import ActiveLock
from vfolders.webdav.properties import properties_in, properties_of

_SHOWN = frozenset({EntryKind.FILE, EntryKind.DIRECTORY})
MAX_REPEATED_CHARACTERS = 32 * 2**20
"""Longest sum of what an answer about a directory says again for each entry at a client's wish."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A list of folders (`folder` is None), a folder (`address.path` is ROOT), or an entry in one.

    `entry` is None for lists and folders, and if there is no such file or directory: `is_there` tells.
    """

    address: Address
    folder: VFolder | None = None
    entry: Entry | None = None

    @property
    def path(self) -> EntryPath:
        return self.address.path

    @property
    def is_directory(self) -> bool:
        return self.path == ROOT or (self.entry is not None and self.entry.kind is EntryKind.DIRECTORY)

    @property
    def is_there(self) -> bool:
        return self.path == ROOT or self.entry is not None

    @property
    def href(self) -> str:
        return self.address.href(is_directory=self.is_directory)

    @property
    def etag(self) -> str:
        """Entity tag with its quotes; "" for directories, which have none."""
        return f'"{self.entry.etag}"' if self.entry is not None and not self.is_directory else ""


def find(actor: Actor, address: Address) -> Resource:
    """Return what the address names. Raises NotFound if there is no such group or folder; an absent
    entry of a folder is returned, unless a part of its path is no directory.
    """
    if not address.folder:
        if address.group and not _of_group(actor, address.group).exists():
            raise NotFound(_("There is no such folder among yours."))
        return Resource(address)
    folder = _of_group(actor, address.group).filter(name=address.folder).order_by("pk").first()
    if folder is None:
        raise NotFound(_("There is no such folder among yours."))
    if address.path == ROOT:
        return Resource(address, folder)
    if address.path[0].startswith(HIDDEN):
        raise NotFound(_("There is no such file or directory."))
    try:
        path, entry = service.find_entry(actor=actor, folder_id=folder.pk, path="/".join(address.path))
    except (EntryMissing, WrongKind):
        return Resource(address, folder)
    found = Address(address.group, address.folder, path)
    return Resource(found, folder, entry if entry.kind in _SHOWN else None)


def members(actor: Actor, resource: Resource) -> list[Resource]:
    """Return what the list, folder or directory contains, without what no file manager can use:
    links, devices, names that are not UTF-8. Raises WrongKind, StorageUnavailable, LimitExceeded.
    """
    address, folder = resource.address, resource.folder
    if folder is None:
        return list(_folders_in(actor, address))
    entries = service.list_whole_directory(actor=actor, folder_id=folder.pk, path="/".join(resource.path))
    return [
        Resource(Address(address.group, address.folder, (*resource.path, entry.name)), folder, entry)
        for entry in entries
        if entry.kind in _SHOWN and is_addressable(entry.name)
    ]


def _folders_in(actor: Actor, address: Address) -> Iterator[Resource]:
    """Yield the folders of the list; at the top also the groups, by name."""
    for folder in _of_group(actor, address.group).order_by("name", "pk"):
        yield Resource(Address(address.group, folder.name), folder)
    if address.group:
        return
    others = own_folders(actor).exclude(owner_id=actor.user_id or NOBODY)
    for name in sorted({_group_of(folder) for folder in others}):
        yield Resource(Address(name))


def _of_group(actor: Actor, group: str) -> QuerySet[VFolder]:
    """Return the folders of a group that the actor works with; "": the actor's own."""
    folders = own_folders(actor)
    if not group:
        return folders.filter(owner_id=actor.user_id or NOBODY)
    name = group.removeprefix(GROUP_SIGN)
    return folders.filter(
        Q(project__name=name) | (Q(owner__email=name) & ~Q(owner_id=actor.user_id or NOBODY))
    )


def _group_of(folder: VFolder) -> str:
    owner = folder.project.name if folder.project else folder.owner.email if folder.owner else ""
    return f"{GROUP_SIGN}{owner}"


def address_of(actor: Actor, folder: VFolder) -> Address:
    """Return the address of a folder that the actor works with."""
    return Address("" if folder.owner_id == actor.user_id else _group_of(folder), folder.name)


@dataclass(frozen=True, slots=True)
class View:
    """Facts of which the properties of one resource are made."""

    resource: Resource
    locks: Sequence[ActiveLock] = ()
    own: Mapping[str, str] = field(default_factory=dict)  # properties that clients defined
    left_bytes: int | None = None  # of the tightest limit; None if unlimited or not asked for

    @property
    def modified_at(self) -> datetime:
        entry, folder = self.resource.entry, self.resource.folder
        if entry is not None:
            return entry.modified_at
        return folder.created_at if folder is not None else _LONG_AGO


_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def _resource_type(view: View) -> str:
    if view.resource.is_directory:
        return "<D:resourcetype><D:collection/></D:resourcetype>"
    return "<D:resourcetype/>"


def _display_name(view: View) -> str:
    address = view.resource.address
    name = address.path[-1] if address.path else address.folder or address.group or "Berth"
    return f"<D:displayname>{multistatus.text_of(display_name(name))}</D:displayname>"


def _length(view: View) -> str:
    entry = view.resource.entry
    if entry is None or view.resource.is_directory:
        return ""
    return f"<D:getcontentlength>{entry.size_bytes}</D:getcontentlength>"


def _content_type(view: View) -> str:
    if view.resource.is_directory:
        return ""
    return "<D:getcontenttype>application/octet-stream</D:getcontenttype>"


def _etag(view: View) -> str:
    etag = view.resource.etag
    return f"<D:getetag>{etag}</D:getetag>" if etag else ""


def _modified(view: View) -> str:
    return f"<D:getlastmodified>{http_date(view.modified_at.timestamp())}</D:getlastmodified>"


def _created(view: View) -> str:
    """Windows shows files only if they have it. The disk does not know it: the time of the change."""
    return f"<D:creationdate>{multistatus.utc_text(view.modified_at)}</D:creationdate>"


def _lock_discovery(view: View) -> str:
    return multistatus.lock_discovery(view.locks)


def _supported_lock(view: View) -> str:
    if view.resource.folder is None:
        return ""
    return f"<D:supportedlock>{multistatus.SUPPORTED_LOCKS}</D:supportedlock>"


def _used(view: View) -> str:
    folder = view.resource.folder
    return f"<D:quota-used-bytes>{folder.size_bytes}</D:quota-used-bytes>" if folder is not None else ""


_LIVE: dict[str, Callable[[View], str]] = {
    "{DAV:}resourcetype": _resource_type,
    "{DAV:}displayname": _display_name,
    "{DAV:}getcontentlength": _length,
    "{DAV:}getcontenttype": _content_type,
    "{DAV:}getetag": _etag,
    "{DAV:}getlastmodified": _modified,
    "{DAV:}creationdate": _created,
    "{DAV:}lockdiscovery": _lock_discovery,
    "{DAV:}supportedlock": _supported_lock,
}


def _available(view: View) -> str:
    left = view.left_bytes
    return "" if left is None else f"<D:quota-available-bytes>{left}</D:quota-available-bytes>"


AVAILABLE = "{DAV:}quota-available-bytes"
_ON_REQUEST = {"{DAV:}quota-used-bytes": _used, AVAILABLE: _available}
PROTECTED = frozenset({*_LIVE, *_ON_REQUEST})
"""Properties that no client may set."""


def require_describable(wanted: PropFind, count: int) -> None:
    """Raise LimitExceeded if naming what `count` entries lack would be most of a huge answer."""
    unknown = [name for name in wanted.names if name not in PROTECTED] if wanted.wish is Wish.SOME else []
    _require_moderate(sum(len(multistatus.name_of(name)) for name in unknown), count)


def _require_moderate(characters: int, count: int) -> None:
    if characters * count > MAX_REPEATED_CHARACTERS:
        raise LimitExceeded(
            _("The answer would repeat {characters} characters for each of {count} entries.").format(
                characters=characters, count=count
            ),
            hint=_("Ask for fewer properties, or for one entry at a time."),
        )


def describe(wanted: PropFind, view: View) -> str:
    """Return the response of one resource to a PROPFIND."""
    href = view.resource.href
    if wanted.wish is Wish.NAMES:
        names = [name for name, write in _LIVE.items() if write(view)]
        return multistatus.response(href, map(multistatus.name_of, [*names, *view.own]))
    if wanted.wish is Wish.ALL:
        more = [_value(name, view) for name in wanted.names if name not in _LIVE and name not in view.own]
        return multistatus.response(
            href, [*(write(view) for write in _LIVE.values()), *view.own.values(), *more]
        )
    values = {name: _value(name, view) for name in wanted.names}
    return multistatus.response(href, values.values(), [name for name, value in values.items() if not value])


def _value(name: str, view: View) -> str:
    writer = _LIVE.get(name) or _ON_REQUEST.get(name)
    return writer(view) if writer is not None else view.own.get(name, "")


def free_bytes(folder: VFolder | None) -> int | None:
    """Return the bytes that limits leave to the folder; None if there are no limits."""
    return min((state.left for state in byte_limits([folder])), default=None) if folder else None


def views(resource: Resource, below: Sequence[Resource], left_bytes: int | None = None) -> Iterator[View]:
    """Return the views of a resource and of its members, with a few queries for all, made now. Raises
    LimitExceeded if the locks that cover all members are too much to repeat for each.
    """
    folder = resource.folder
    if folder is None:
        return map(View, (resource, *below))
    own = properties_in(folder, resource.path) if below else {}
    locks = locks_below(folder, resource.path) if below else locks_on(folder, resource.path)
    deep = [lock for lock in locks if lock.is_deep and len(lock.path) <= len(key_of(resource.path))]
    _require_moderate(sum(len(lock.owner) + len(lock.path) for lock in deep), len(below))
    first = View(resource, active_locks(resource, locks), properties_of(folder, resource.path), left_bytes)
    return chain((first,), (_member_view(member, locks, own) for member in below))


def _member_view(member: Resource, locks: Sequence[DavLock], own: Mapping[str, dict[str, str]]) -> View:
    key = key_of(member.path) if locks or own else ""
    return View(member, active_locks(member, locks) if locks else (), own.get(key, {}))


def active_locks(resource: Resource, locks: Iterable[DavLock]) -> list[ActiveLock]:
    """Return those of these locks that cover the resource, as clients see them."""
    key, address = key_of(resource.path), resource.address
    found = []
    for lock in locks:
        is_above = lock.is_deep and (not lock.path or key.startswith(f"{lock.path}/"))
        if lock.path == key or is_above:
            root = Address(address.group, address.folder, tuple(lock.path.split("/")) if lock.path else ROOT)
            href = root.href(is_directory=is_above or resource.is_directory)
            found.append(
                ActiveLock(token_text(lock), href, lock.is_exclusive, lock.is_deep, lock.owner, lock.left_s())
            )
    return found
