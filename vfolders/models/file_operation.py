"""Table of operations on files that may take long."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_noop

from common import clock
from vfolders.models.folder import VFolder


class FileOperation(models.Model):
    """A copy, move or unpacking that a user asked for, with its progress.

    `request` is {"paths": […], "to": directory, "name": new name or "", "taken": NameTaken}.
    `batch` is the batch of the trash that gets what is replaced. A worker that has not written `beat_at`
    for a while is gone; another one goes on after the `done` first of the paths.
    """

    class Kind(models.TextChoices):
        COPY = "copy", gettext_noop("Copy")
        MOVE = "move", gettext_noop("Move")
        UNPACK = "unpack", gettext_noop("Unpack")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=8, choices=Kind)
    source = models.ForeignKey(VFolder, on_delete=models.CASCADE, related_name="+")
    folder = models.ForeignKey(VFolder, on_delete=models.CASCADE, related_name="file_operations")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    request = models.JSONField()
    batch = models.CharField(max_length=23)
    created_at = models.DateTimeField(default=clock.now)
    beat_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    is_cancelled = models.BooleanField(default=False)
    done = models.IntegerField(default=0)
    entries_done = models.BigIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0, help_text="0 if unknown.")
    paths = models.JSONField(default=list, help_text="Paths of the new entries.")
    left_out = models.JSONField(default=list, help_text="Paths that could not be copied, at most 100.")
    error = models.TextField(blank=True, default="", help_text="In the language of the user.")

    class Meta:
        ordering = ("-created_at", "id")
        indexes = (
            models.Index(fields=("created_at",), condition=Q(ended_at=None), name="file_operation_open"),
            models.Index(fields=("ended_at",), name="file_operation_ended"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"

    @property
    def state(self) -> str:
        if self.ended_at is None:
            return "waiting" if self.beat_at is None else "running"
        if self.is_cancelled:
            return "cancelled"
        return "failed" if self.error else "done"
