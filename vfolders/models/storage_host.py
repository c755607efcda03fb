"""Tables of storage hosts and of the rights on them."""

import json

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from accounts.models import Domain, Project, ResourcePolicy
from common import clock
from common.db.fields import NameField, SecretField


class StorageHost(models.Model):
    """A backend that holds folders, and how machines reach it.

    `kind` is one of `vfolders.storage.registry.KINDS`, which declares the settings in `config` (texts) and
    `secrets` (a JSON object of texts, encrypted). The portal's own machine uses the backend's path;
    others as `reach` says. `volume_options` are those of Docker's `local` driver (type, o, device);
    `volume_secret` replaces {secret} in `o`, encrypted.

    `hosts.health` writes what the last check found. With `is_restricted`, only grants give rights on the
    host's folders; else all rights are open to everybody.
    """

    class Reach(models.TextChoices):
        LOCAL = "local", gettext_lazy("The portal's machine only")
        PATH = "path", gettext_lazy("A path that machines share")
        VOLUME = "volume", gettext_lazy("A Docker volume (NFS, SMB, CephFS)")

    name = NameField(max_length=64, unique=True)
    kind = models.CharField(max_length=20, default="local")
    config = models.JSONField(default=dict, blank=True)
    secrets = SecretField(blank=True, default="", db_default="", editable=False)
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
    is_restricted = models.BooleanField(default=False, db_default=False, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    error = models.CharField(
        max_length=500,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="Why the host is unhealthy; empty for a healthy one.",
    )
    checked_at = models.DateTimeField(null=True, blank=True, editable=False)
    total_bytes = models.BigIntegerField(default=0, db_default=0, editable=False, help_text="0: unknown.")
    free_bytes = models.BigIntegerField(default=0, db_default=0, editable=False)
    max_bytes = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="Largest size of all folders on the host together."
    )
    max_user_bytes = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="Largest size of one user's folders on the host."
    )
    max_project_bytes = models.BigIntegerField(
        null=True, blank=True, editable=False, help_text="Largest size of one project's folders on the host."
    )

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
            *(
                models.CheckConstraint(
                    condition=Q(**{f"{column}__isnull": True}) | Q(**{f"{column}__gte": 0}),
                    name=f"storage_host_{column}_not_negative",
                )
                for column in ("max_bytes", "max_user_bytes", "max_project_bytes")
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def secret_values(self) -> dict[str, str]:
        return json.loads(self.secrets) if self.secrets else {}


class StorageGrant(models.Model):
    """Rights of a domain, a project or the users of a policy on a storage host; `rights` is a sum of
    `core.host_rights` bits.
    """

    host = models.ForeignKey(StorageHost, on_delete=models.CASCADE, related_name="grants")
    domain = models.ForeignKey(Domain, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    policy = models.ForeignKey(
        ResourcePolicy, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    rights = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.CheckConstraint(
                condition=Q(domain__isnull=False, project=None, policy=None)
                | Q(domain=None, project__isnull=False, policy=None)
                | Q(domain=None, project=None, policy__isnull=False),
                name="storage_grant_has_one_holder",
            ),
            models.UniqueConstraint(
                fields=("host", "domain", "project", "policy"),
                nulls_distinct=False,
                name="storage_grant_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.holder} {self.holder_name}"

    @property
    def holder(self) -> str:
        """Return “domain”, “project” or “policy”."""
        return "domain" if self.domain_id else "project" if self.project_id else "policy"

    @property
    def holder_name(self) -> str:
        """Return the holder's name; of a project as domain/project."""
        if self.project is not None:
            return f"{self.project.domain.name}/{self.project.name}"
        holder = self.domain or self.policy
        return holder.name if holder else ""
