"""Public download links."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from common import clock
from vfolders.models.folder import VFolder


class FolderLink(models.Model):
    """Link by which anybody downloads one file, or one directory as an archive, until `expires_at` and
    at most `max_downloads` times. Its secret is stored as a hash. `path` is relative to the folder, ""
    for all of it. A revoked link has no row.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    folder = models.ForeignKey(VFolder, on_delete=models.CASCADE, related_name="links")
    path = models.TextField(blank=True)
    code_hash = models.CharField(max_length=64, unique=True)
    creator = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()
    max_downloads = models.PositiveIntegerField(null=True)
    downloads = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("created_at", "id")
        constraints = (
            models.CheckConstraint(
                condition=Q(max_downloads=None) | Q(max_downloads__gte=1, downloads__lte=F("max_downloads")),
                name="link_within_its_downloads",
            ),
        )

    @property
    def name(self) -> str:
        """Name of what is downloaded."""
        return self.path.rpartition("/")[2] or self.folder.name

    def __str__(self) -> str:
        return f"{self.folder}/{self.path}"
