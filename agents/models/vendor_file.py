"""Table of the accelerator vendors that administrators describe."""

from django.conf import settings
from django.db import models

from common import clock


class VendorFile(models.Model):
    """Vendor of accelerators that is described by the names of its device files; `form` are the values
    of `DeviceFileVendor`. Earlier values are in the audit log.
    """

    name = models.CharField(max_length=32, unique=True)
    form = models.JSONField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=clock.now)
    updated_at = models.DateTimeField(default=clock.now)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
