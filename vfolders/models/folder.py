"""Table of folders."""

import uuid
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Domain, Project
from common import clock
from common.db.fields import NameField
from vfolders.core.modes import FolderMode
from vfolders.core.states import NAMED, FolderState
from vfolders.models.storage_host import StorageHost

if TYPE_CHECKING:
    from vfolders.models.clone import FolderClone

_HAS_NAME = Q(state__in=sorted(NAMED))


class VFolder(models.Model):
    """A named directory of one user or one project, mounted into sessions.
    Only `lifecycle` writes `state`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = NameField(max_length=64)
    domain = models.ForeignKey(Domain, on_delete=models.PROTECT, related_name="folders")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="folders"
    )
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="folders"
    )
    host = models.ForeignKey(StorageHost, on_delete=models.PROTECT, related_name="folders")
    mode = models.CharField(
        max_length=20,
        choices=[(mode.value, mode.value) for mode in FolderMode],
        default=FolderMode.GENERAL.value,
    )
    state = models.CharField(
        max_length=20,
        choices=[(state.value, state.value) for state in FolderState],
        default=FolderState.READY.value,
        editable=False,
    )
    creator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    size_bytes = models.BigIntegerField(
        default=0, editable=False, help_text="Size as last measured, plus what the portal has written since."
    )
    quota_bytes = models.BigIntegerField(
        null=True,
        blank=True,
        editable=False,
        help_text="Largest size of the folder; null: no limit of its own.",
    )
    is_quota_fixed = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="true if an administrator set the quota, so that the owner cannot change it.",
    )
    used_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Last time that the portal or a measurement saw a change, or a session started with it.",
    )
    file_count = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="Files as last measured; null if unknown."
    )
    measured_at = models.DateTimeField(null=True, blank=True, editable=False)
    is_size_whole = models.BooleanField(
        default=True, editable=False, help_text="false if the folder is larger than was counted."
    )
    measure_at = models.DateTimeField(
        default=clock.now, editable=False, help_text="Time of the next measurement."
    )

    trashed_at = models.DateTimeField(null=True, blank=True, editable=False)
    trashed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        editable=False,
        related_name="+",
    )
    expires_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Time at which a folder in the trash is deleted."
    )

    class Meta:
        ordering = ("name", "id")
        constraints = (
            models.CheckConstraint(
                condition=Q(owner__isnull=False, project__isnull=True)
                | Q(owner__isnull=True, project__isnull=False),
                name="folder_of_user_or_project",
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in FolderState]), name="folder_state_is_known"
            ),
            models.CheckConstraint(
                condition=Q(
                    state=FolderState.TRASHED.value, trashed_at__isnull=False, expires_at__isnull=False
                )
                | (
                    ~Q(state=FolderState.TRASHED.value) & Q(trashed_at=None, trashed_by=None, expires_at=None)
                ),
                name="folder_trash_expires",
            ),
            models.CheckConstraint(
                condition=Q(mode__in=[mode.value for mode in FolderMode]), name="folder_mode_is_known"
            ),
            models.CheckConstraint(
                condition=Q(mode=FolderMode.AUTO_MOUNT.value, name__startswith=".", project=None)
                | (~Q(mode=FolderMode.AUTO_MOUNT.value) & ~Q(name__startswith=".")),
                name="folder_auto_mount_has_dot",
            ),
            models.CheckConstraint(condition=Q(size_bytes__gte=0), name="folder_size_not_negative"),
            models.CheckConstraint(condition=Q(quota_bytes__gt=0), name="folder_quota_positive"),
            models.UniqueConstraint(
                fields=("owner", "name"),
                condition=_HAS_NAME,
                name="folder_name_of_owner",
            ),
            models.UniqueConstraint(
                fields=("project", "name"),
                condition=_HAS_NAME,
                name="folder_name_of_project",
            ),
        )
        indexes = (
            models.Index(
                fields=("measure_at",), condition=Q(state=FolderState.READY.value), name="folder_measure"
            ),
            models.Index(
                fields=("state",), condition=Q(state=FolderState.DELETING.value), name="folder_deleting"
            ),
            models.Index(
                fields=("expires_at",), condition=Q(state=FolderState.TRASHED.value), name="folder_trashed"
            ),
            models.Index(
                fields=("state",), condition=Q(state=FolderState.CLONING.value), name="folder_cloning"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def clone_under_way(self) -> "FolderClone | None":
        """The clone that fills this folder, or None. No query if the folder came with it."""
        return getattr(self, "clone", None) if self.state == FolderState.CLONING else None
