"""Copies of folders that are under way."""

from django.conf import settings
from django.db import models

from common import clock
from common.values.stored_message import StoredMessage
from vfolders.models.folder import VFolder


class FolderClone(models.Model):
    """Copying of one folder into another, which is in CLONING until then. The row goes when the copy is
    whole; `error` says why copying stopped, in words of `StoredMessage`.
    """

    folder = models.OneToOneField(VFolder, on_delete=models.CASCADE, related_name="clone")
    source = models.ForeignKey(VFolder, on_delete=models.SET_NULL, null=True, related_name="+")
    source_name = models.CharField(max_length=64)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    started_at = models.DateTimeField(default=clock.now)
    bytes_total = models.BigIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    files_done = models.BigIntegerField(default=0)
    reserved_bytes = models.BigIntegerField(default=0, help_text="Bytes counted against limits already.")
    error = models.JSONField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.source_name} → {self.folder}"

    @property
    def error_message(self) -> str:
        """Reason why copying stopped, in the reader's language; "" while it goes on."""
        return str(StoredMessage(**self.error)) if self.error else ""
