"""Tables of folders and storage hosts."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from accounts.models import Domain, Project
from common import clock
from common.db.fields import NameField, SecretField
from vfolders.core.modes import FolderMode
from vfolders.core.states import NAMED, FolderState


class StorageHost(models.Model):
    """A backend that holds folders, and how machines reach it.

    `config` of a local host is {"root": path}, relative to the data directory. The portal's own machine
    always mounts from there; others as `reach` says. `volume_options` are those of Docker's `local`
    driver (type, o, device); `volume_secret` replaces {secret} in `o`, encrypted.
    """

    class Kind(models.TextChoices):
        LOCAL = "local"

    class Reach(models.TextChoices):
        LOCAL = "local", gettext_lazy("The portal's machine only")
        PATH = "path", gettext_lazy("A path that machines share")
        VOLUME = "volume", gettext_lazy("A Docker volume (NFS, SMB, CephFS)")

    name = NameField(max_length=64, unique=True)
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.LOCAL)
    config = models.JSONField(default=dict, blank=True)
    reach = models.CharField(
        max_length=8,
        choices=Reach,
        default=Reach.LOCAL,
        db_default=Reach.LOCAL.value,
        editable=False,
        help_text="How machines other than the portal's reach the host: local (not at all), path or volume.",
    )
    agent_path = models.CharField(
        max_length=500,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Path of the host on machines that share it.",
    )
    volume_options = models.JSONField(default=dict, db_default={}, blank=True, editable=False)
    volume_secret = SecretField(blank=True, default="", db_default="", editable=False)
    is_default = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True, help_text="New folders may be created on this host.")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(
                fields=("is_default",), condition=Q(is_default=True), name="storage_host_one_default"
            ),
            models.CheckConstraint(
                condition=Q(reach="local")
                | Q(reach="path", agent_path__startswith="/")
                | (Q(reach="volume") & ~Q(volume_options={})),
                name="storage_host_reach_is_whole",
            ),
        )

    def __str__(self) -> str:
        return self.name


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
