"""Resumable uploads of one user: created, received in parts, put together, published or removed.

A byte counts as received once it is synced and the row tells so; anything after it in the staged
file is cut before the next part. A part has the lock of the staged file while it is received.
"""

import hashlib
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import ClassVar
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from common import clock
from common.actors import SYSTEM, Actor
from common.audit import audit_log
from common.db.streaming import in_own_thread
from common.errors import BerthError, Conflict, InvalidInput, NotFound, TooManyRequests, invalid_field
from common.i18n import gettext as _
from common.rest.request_body import RequestBody
from vfolders import usage
from vfolders.access_watch import AccessWatch
from vfolders.core.paths import EntryPath, parse_path
from vfolders.core.permissions import Action
from vfolders.core.uploads import Checksum, IfExists, UploadState
from vfolders.files import service as files
from vfolders.models import Upload, VFolder
from vfolders.selectors import access_folder, calls_of, files_of, storage_of
from vfolders.storage.base import EntryExists, EntryMissing, WrongKind
from vfolders.storage.staging import StagedFile, Staging, UploadLocked
from vfolders.uploads import lifecycle
from vfolders.uploads.receiving import SYNC_S, Meter, Receiver

MAX_OPEN = 5000
SETTLED_AFTER = timedelta(minutes=5)
COPIED_BYTES = 64 * 2**20


class WrongOffset(Conflict):
    """The part begins elsewhere than the upload ends."""

    default_code = "wrong_offset"


class WrongChecksum(BerthError):
    """The part is not what its checksum tells."""

    default_code = "wrong_checksum"
    http_status: ClassVar[int] = 460


def visible_uploads(actor: Actor, folder_id: UUID) -> QuerySet[Upload]:
    """Uploads of the actor into this folder, oldest first."""
    rows = Upload.objects.filter(folder_id=folder_id, user_id=actor.user_id or 0, expires_at__gt=clock.now())
    return rows.select_related("folder__host")


def access_upload(actor: Actor, folder_id: UUID, upload_id: UUID) -> Upload:
    """Return an upload of the actor. Raises NotFound (absent, expired, or another user's), and what
    `access_folder` raises.
    """
    access_folder(actor, folder_id, Action.WRITE)
    upload = visible_uploads(actor, folder_id).filter(pk=upload_id).first()
    if upload is None:
        raise NotFound(_("There is no such upload of yours; it may have expired."))
    return upload


def create_upload(
    *,
    actor: Actor,
    folder_id: UUID,
    path: str,
    length_bytes: int | None,
    if_exists: IfExists = IfExists.REPLACE,
    concat: str = "",
    metadata: str = "",
) -> Upload:
    """Create an upload of which nothing has come yet. A part (`concat` is "partial") needs no path.

    Raises LimitExceeded (limits leave less than `length_bytes`), EntryExists (`REFUSE`), InvalidInput.
    """
    folder = access_folder(actor, folder_id, Action.WRITE)
    if concat == "partial":
        path = ""
    else:
        with invalid_field("path"):
            components = parse_path(path)
        place = files.place_of_new_file(folder, components)
        _check_place(folder, place, if_exists)
        path = "/".join(place)
    if visible_uploads(actor, folder_id).exclude(state=UploadState.FINISHED.value).count() >= MAX_OPEN:
        raise TooManyRequests(
            _("You have {count} uploads in this folder that have not ended.").format(count=MAX_OPEN)
        )
    usage.check_bytes_fit(folder, length_bytes or 0)
    return Upload.objects.create(
        folder=folder, user_id=actor.user_id or 0, path=path, if_exists=if_exists, concat=concat, metadata=metadata,
        length_bytes=length_bytes, expires_at=clock.now() + lifecycle.KEPT,
    )  # fmt: skip


def _check_place(folder: VFolder, place: EntryPath, if_exists: IfExists) -> None:
    """Refuse what the end of the upload would, before it is sent."""
    try:
        entry = files_of(folder).stat(place)
    except (EntryMissing, WrongKind):
        return
    if if_exists is IfExists.REFUSE or entry.kind == "directory":
        raise EntryExists(_("There is already an entry named “{name}”.").format(name=place[-1]))


async def receive_part(
    body: RequestBody,
    *,
    actor: Actor,
    upload: Upload,
    offset: int,
    watch: AccessWatch,
    checksum: Checksum | None = None,
    length_bytes: int | None = None,
) -> Upload:
    """Append the body to the upload from `offset` on; publish the file if that was its end. Return the
    fresh row. Without a checksum, what came before an error stays received. `length_bytes` is the
    length of the whole if the client tells it now.

    Raises UploadLocked, WrongOffset, WrongChecksum, and what `Receiver.receive` raises; the upload is
    removed if the actor lost the right to write.
    """
    calls, staging = calls_of(upload.folder.host), _staging(upload)
    staged = await calls.arun(partial(_open, staging, upload))
    try:
        fresh = await in_own_thread(partial(_check_part, upload, offset, length_bytes))
        await calls.arun(partial(staged.cut, offset))
        part = _Part(fresh, staged, offset, checksum)
        await part.receive(body, watch)
        if part.is_whole and not fresh.is_partial:
            await in_own_thread(partial(publish, actor=actor, upload=fresh, staged=staged))
    finally:
        staged.close()
    if part.is_right_lost:
        await in_own_thread(partial(remove, upload))
    if part.error is not None:
        raise part.error
    return await in_own_thread(partial(Upload.objects.select_related("folder__host").get, pk=upload.pk))


def _staging(upload: Upload) -> Staging:
    return Staging(storage_of(upload.folder), upload.folder_id)


def _open(staging: Staging, upload: Upload) -> StagedFile:
    """Open and lock the staged file, which the first part creates. Raises UploadLocked, NotFound."""
    try:
        return staging.open(upload.pk.hex)
    except EntryMissing as error:
        if upload.offset_bytes:
            raise NotFound(_("What came of this upload before is not there any more.")) from error
    return staging.create(upload.pk.hex)


def _remove_staged(staging: Staging, name: str) -> None:
    staging.open(name).close()  # raises UploadLocked while a part is being received
    staging.remove(name)


def _check_part(upload: Upload, offset: int, length_bytes: int | None) -> Upload:
    """Return the row as it is now that the upload is locked, with the length that the client told.
    Raises WrongOffset, NotFound, InvalidInput.
    """
    fresh = Upload.objects.select_related("folder__host").filter(pk=upload.pk).first()
    if fresh is None:
        raise NotFound(_("There is no such upload of yours; it may have expired."))
    if fresh.state != UploadState.RECEIVING or fresh.offset_bytes != offset:
        sentence = _("The upload has {offset} bytes; the part begins at {given}.")
        raise WrongOffset(sentence.format(offset=fresh.offset_bytes, given=offset))
    if length_bytes is not None:
        _set_length(fresh, length_bytes)
    return fresh


def _set_length(upload: Upload, length_bytes: int) -> None:
    """Store the length of a locked upload. Raises InvalidInput."""
    if upload.length_bytes is not None and upload.length_bytes != length_bytes:
        raise InvalidInput(_("The upload has another length already."))
    if length_bytes < upload.offset_bytes:
        raise InvalidInput(_("The upload is longer already."))
    upload.length_bytes = length_bytes
    upload.save(update_fields=["length_bytes"])


class _Part:
    """One part of an upload on its way."""

    def __init__(self, upload: Upload, staged: StagedFile, offset: int, checksum: Checksum | None) -> None:
        self._upload, self._staged, self._offset, self._checksum = upload, staged, offset, checksum
        self._digest = hashlib.new(checksum.algorithm) if checksum else None
        self._recorded = offset
        self.error: BaseException | None = None
        self.is_right_lost = False

    @property
    def is_whole(self) -> bool:
        return self.error is None and self._recorded == self._upload.length_bytes

    async def receive(self, body: RequestBody, watch: AccessWatch) -> None:
        """Receive the body; errors are kept in `error`, as the bytes before them are received."""
        folder, length = self._upload.folder, self._upload.length_bytes
        rest = length - self._offset if length is not None else None
        if body.length is not None and rest is not None and body.length > rest:
            raise InvalidInput(
                _("The part is longer than the {count} bytes that are missing.").format(count=rest)
            )
        expected = self._offset + (body.length if body.length is not None else rest or 0)
        meter = Meter(folder, expected=expected, counted=self._offset)
        receiver = Receiver(
            calls_of(folder.host), self._staged, meter=meter, watch=watch, offset=self._offset,
            on_parts=self._hash if self._digest else None,
            on_synced=None if self._digest else self._record,
        )  # fmt: skip
        try:
            await in_own_thread(meter.begin)
            await receiver.receive(body, most_bytes=length)
            if self._digest is not None:
                self._compare()
                await self._record(receiver.offset)
            if self._recorded == length:
                await in_own_thread(partial(lifecycle.transition, self._upload.pk, to=UploadState.RECEIVED))
        except BaseException as error:  # noqa: BLE001  raised again by the caller, after the lock is gone
            self.error, self.is_right_lost = error, receiver.is_right_lost
        finally:
            await in_own_thread(lambda: meter.settle(self._recorded - self._offset))

    def _hash(self, parts: list[bytes]) -> None:
        for each in parts:
            self._digest.update(each)  # type: ignore[union-attr]

    def _compare(self) -> None:
        if self._checksum and self._digest and self._digest.digest() != self._checksum.digest:
            raise WrongChecksum(
                _("The part does not have its checksum; it was altered on its way."), hint=_("Send it again.")
            )

    async def _record(self, offset: int) -> None:
        await in_own_thread(partial(lifecycle.record_offset, self._upload.pk, offset))
        self._recorded = offset


def publish(*, actor: Actor, upload: Upload, staged: StagedFile | None = None) -> None:
    """Give the file of a RECEIVED upload its name. If a process died meanwhile, a repeat does the rest.
    If the name was taken since the upload began and it must not be replaced, the file gets a number.
    """
    folder, staging = upload.folder, _staging(upload)
    calls = calls_of(folder.host)
    path = parse_path(upload.path)
    opened = None
    try:
        if staged is None:
            staged = opened = calls.run(partial(staging.open, upload.pk.hex))
        if_exists = IfExists.REPLACE if upload.if_exists == IfExists.REPLACE else IfExists.KEEP_BOTH
        published = calls.run(partial(staging.publish, staged, path, if_exists), timeout_s=SYNC_S)
    except EntryMissing:  # it has its name already
        lifecycle.transition(upload.pk, to=UploadState.FINISHED)
        return
    finally:
        if opened is not None:
            opened.close()
    with transaction.atomic():
        text = "/".join(published.path)
        if lifecycle.transition(upload.pk, to=UploadState.FINISHED, path=text) is not None:
            usage.add_bytes(folder, -published.replaced_bytes)
            audit_log.record(actor=actor, action="vfolders.write_file", target=folder, changes={"path": text})


def find_parts(*, actor: Actor, folder_id: UUID, part_ids: list[UUID]) -> list[Upload]:
    """Return the received parts with these ids, in this order. Raises NotFound, Conflict (one is not
    whole).
    """
    found = {
        part.pk: part for part in visible_uploads(actor, folder_id).filter(pk__in=part_ids, concat="partial")
    }
    if len(found) != len(part_ids):
        raise NotFound(_("One of these partial uploads is not there; it may have expired."))
    if any(part.state != UploadState.RECEIVED for part in found.values()):
        raise Conflict(_("One of these partial uploads is not whole yet."))
    return [found[each] for each in part_ids]


async def join_parts(*, actor: Actor, upload: Upload, parts: list[Upload], watch: AccessWatch) -> Upload:
    """Put the parts together to the file of `upload`, publish it, and remove them. If the same parts
    are put together twice at once, each time makes a file, or ends as some are gone.
    """
    folder, staging = upload.folder, _staging(upload)
    calls = calls_of(folder.host)
    meter = Meter(folder, expected=upload.length_bytes or 0)
    target = await calls.arun(partial(_open, staging, upload))
    try:
        await in_own_thread(lambda: meter.reserve(upload.length_bytes or 0))
        offset = 0
        for part in parts:
            source = await calls.arun(partial(staging.open, part.pk.hex))
            try:
                while copied := await calls.arun(
                    target.copier_of(source, offset, COPIED_BYTES), timeout_s=SYNC_S
                ):
                    offset += copied
                    await in_own_thread(watch.check)
            finally:
                source.close()
        await calls.arun(target.syncer(), timeout_s=SYNC_S)
        await in_own_thread(partial(_finish_joined, actor, upload, target, offset))
    except BaseException:
        with suppress(BerthError):  # a stalled host: it is removed as a left-over
            await calls.arun(partial(staging.remove, target.name))
        await in_own_thread(lambda: meter.settle(0))
        await in_own_thread(partial(Upload.objects.filter(pk=upload.pk).delete))
        raise
    finally:
        target.close()
    await in_own_thread(partial(_remove_all, parts))
    return await in_own_thread(partial(Upload.objects.select_related("folder__host").get, pk=upload.pk))


def _finish_joined(actor: Actor, upload: Upload, staged: StagedFile, size_bytes: int) -> None:
    lifecycle.record_offset(upload.pk, size_bytes)
    lifecycle.transition(upload.pk, to=UploadState.RECEIVED)
    publish(actor=actor, upload=upload, staged=staged)


def remove(upload: Upload) -> None:
    """Remove the upload with its bytes; the file of a finished one stays. Raises UploadLocked."""
    if upload.state != UploadState.FINISHED:
        calls, staging = calls_of(upload.folder.host), _staging(upload)
        with suppress(EntryMissing, WrongKind):
            calls.run(partial(_remove_staged, staging, upload.pk.hex))
    with transaction.atomic():
        gone = Upload.objects.select_for_update().filter(pk=upload.pk).first()
        if gone is not None:
            if gone.state != UploadState.FINISHED:
                usage.add_bytes(gone.folder, -gone.offset_bytes)
            gone.delete()


def _remove_all(uploads: list[Upload]) -> None:
    for upload in uploads:
        with suppress(UploadLocked):  # it is being put together once more; that, or its end, removes it
            remove(upload)


def settle_uploads() -> int:
    """Remove expired uploads, and finish those whose process died before their file had its name;
    return their number. May run twice at once; a folder whose host fails now is left for the next run.
    """
    now, done = clock.now(), 0
    rows = Upload.objects.select_related("folder__host")
    for upload in rows.filter(expires_at__lte=now):
        with suppress(BerthError):
            remove(upload)
            done += 1
    unnamed = rows.filter(state=UploadState.RECEIVED.value).exclude(concat="partial")
    for upload in unnamed.filter(expires_at__lte=now + lifecycle.KEPT - SETTLED_AFTER):
        with suppress(BerthError):
            publish(actor=SYSTEM, upload=upload)
            done += 1
    return done


def remove_leftovers() -> int:
    """Remove what killed processes left aside in all folders; return the number of files."""
    removed, known = 0, {each.hex for each in Upload.objects.values_list("pk", flat=True)}
    for folder in VFolder.objects.filter(state="ready").select_related("host").iterator():
        with suppress(BerthError):
            staging = Staging(storage_of(folder), folder.pk)
            removed += calls_of(folder.host).run(partial(staging.remove_leftovers, known))
    return removed
