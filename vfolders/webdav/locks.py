"""Locks of WebDAV, in the database, so that all web processes agree. They bind WebDAV clients only:
pages, REST and sessions write regardless.

A lock covers its entry, and everything below it if it is deep. A write must name the token of each
lock that covers what it changes; of several shared locks on one entry, one. Tokens count for the
user who made the lock.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from common import clock
from common.actors import Actor
from common.db.advisory_locks import LockTimeout, lock_exclusive
from common.errors import Conflict, LimitExceeded, PermissionDenied
from common.values.text import normalised
from vfolders.core.paths import EntryPath, display_name
from vfolders.models import DavLock, VFolder
from vfolders.webdav.errors import Locked, NoSuchLock

TOKEN_PREFIX = "urn:uuid:"
MAX_LOCKS = 2000
MAX_TIMEOUT_S, DEFAULT_TIMEOUT_S = 3600, 600
WAIT_S = 5.0


def key_of(path: EntryPath) -> str:
    """Return the path as tables of WebDAV store it."""
    return normalised("/".join(path))


def token_text(lock: DavLock) -> str:
    return f"{TOKEN_PREFIX}{lock.token}"


def create_lock(
    *, actor: Actor, folder: VFolder, path: EntryPath, is_exclusive: bool, is_deep: bool, owner: str, timeout_s: int
) -> DavLock:  # fmt: skip
    """Lock the entry for the actor, who may write to the folder.
    Raises Locked (by a lock that excludes this one), LimitExceeded.
    """
    assert actor.user_id is not None, "a lock is for a person"
    with transaction.atomic():
        _serialise(folder)
        DavLock.objects.filter(folder=folder, expires_at__lte=clock.now()).delete()
        others = locks_below(folder, path) if is_deep else locks_on(folder, path)
        for other in others:
            if is_exclusive or other.is_exclusive:
                raise _locked_by(other)
        if _live(folder).count() >= MAX_LOCKS:
            raise LimitExceeded(
                _("There are {count} locks in the folder already.").format(count=MAX_LOCKS),
                hint=_("Locks end by themselves within an hour."),
            )
        return DavLock.objects.create(
            folder=folder, path=key_of(path), user_id=actor.user_id, is_exclusive=is_exclusive, is_deep=is_deep,
            owner=owner, expires_at=_end(timeout_s),
        )  # fmt: skip


def refresh_lock(
    *, actor: Actor, folder: VFolder, path: EntryPath, tokens: Collection[str], timeout_s: int
) -> DavLock | None:
    """Let the actor's lock on the entry that has one of these tokens go on for `timeout_s`; return
    it, or None if there is none.
    """
    for lock in locks_on(folder, path):
        if token_text(lock) in tokens and lock.user_id == actor.user_id:
            lock.expires_at = _end(timeout_s)
            lock.save(update_fields=["expires_at"])
            return lock
    return None


def delete_lock(*, actor: Actor, folder: VFolder, path: EntryPath, token: str) -> None:
    """End the lock. Raises NoSuchLock, PermissionDenied (another's)."""
    lock = next((each for each in locks_on(folder, path) if token_text(each) == token), None)
    if lock is None:
        raise NoSuchLock(_("The entry has no lock with this token."))
    if lock.user_id != actor.user_id:
        raise PermissionDenied(_("This lock belongs to somebody else."))
    lock.delete()


def forget_locks(folder: VFolder, path: EntryPath) -> None:
    """Delete the locks on an entry that is gone or moved, and those below it."""
    DavLock.objects.filter(_at_or_below(path), folder=folder).delete()


def locks_on(folder: VFolder, path: EntryPath) -> list[DavLock]:
    """Return the locks that cover the entry, the outermost first. One query."""
    above = [key_of(path[:count]) for count in range(len(path))]
    covering = _live(folder).filter(Q(path=key_of(path)) | Q(path__in=above, is_deep=True))
    return sorted(covering, key=lambda lock: (len(lock.path), lock.created_at))


def locks_below(folder: VFolder, path: EntryPath) -> list[DavLock]:
    """Return the locks that cover the entry, and those on entries below it. Two queries."""
    below = _live(folder).filter(_at_or_below(path)).exclude(path=key_of(path))
    return [*locks_on(folder, path), *below]


def require_unlocked(
    actor: Actor, folder: VFolder, path: EntryPath, tokens: Collection[str], *, is_deep: bool, is_member: bool
) -> None:
    """Require that no lock forbids the actor, who names these tokens, to change the entry: with
    `is_deep` with all below it, with `is_member` as a name in its directory, too. Raises Locked.
    """
    found = locks_below(folder, path) if is_deep else locks_on(folder, path)
    if is_member and path:
        known = {lock.token for lock in found}
        found += [lock for lock in locks_on(folder, path[:-1]) if lock.token not in known]
    for lock in _in_the_way(actor, found, tokens):
        raise _locked_by(lock)


def _locked_by(lock: DavLock) -> Locked:
    return Locked(
        _("“{name}” is locked by a WebDAV client until {until}.").format(
            name=display_name(lock.path) or lock.folder.name, until=f"{lock.expires_at:%H:%M:%S} UTC"
        ),
        hint=_("Close it there, or wait until the lock ends."),
    )


def _in_the_way(actor: Actor, found: Iterable[DavLock], tokens: Collection[str]) -> Iterator[DavLock]:
    by_path = sorted(found, key=lambda lock: lock.path)
    for _path, group in groupby(by_path, key=lambda lock: lock.path):
        locks = list(group)
        if not any(lock.user_id == actor.user_id and token_text(lock) in tokens for lock in locks):
            yield locks[0]


def _live(folder: VFolder) -> QuerySet[DavLock]:
    return DavLock.objects.filter(folder=folder, expires_at__gt=clock.now()).select_related("folder")


def _at_or_below(path: EntryPath) -> Q:
    key = key_of(path)
    return Q(path=key) | Q(path__startswith=f"{key}/") if key else Q()


def _end(timeout_s: int) -> datetime:
    return clock.now() + timedelta(seconds=min(timeout_s, MAX_TIMEOUT_S))


def _serialise(folder: VFolder) -> None:
    """Let one transaction at a time make locks in the folder. Raises Conflict."""
    try:
        lock_exclusive(f"dav locks of {folder.pk}", wait_s=WAIT_S)
    except LockTimeout as error:
        raise Conflict(_("Too many locks are made at once. Try again.")) from error
