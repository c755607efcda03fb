"""Tables of sizes and quotas: sizes of directories, daily samples, warnings."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Project
from vfolders.models.folder import VFolder
from vfolders.models.storage_host import StorageHost


class DirectoryCount(models.Model):
    """Sizes of a folder's directories, as they were last counted on request, and a request to count
    them (`requested_at`).
    """

    folder = models.OneToOneField(
        VFolder, primary_key=True, on_delete=models.CASCADE, related_name="directory_count"
    )
    requested_at = models.DateTimeField(null=True, blank=True)
    counted_at = models.DateTimeField(null=True, blank=True)
    is_whole = models.BooleanField(default=True, help_text="false if counting ended at a limit.")
    problem = models.CharField(max_length=500, blank=True, default="")
    content = models.BinaryField(default=b"", help_text="As of vfolders.core.directory_sizes.pack_tree.")

    def __str__(self) -> str:
        return f"directories of {self.folder_id}"


class SizeSample(models.Model):
    """Size of all folders of one user or project on one host on a day; the last sample of a day stays."""

    day = models.DateField()
    host = models.ForeignKey(StorageHost, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    size_bytes = models.BigIntegerField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(owner__isnull=False, project__isnull=True)
                | Q(owner__isnull=True, project__isnull=False),
                name="size_sample_of_user_or_project",
            ),
            models.UniqueConstraint(
                fields=("day", "host", "owner", "project"), nulls_distinct=False, name="size_sample_of_day"
            ),
        )

    def __str__(self) -> str:
        return f"{self.size_bytes} bytes on {self.day}"


class QuotaWarning(models.Model):
    """Step of a byte limit of which its people were warned last (`vfolders.core.quota_steps`)."""

    key = models.CharField(primary_key=True, max_length=80)
    step = models.PositiveSmallIntegerField()

    def __str__(self) -> str:
        return f"{self.key} at {self.step} %"
