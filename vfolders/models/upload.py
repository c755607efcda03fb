"""Uploads that clients may resume."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from common import clock
from vfolders.core.uploads import IfExists, UploadState
from vfolders.models.folder import VFolder


class Upload(models.Model):
    """An upload of one user into a folder, in parts; the staged file has the name `id`.

    `offset_bytes` are on the disk whatever happens, and counted in the folder's size. `length_bytes`
    is None until the client tells it. `concat` is the header Upload-Concat. Only
    `uploads.lifecycle` writes `state`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    folder = models.ForeignKey(VFolder, on_delete=models.CASCADE, related_name="uploads")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    path = models.TextField(help_text="Path in the folder; once finished, the one that the file got.")
    if_exists = models.CharField(max_length=10, choices=[(each.value, each.value) for each in IfExists])
    concat = models.TextField(blank=True, default="")
    metadata = models.TextField(blank=True, default="", help_text="Header Upload-Metadata, as it came.")
    length_bytes = models.BigIntegerField(null=True)
    offset_bytes = models.BigIntegerField(default=0)
    state = models.CharField(
        max_length=10,
        choices=[(state.value, state.value) for state in UploadState],
        default=UploadState.RECEIVING.value,
        editable=False,
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ("created_at", "id")
        constraints = (
            models.CheckConstraint(
                condition=Q(offset_bytes__gte=0)
                & (Q(length_bytes__isnull=True) | Q(offset_bytes__lte=F("length_bytes"))),
                name="upload_offset_within_length",
            ),
            models.CheckConstraint(
                condition=Q(state=UploadState.RECEIVING.value) | Q(length_bytes=F("offset_bytes")),
                name="upload_received_whole",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in UploadState]), name="upload_state_is_known"
            ),
        )
        indexes = (models.Index(fields=("expires_at",), name="upload_expiry"),)

    def __str__(self) -> str:
        return self.path

    @property
    def is_partial(self) -> bool:
        """True if it is a part of an upload that is still to be put together."""
        return self.concat == "partial"
