"""States of uploads; the only code that writes `Upload.state`."""

from datetime import timedelta
from uuid import UUID

import structlog
from django.db import transaction

from common import clock
from vfolders.core.uploads import TRANSITIONS, UploadState
from vfolders.models import Upload

log = structlog.get_logger(__name__)

KEPT = timedelta(days=7)  # an upload of which nothing more comes
KEPT_FINISHED = timedelta(days=1)


def record_offset(upload_id: UUID, offset_bytes: int) -> None:
    """Store how many bytes are on the disk; the upload is kept KEPT from now on."""
    Upload.objects.filter(pk=upload_id, state=UploadState.RECEIVING.value).update(
        offset_bytes=offset_bytes, expires_at=clock.now() + KEPT
    )


@transaction.atomic
def transition(upload_id: UUID, *, to: UploadState, path: str = "") -> Upload | None:
    """Move the upload to state `to`, with `path` as the file's if given, and return its row; None if
    it was already there, or is gone.
    """
    upload = Upload.objects.select_for_update().filter(pk=upload_id).first()
    if upload is None or to not in TRANSITIONS[UploadState(upload.state)]:
        return None
    upload.state = to.value
    upload.path = path or upload.path
    if to is UploadState.FINISHED:
        upload.expires_at = clock.now() + KEPT_FINISHED
    upload.save(update_fields=["state", "path", "expires_at"])
    log.info("upload.transition", upload_id=str(upload_id), to=to)
    return upload
