"""Locks and properties that WebDAV clients put on entries of folders.

Both belong to a path, components joined by slashes in Unicode form C; "" is the folder itself.
"""

import uuid

from django.conf import settings
from django.db import models
from django.db.models.functions import MD5

from common import clock
from vfolders.models.folder import VFolder


class DavLock(models.Model):
    """A lock against writes of others by WebDAV until `expires_at`; of no effect afterwards.

    A deep lock covers everything below its directory. `owner` is the client's own XML element about
    who locks.
    """

    token = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    folder = models.ForeignKey(VFolder, on_delete=models.CASCADE, related_name="dav_locks")
    path = models.TextField(blank=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    is_exclusive = models.BooleanField()
    is_deep = models.BooleanField()
    owner = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ("created_at", "token")

    def __str__(self) -> str:
        return f"{self.folder}/{self.path}"

    def left_s(self) -> int:
        """Return the seconds until the lock ends."""
        return max(0, round((self.expires_at - clock.now()).total_seconds()))


class DavProperty(models.Model):
    """A property that a client defined: its name like "{namespace}local", and its whole XML element."""

    folder = models.ForeignKey(VFolder, on_delete=models.CASCADE, related_name="dav_properties")
    path = models.TextField(blank=True)
    name = models.CharField(max_length=400)
    xml = models.TextField()

    class Meta:
        # The path may be longer than an index entry.
        constraints = (models.UniqueConstraint("folder", MD5("path"), "name", name="dav_property_once"),)

    def __str__(self) -> str:
        return self.name
